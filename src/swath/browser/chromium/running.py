"""Running: what the pool has to know of a browser. launch.py starts real ones; tests of the pool have others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from patchright.async_api import Browser

__all__ = ["Launch", "Running"]


class Running(Protocol):
    """One Chromium with its driver. `gone` is set when either has ended or was killed; calls fail from then on. `user`
    is whom it runs as, if not as we do."""

    browser: Browser
    version: str
    user: int | None
    gone: asyncio.Event

    @property
    def downloads(self) -> Path:
        """Where Chromium puts what pages make."""
        ...

    def admit(self, window: str) -> None:
        """What a window loads that a page has opened may leave from now on; until then nothing does. By its target."""
        ...

    async def answers(self) -> bool:
        """Whether it still answers; False after some seconds. Never raises."""
        ...

    async def memory_bytes(self) -> int:
        """Of all its processes. Never raises."""
        ...

    async def close(self) -> None:
        """In good order if it can, by force if not. Bounded, never raises, leaves no process and no folder."""
        ...

    async def kill(self) -> None:
        """By force, at once. Otherwise as `close`."""
        ...


Launch: TypeAlias = Callable[[], Awaitable[Running]]
"""Starts one within a bound, or raises and leaves nothing behind."""

"""Patience: an attempt's time does not run while it waits for its turn at a site.

attempt.py bounds the attempt by it, web/passage.py says when it waits, and runner.py asks before it gives it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Patience"]


class Patience:
    """One per attempt. Several requests may wait at once; the time runs again when none does."""

    __slots__ = ("_ends_after", "_since", "_timer", "_waited_seconds", "_waiting")

    def __init__(self) -> None:
        self._timer: asyncio.Timeout | None = None
        self._ends_after = 0.0
        self._since = 0.0
        self._waiting = 0
        self._waited_seconds = 0.0

    @property
    def waited_seconds(self) -> float:
        """How long the attempt has waited so far, a wait under way included."""
        under_way = asyncio.get_running_loop().time() - self._since if self._waiting else 0.0
        return self._waited_seconds + under_way

    def limit(self, seconds: float) -> asyncio.Timeout:
        """Bounds the attempt, waits apart. Raises TimeoutError out of its block."""
        self._timer = asyncio.timeout(seconds)
        return self._timer

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The attempt waits for its turn."""
        self._pause()
        try:
            yield
        finally:
            self._go_on()

    def _pause(self) -> None:
        self._waiting += 1
        if self._waiting > 1:
            return
        self._since = asyncio.get_running_loop().time()
        if self._timer is not None and not self._timer.expired() and (when := self._timer.when()) is not None:
            self._ends_after = when - self._since
            self._timer.reschedule(None)

    def _go_on(self) -> None:
        self._waiting -= 1
        if self._waiting:
            return
        now = asyncio.get_running_loop().time()
        self._waited_seconds += now - self._since
        if self._timer is not None and not self._timer.expired() and self._timer.when() is None:
            self._timer.reschedule(now + self._ends_after)

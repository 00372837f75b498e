"""Place: the right to have one context in one browser of the pool. pool.py hands it out and takes it back.

Also what can go wrong with that. Needs no driver, so that the API can tell an exhausted pool without the extra.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from swath.browser.chromium.running import Running
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

if TYPE_CHECKING:
    from patchright.async_api import Browser

__all__ = ["Place", "PoolExhausted", "Waiter", "crashed", "says_exhausted"]

EXHAUSTED: Final = "pool_exhausted"


class PoolExhausted(Failed):
    """No browser came free in time: a browser_crash by kind, so that the item is tried again. The API says 503."""

    def __init__(self, why: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(Failure.of(FailureKind.BROWSER_CRASH, f"{EXHAUSTED}: {why}", retry_after_seconds))


def says_exhausted(failure: Failure) -> bool:
    """Of a failure that was stored and read again."""
    return failure.kind is FailureKind.BROWSER_CRASH and failure.message.startswith(f"{EXHAUSTED}:")


def crashed(why: str) -> Failed:
    """The browser is gone."""
    return Failed(Failure.of(FailureKind.BROWSER_CRASH, why))


class Place:
    """`lost` is set at once when the browser is gone; calls in it fail by themselves. Give it back still."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.lost = asyncio.Event()
        self.why_lost = ""

    @property
    def browser(self) -> Browser:
        """Raises Failed (browser_crash) when it is gone."""
        if self.lost.is_set():
            raise crashed(self.why_lost)
        return self.running.browser

    def lose(self, why: str) -> None:
        """For the pool: the first reason stays."""
        if not self.lost.is_set():
            self.why_lost = why
            self.lost.set()


class Waiter:
    """Somebody who wants a place, until a time on the boot clock; in the browser `near` if there is a choice."""

    def __init__(self, deadline: float, near: Running | None) -> None:
        self.place: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        self.deadline = deadline
        self.near = near

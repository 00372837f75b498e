"""An event loop on which time passes only while nothing else can: what waits for a second waits for none.

For code that measures with the loop's own clock. On a busy machine a real loop comes late to its timers, and what was
to be in time is not; here nothing is ever late.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

__all__ = ["LoopClock", "at_once", "run_at_once"]

T = TypeVar("T")


class _Hasty(selectors.DefaultSelector):
    """Instead of waiting it puts the clock forward."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready now; it never waits for more."""
        self.now += max(0.0, timeout or 0.0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._hasty = _Hasty()
        super().__init__(self._hasty)

    def time(self) -> float:
        """What the selector has not waited for."""
        return self._hasty.now


class LoopClock:
    """The Clock port by the time of the running loop."""

    def now(self) -> float:
        return 1_700_000_000.0 + self.boot()

    def boot(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def run_at_once(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`. Not for what waits for threads, sockets or processes."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)


def at_once(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Runs a test in this way."""

    @wraps(test)
    def run() -> None:
        async def main() -> None:
            await test()

        run_at_once(main())

    return run

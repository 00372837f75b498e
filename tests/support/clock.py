"""A fake clock: time passes only when a test advances it."""

from __future__ import annotations

import asyncio
import heapq
import itertools

__all__ = ["FakeClock"]

_START = 1_750_000_000.0  # some day in 2025: an ordinary date in messages and records
_BOOT = 1_000.0  # not the same as `now`, so that mixing the two up shows


class FakeClock:
    """Deterministic: sleepers wake in the order of their times, and those of one time in the order they lay down."""

    def __init__(self, now: float = _START, boot: float = _BOOT) -> None:
        self._now = now
        self._boot = boot
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def boot(self) -> float:
        return self._boot

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        awake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._boot + seconds, next(self._order), awake))
        await awake

    @property
    def sleeping(self) -> int:
        """How many wait for the time to pass."""
        return sum(1 for _, _, awake in self._sleepers if not awake.done())

    def advance(self, seconds: float) -> None:
        """Lets both clocks run on, and wakes whoever has slept long enough; they go on when the loop next turns."""
        if seconds < 0:
            raise ValueError("time does not run backwards; jump_wall sets the wall clock back")
        self._now += seconds
        self._boot += seconds
        while self._sleepers and self._sleepers[0][0] <= self._boot:
            _, _, awake = heapq.heappop(self._sleepers)
            if not awake.done():  # its task was cancelled
                awake.set_result(None)

    def jump_wall(self, seconds: float) -> None:
        """Sets the wall clock forward or back, as people and time servers do; `boot` does not notice."""
        self._now += seconds

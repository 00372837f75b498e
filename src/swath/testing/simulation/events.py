"""Events: what happens when, in the order of time; the only thing that moves the clock of a simulation."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Awaitable, Callable

from swath.testing.clock import FakeClock

__all__ = ["Act", "Events"]

Act = Callable[[], Awaitable[None] | None]


class Events:
    """Of two at one time the first that was planned goes first, so that a run is the same for the same seed."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._began = clock.boot()
        self._order = itertools.count()
        self._planned: list[tuple[float, int, Act]] = []
        self.played = 0

    @property
    def now(self) -> float:
        """Seconds on the boot clock."""
        return self._clock.boot()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock.boot() - self._began

    def at(self, when: float, act: Act) -> None:
        """Plans something; what should have been before now comes now."""
        heapq.heappush(self._planned, (when, next(self._order), act))

    def after(self, seconds: float, act: Act) -> None:
        """The same, from now on."""
        self.at(self._clock.boot() + seconds, act)

    async def play(self, over: Callable[[], bool]) -> None:
        """Until it is over or nothing is planned any more."""
        while self._planned and not over():
            when, _, act = heapq.heappop(self._planned)
            if when > self._clock.boot():
                self._clock.advance(when - self._clock.boot())
            self.played += 1
            doing = act()
            if doing is not None:
                await doing

"""Instants: when this worker may send to one site, as reserved from the site's bucket (domain/bucket.py).

Filled by lane.py with the site book's answers, and used up in order; one that is missed is lost.
"""

from __future__ import annotations

import heapq
import math
from typing import Final

from swath.domain.bucket import LATE_SECONDS, Slice

__all__ = ["EARLY_SECONDS", "Instants"]

EARLY_SECONDS: Final = 0.001  # timers are no more exact than this, and waiting again would cost more than it gains


class Instants:
    """Times on the boot clock. `end` is where the last slice ends, whether it is used or not."""

    __slots__ = ("_slices", "end")

    def __init__(self) -> None:
        self._slices: list[tuple[float, float, int]] = []  # a heap: the next instant, the interval, how many are left
        self.end = 0.0

    def add(self, reserved: Slice, every: int = 1) -> None:
        """A further slice, or every so many-th instant of it. It may lie between the instants of others."""
        count = -(-reserved.count // every)
        heapq.heappush(self._slices, (reserved.first, reserved.interval * every, count))
        self.end = max(self.end, reserved.first + reserved.count * reserved.interval)

    def take(self, now: float) -> float | None:
        """The first instant that has come and is not too long ago."""
        self._lose(now - LATE_SECONDS)
        if not self._slices or self._slices[0][0] > now + EARLY_SECONDS:
            return None
        taken = self._slices[0][0]
        self._skip(1)
        return taken

    def next_at(self) -> float | None:
        """The first one left, which may be past."""
        return self._slices[0][0] if self._slices else None

    def count(self, now: float) -> int:
        """How many are left."""
        self._lose(now - LATE_SECONDS)
        return sum(left for _, _, left in self._slices)

    def give_back(self, now: float) -> tuple[Slice, ...]:
        """Gives up all those to come, for others to use."""
        self._lose(now)
        given = tuple(Slice(at, interval, left) for at, interval, left in self._slices)
        self._slices.clear()
        return given

    def drop(self) -> None:
        """Gives them all up, without having them back."""
        self._slices.clear()

    def thin(self, every: int) -> None:
        """Gives up all but every so many-th of each slice."""
        self._slices = [(at, interval * every, -(-left // every)) for at, interval, left in self._slices]

    def _lose(self, oldest: float) -> None:
        while self._slices and self._slices[0][0] < oldest:
            at, interval, _ = self._slices[0]
            self._skip(math.ceil((oldest - at) / interval))

    def _skip(self, instants: int) -> None:
        at, interval, left = self._slices[0]
        if left > instants:
            heapq.heapreplace(self._slices, (at + instants * interval, interval, left - instants))
        else:
            heapq.heappop(self._slices)

"""Instants: when this worker may send to one site, as reserved from the site's bucket (domain/bucket.py).

Filled by lane.py with the site book's answers, and used up in order; one that is missed is lost.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from swath.domain.bucket import LATE_SECONDS, Slice

__all__ = ["EARLY_SECONDS", "Instants"]

EARLY_SECONDS: Final = 0.001  # timers are no more exact than this, and waiting again would cost more than it gains


class Instants:
    """Times on the boot clock. `end` is where the last slice ends, whether it is used or not."""

    __slots__ = ("_interval", "_later", "_left", "_next", "end")

    def __init__(self) -> None:
        self._next = 0.0
        self._interval = 0.0
        self._left = 0
        self._later: deque[Slice] = deque()
        self.end = 0.0

    def add(self, reserved: Slice) -> None:
        """A further slice, which lies behind those at hand."""
        self._later.append(reserved)
        self.end = reserved.first + reserved.count * reserved.interval
        if not self._left:
            self._turn_over()

    def take(self, now: float) -> float | None:
        """The first instant that has come and is not too long ago."""
        self._lose(now - LATE_SECONDS)
        if not self._left or self._next > now + EARLY_SECONDS:
            return None
        taken = self._next
        self._left -= 1
        self._next += self._interval
        if not self._left:
            self._turn_over()
        return taken

    def next_at(self) -> float | None:
        """The first one left, which may be past."""
        return self._next if self._left else None

    def count(self, now: float) -> int:
        """How many are left."""
        self._lose(now - LATE_SECONDS)
        return self._left + sum(reserved.count for reserved in self._later)

    def drop(self) -> None:
        """Gives them all up, without having them back."""
        self._left = 0
        self._later.clear()

    def _lose(self, oldest: float) -> None:
        while self._left and self._next < oldest:
            missed = min(self._left, math.ceil((oldest - self._next) / self._interval))
            self._left -= missed
            self._next += missed * self._interval
            if not self._left:
                self._turn_over()

    def _turn_over(self) -> None:
        if self._later:
            reserved = self._later.popleft()
            self._next, self._interval, self._left = reserved.first, reserved.interval, reserved.count

"""Cadence: how often a lane speaks to the site book when it needs nothing: often while shares move, seldom in calm.

Asked by lane.py. Pure; times are seconds on the boot clock.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["HURRY_SECONDS", "REPORT_SECONDS", "Cadence"]

HURRY_SECONDS: Final = 0.01
OWED_SECONDS: Final = 0.05  # while the book owes us slots
REPORT_SECONDS: Final = 0.1
CALM_SECONDS: Final = 0.8  # when nothing changes
ALONE_SECONDS: Final = 1.0  # nobody else has reserved anything for so long


class Cadence:
    """`next_at` is when the next word is due, at once to begin with; `told` is the demand that was last told."""

    __slots__ = ("_crowded_at", "_seconds", "asked_at", "next_at", "told")

    def __init__(self, now: float) -> None:
        self.told = 0
        self.asked_at = -math.inf
        self.next_at = -math.inf
        self._seconds = REPORT_SECONDS
        self._crowded_at = now

    def ask(self, now: float, demand: int) -> None:
        """The book is asked."""
        self.told, self.asked_at, self.next_at = demand, now, now + self._seconds

    def answer(self, now: float, *, owed: bool, stuck: bool, changed: bool) -> None:
        """It has answered. Stuck: somebody waits for a slot. Owed: which should be ours."""
        if stuck and owed:
            self._seconds = OWED_SECONDS
        elif stuck or changed:
            self._seconds = REPORT_SECONDS
        else:
            self._seconds = min(CALM_SECONDS, max(REPORT_SECONDS, 2 * self._seconds))
        self.next_at = now + self._seconds

    def hasten(self, now: float, seconds: float) -> None:
        """There is something to tell within so many seconds."""
        self.next_at = min(self.next_at, now + seconds)

    def crowd(self, now: float) -> None:
        """Somebody else has reserved instants."""
        self._crowded_at = now

    def is_alone(self, now: float) -> bool:
        """Whether nobody has for a while, so that whole slices hold nobody up."""
        return now - self._crowded_at >= ALONE_SECONDS

"""Cadence: how often a lane speaks to the site book when it needs nothing: often while shares move, seldom in calm.

Asked by lane.py; the book says at what tempo. Pure; times are seconds on the boot clock.
"""

from __future__ import annotations

import math
from typing import Final

from swath.ports.site_book import Tempo

__all__ = ["Cadence"]

ALONE_SECONDS: Final = 1.0  # nobody else has reserved anything for so long


class Cadence:
    """`next_at` is when the next word is due, at once to begin with; `told` is the demand that was last told."""

    __slots__ = ("_crowded_at", "_seconds", "_tempo", "asked_at", "next_at", "told")

    def __init__(self, tempo: Tempo, now: float) -> None:
        self._tempo = tempo
        self.told = 0
        self.asked_at = -math.inf
        self.next_at = -math.inf
        self._seconds = tempo.report_seconds
        self._crowded_at = now

    def ask(self, now: float, demand: int) -> None:
        """The book is asked."""
        self.told, self.asked_at, self.next_at = demand, now, now + self._seconds

    def answer(self, now: float, *, owed: bool, stuck: bool, changed: bool) -> None:
        """It has answered. Stuck: somebody waits for a slot. Owed: which should be ours."""
        tempo = self._tempo
        if stuck and owed:
            self._seconds = tempo.owed_seconds
        elif stuck or changed:
            self._seconds = tempo.report_seconds
        else:
            self._seconds = min(tempo.calm_seconds, max(tempo.report_seconds, 2 * self._seconds))
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

"""What a worker holds of a site's limits: its share of the open requests, its reserved send times, when to ask again.

Pure. Times are seconds on the boot clock.
"""

from __future__ import annotations

import heapq
import math
import sys
from typing import Final

from swath.domain.token_bucket import LATE_INSTANT_SECONDS, RateSlice
from swath.ports.site_state import SiteShareGrant, SyncIntervals

__all__ = ["EARLY_SECONDS", "ConcurrencyShare", "ReportInterval", "ReservedTimes"]


class ConcurrencyShare:
    """`limit` is the site's concurrency; None where there is none, as in the bucket of a job."""

    __slots__ = ("_valid_until", "answered", "ceiling", "in_use", "limit", "target")

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.in_use = 0
        self.answered = limit is None
        self.ceiling = sys.maxsize if limit is None else 0
        self.target = self.ceiling
        self._valid_until = math.inf if limit is None else 0.0

    def has_room(self, now: float) -> bool:
        """Whether one more request may be opened."""
        return self.in_use < self.ceiling and now < self._valid_until

    def room(self) -> int:
        """How many more may be, or might be after the first answer."""
        return max(0, (self.ceiling if self.answered else self.limit or 0) - self.in_use)

    def apply(self, terms: SiteShareGrant, asked_at: float) -> None:
        """Takes the book's answer: more at once, fewer as requests end. It holds from the time of the question."""
        if self.limit is not None:
            self.ceiling, self.target, self.answered = terms.slots, terms.target, True
            self._valid_until = asked_at + terms.share_seconds
            self.shrink()

    def shrink(self) -> bool:
        """Gives up what is free beyond the target; whether there was anything."""
        before = self.ceiling
        if self.target < before:
            self.ceiling = max(self.target, self.in_use)
        return self.ceiling < before

    def told(self, now: float) -> int:
        """The ceiling to report: the share, or what is still open when it has run out meanwhile."""
        if now >= self._valid_until:
            self.ceiling = 0
        return max(self.ceiling, self.in_use)


EARLY_SECONDS: Final = 0.001  # timers are no more exact than this, and waiting again would cost more than it gains


class ReservedTimes:
    """Times on the boot clock. `end` is where the last slice ends, whether it is used or not."""

    __slots__ = ("_slices", "end")

    def __init__(self) -> None:
        self._slices: list[tuple[float, float, int]] = []  # a heap: the next instant, the interval, how many are left
        self.end = 0.0

    def add(self, reserved: RateSlice, every: int = 1) -> None:
        """A further slice, or every so many-th instant of it. It may lie between the instants of others."""
        count = -(-reserved.count // every)
        heapq.heappush(self._slices, (reserved.first, reserved.interval * every, count))
        self.end = max(self.end, reserved.first + reserved.count * reserved.interval)

    def take(self, now: float) -> float | None:
        """The first instant that has come and is not too long ago."""
        self._lose(now - LATE_INSTANT_SECONDS)
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
        self._lose(now - LATE_INSTANT_SECONDS)
        return sum(left for _, _, left in self._slices)

    def give_back(self, now: float) -> tuple[RateSlice, ...]:
        """Gives up all those to come, for others to use."""
        self._lose(now)
        given = tuple(RateSlice(at, interval, left) for at, interval, left in self._slices)
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


ALONE_SECONDS: Final = 1.0  # nobody else has reserved anything for so long


class ReportInterval:
    """`next_at` is when the next word is due, at once to begin with; `told` is the demand that was last told."""

    __slots__ = ("_crowded_at", "_seconds", "_tempo", "asked_at", "next_at", "told")

    def __init__(self, tempo: SyncIntervals, now: float) -> None:
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

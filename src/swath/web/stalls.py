"""Ends bodies that drip or stall, long before the time of their request is over. One look at all of them now and then.

Used by wreq_exchange while it reads. A timer for each would cost more than the whole check of an address.
"""

from __future__ import annotations

from typing import Final

from swath.web.deadlines import Deadlines, TimeLimit
from swath.web.decode import Body

__all__ = ["Pace", "Stalls"]

_LOOKS_PER_WINDOW: Final = 5


class Pace:
    """One body on its way: how much there was when its window began. `too_slow` once it was given up."""

    __slots__ = ("body", "ends_at", "seen_bytes", "timer", "too_slow")

    def __init__(self, timer: TimeLimit) -> None:
        self.timer = timer
        self.body: Body | None = None
        self.ends_at = 0.0
        self.seen_bytes = 0
        self.too_slow = False


class Stalls:
    """A body must bring so many bytes in each window, the first time within the grace. Belongs to one event loop."""

    def __init__(
        self, deadlines: Deadlines, min_bytes_per_second: int, window_seconds: float, grace_seconds: float
    ) -> None:
        self._deadlines = deadlines
        self._min_bytes_per_second = min_bytes_per_second
        self._enough_bytes = min_bytes_per_second * window_seconds
        self._window_seconds = window_seconds
        self._grace_seconds = grace_seconds
        self._under_way: set[Pace] = set()
        self._looking = False

    def begin(self, pace: Pace, body: Body, unseen_bytes: int = 0) -> None:
        """From now on the timer of the pace goes off when the body comes too slowly. To be ended, whatever happens.

        Of a body that is read at once nothing is seen on its way: it has the time that its `unseen_bytes` may take.
        """
        loop = self._deadlines.loop
        pace.body = body
        pace.ends_at = loop.time() + self._grace_seconds + unseen_bytes / self._min_bytes_per_second
        self._under_way.add(pace)
        if not self._looking:
            self._looking = True
            loop.call_later(self._window_seconds / _LOOKS_PER_WINDOW, self._look)

    def end(self, pace: Pace) -> None:
        """The body has come, or will not."""
        self._under_way.discard(pace)

    def _look(self) -> None:
        loop = self._deadlines.loop
        self._looking = bool(self._under_way)
        if self._looking:
            loop.call_later(self._window_seconds / _LOOKS_PER_WINDOW, self._look)
        now = loop.time()
        for pace in self._under_way:
            if now < pace.ends_at or pace.body is None or pace.timer.expired:
                continue
            if pace.body.wire_bytes - pace.seen_bytes < self._enough_bytes:
                pace.too_slow = True
                pace.timer.time_is_over()
            pace.seen_bytes = pace.body.wire_bytes
            pace.ends_at = now + self._window_seconds

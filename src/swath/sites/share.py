"""Share: how many requests this worker may have open at one site, and how many it has. The rules: domain/lease.py.

The site book's answers come through lane.py.
"""

from __future__ import annotations

import math
import sys

from swath.ports.site_book import Terms

__all__ = ["Share"]


class Share:
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

    def apply(self, terms: Terms, asked_at: float) -> None:
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

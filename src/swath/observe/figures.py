"""Figures of this process, counted where things happen (O2): tries, items, requests, bytes, commits.

Counting is adding to plain numbers on the event loop, so that an item costs next to nothing and no library is needed.
After: metrics.py hands them to Prometheus when somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from swath.observe.domains import DomainRequests

__all__ = ["FIGURES", "NO_KIND", "Figures", "Spread"]

NO_KIND: Final = "none"
ITEM_SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)
COMMIT_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Spread:
    """How long something took: how often, by how long at most."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Once more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def up_to(self) -> list[tuple[str, float]]:
        """As Prometheus wants it: how many took no longer than each bound."""
        so_far, found = 0, []
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            so_far += count
            found.append((bound, float(so_far)))
        return found


class Figures:
    """Labels are bounded: states, kinds, routes, the names of site policies, and the busiest domains."""

    __slots__ = (
        *("attempt_seconds", "attempts", "cache_hits", "commit_seconds", "committed_items", "items", "received_bytes"),
        *("browsers", "domain_requests", "request_seconds", "requests", "site_requests"),
    )

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], int] = defaultdict(int)
        self.attempts: dict[str, int] = defaultdict(int)
        self.attempt_seconds = Spread(ITEM_SECONDS)
        self.site_requests: dict[str, int] = defaultdict(int)
        self.domain_requests = DomainRequests()
        self.received_bytes: dict[str, int] = defaultdict(int)
        self.cache_hits = 0
        self.commit_seconds = Spread(COMMIT_SECONDS)
        self.committed_items = 0
        self.requests: dict[tuple[str, str, str], int] = defaultdict(int)
        self.request_seconds: dict[str, Spread] = defaultdict(lambda: Spread(ITEM_SECONDS))
        self.browsers: Callable[[], Mapping[str, int]] | None = None  # asked when somebody wants to know

    def attempt_over(self, seconds: float, kind: str = NO_KIND) -> None:
        """One try at an item came to something."""
        self.attempts[kind] += 1
        self.attempt_seconds.add(seconds)

    def item_ended(self, state: str, kind: str = NO_KIND) -> None:
        """The store has accepted the end of an item."""
        self.items[state, kind] += 1

    def committed(self, seconds: float, ends: int) -> None:
        """A group of ends was written."""
        self.commit_seconds.add(seconds)
        self.committed_items += ends

    def answered(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """A request to the API; `route` is the path with its parameters unfilled. None for the time of a stream, which
        lasts as long as somebody reads it."""
        self.requests[method, route, f"{status // 100}xx"] += 1
        if seconds is not None:
            self.request_seconds[route].add(seconds)


FIGURES: Final = Figures()
"""Those of this process."""

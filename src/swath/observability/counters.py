"""Counts attempts, items, requests, bytes and commits of this process, and requests per domain in bounded memory.

Counting adds to plain numbers on the event loop and needs no library. The busiest domains are counted by name, the
others together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from typing import Final

__all__ = ["FIGURES", "MOST_NAMED", "NO_KIND", "OTHER", "DomainRequestCounts", "Histogram", "ProcessCounters"]

MOST_NAMED: Final = 200
MOST_KEPT: Final = 10_000  # domains in memory; a crawl of the whole web must not fill it
OTHER: Final = "other"


class DomainRequestCounts:
    """The count of a name must not go down, because Prometheus takes that for a restart of the process.

    So a domain that becomes one of the busiest is shown with all its requests, and what `other` has already counted of
    it stays there.
    """

    __slots__ = ("_counts", "_in_other", "_other")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._in_other: dict[str, int] = {}  # by domain: how many of its requests `_other` has counted
        self._other = 0

    def add(self, domain: str) -> None:
        """One request was sent to that domain."""
        counts = self._counts
        counts[domain] = counts.get(domain, 0) + 1
        if len(counts) > MOST_KEPT:
            self._forget()

    def shown(self) -> dict[str, int]:
        """The count of each of the busiest domains, then that of `other`, if there are more."""
        busiest = self._busiest(MOST_NAMED)
        self._count_as_other(self._counts.keys() - busiest.keys())
        return {**busiest, OTHER: self._other} if self._other else busiest

    def _busiest(self, most: int) -> dict[str, int]:
        named = ((domain, count) for domain, count in self._counts.items() if domain != OTHER)
        return dict(nlargest(most, named, key=lambda one: one[1]))

    def _count_as_other(self, domains: set[str]) -> None:
        for domain in domains:
            count = self._counts[domain]
            self._other += count - self._in_other.get(domain, 0)
            self._in_other[domain] = count

    def _forget(self) -> None:
        """Only the busier half of the domains stays."""
        kept = self._busiest(MOST_KEPT // 2)
        self._count_as_other(self._counts.keys() - kept.keys())
        self._in_other = {domain: count for domain, count in self._in_other.items() if domain in kept}
        self._counts = kept


NO_KIND: Final = "none"
ITEM_SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)
COMMIT_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class Histogram:
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


class ProcessCounters:
    """Labels are bounded: states, kinds, routes, the names of site policies, and the busiest domains."""

    __slots__ = (
        *("attempt_seconds", "attempts", "cache_hits", "commit_seconds", "committed_items", "items", "received_bytes"),
        *("browsers", "domain_requests", "request_seconds", "requests", "site_requests"),
    )

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], int] = defaultdict(int)
        self.attempts: dict[str, int] = defaultdict(int)
        self.attempt_seconds = Histogram(ITEM_SECONDS)
        self.site_requests: dict[str, int] = defaultdict(int)
        self.domain_requests = DomainRequestCounts()
        self.received_bytes: dict[str, int] = defaultdict(int)
        self.cache_hits = 0
        self.commit_seconds = Histogram(COMMIT_SECONDS)
        self.committed_items = 0
        self.requests: dict[tuple[str, str, str], int] = defaultdict(int)
        self.request_seconds: dict[str, Histogram] = defaultdict(lambda: Histogram(ITEM_SECONDS))
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


FIGURES: Final = ProcessCounters()
"""Those of this process."""

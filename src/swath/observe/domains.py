"""Requests per domain (O2), in bounded memory and as a bounded number of labels: the busiest domains by name, all
others together. Before: web/passage.py counts a request. After: metrics.py shows the counts to Prometheus.
"""

from __future__ import annotations

from heapq import nlargest
from typing import Final

__all__ = ["MOST_NAMED", "OTHER", "DomainRequests"]

MOST_NAMED: Final = 200
MOST_KEPT: Final = 10_000  # domains in memory; a crawl of the whole web must not fill it
OTHER: Final = "other"


class DomainRequests:
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

"""Backlog: what waits in a job, and how many more workers could find something to do there. Pure.

Asked of the store (`LeaseBook.backlog`) by pipeline/dispatch/sweeper.py, and by whoever decides how many workers there
should be (W5).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["Backlog", "is_express", "workers_at"]


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """One job that may run. What the figures count is said by `LeaseBook.backlog`."""

    job_id: str
    priority: int
    items: int
    pending: int
    claimable: int
    limit: int
    worker_ids: frozenset[str] = frozenset()
    on_demand: bool = False
    oldest_seconds: float | None = None

    @property
    def workers(self) -> int:
        """How many are at it."""
        return len(self.worker_ids)

    @property
    def wanted(self) -> int:
        """Workers that would get a lease and a slot if they came now."""
        return max(0, min(self.claimable, self.limit - self.workers))

    @property
    def express(self) -> bool:
        """Whether somebody waits for it."""
        return self.on_demand or is_express(self.priority, self.items)


def workers_at(jobs: Iterable[Backlog]) -> int:
    """How many workers are at any of them; one that is at several counts once."""
    return len({worker_id for job in jobs for worker_id in job.worker_ids})


def is_express(priority: int, items: int) -> bool:
    """A scrape on demand is a job of one item that was ordered to run before others."""
    return items == 1 and priority > 0

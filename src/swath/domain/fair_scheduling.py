"""Decides which job gets the next lease, and counts the work that waits for workers. Pure.

Higher priority first, then fewer items, then age. A job that was passed over too often goes first whatever its rank:
of
k such jobs each gets one of the next 4k leases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

__all__ = ["JobBacklog", "JobCandidate", "count_workers", "is_express", "next_job"]

PATIENCE: Final = 2  # leases per candidate; those that lose patience together are served within another k


class JobCandidate(msgspec.Struct, frozen=True):
    """A job with work now. Of two numbers the lower is that of the older job.

    `served` is how many leases had been granted in all when it last got one, or when it became ready to run.
    """

    priority: int
    items: int
    number: int
    served: int


def next_job(candidates: Sequence[JobCandidate], granted: int) -> JobCandidate | None:
    """`granted` is how many leases were granted in all so far."""
    patience = PATIENCE * len(candidates)
    impatient = [job for job in candidates if granted - job.served >= patience]
    if impatient:
        return min(impatient, key=lambda job: (job.served, job.number))
    return min(candidates, key=lambda job: (-job.priority, job.items, job.number), default=None)


class JobBacklog(msgspec.Struct, frozen=True, kw_only=True):
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


def count_workers(jobs: Iterable[JobBacklog]) -> int:
    """How many workers are at any of them; one that is at several counts once."""
    return len({worker_id for job in jobs for worker_id in job.worker_ids})


def is_express(priority: int, items: int) -> bool:
    """A scrape on demand is a job of one item that was ordered to run before others."""
    return items == 1 and priority > 0

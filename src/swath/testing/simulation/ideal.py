"""The ideal: the earliest instant at which the work could have been done under the limits. Pure.

A lower bound and no schedule: work is taken as a liquid that fills every limit from the moment the job is there, nobody
dies, and no word is ever exchanged. The work is what the attempts took that came to an end.
"""

from __future__ import annotations

import msgspec

from swath.testing.simulation.plan import Plan
from swath.testing.simulation.truth import JobTruth, Truth

__all__ = ["Ideal", "ideal_of"]


class Ideal(msgspec.Struct, frozen=True, kw_only=True):
    """The largest of three bounds, each from the beginning."""

    by_jobs: float
    by_sites: float
    by_workers: float

    @property
    def seconds(self) -> float:
        """No run can be shorter."""
        return max(self.by_jobs, self.by_sites, self.by_workers)


def ideal_of(truth: Truth, plan: Plan) -> Ideal:
    """A job that stops by itself ends when it stops, and is no part of it."""
    jobs = [job for job in truth.jobs.values() if not job.plan.doomed]
    sites = {site: [job for job in jobs if job.plan.site == site] for site in plan.concurrency}
    return Ideal(
        by_jobs=max((_filled([job], job.plan.limit) for job in jobs), default=0.0),
        by_sites=max((_filled(sites[site], limit) for site, limit in plan.concurrency.items()), default=0.0),
        by_workers=_filled(jobs, plan.size.workers * plan.size.items_at_once),
    )


def _filled(jobs: list[JobTruth], limit: int) -> float:
    """When `limit` slots can have done the work of these: what arrives from an instant on cannot be done before it."""
    done_at, work_seconds = 0.0, 0.0
    for job in sorted(jobs, key=lambda job: -job.plan.arrives_at):
        work_seconds += job.useful_seconds
        done_at = max(done_at, job.plan.arrives_at + work_seconds / limit)
    return done_at

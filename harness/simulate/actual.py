"""What really runs and has really ended, counted apart from the store, and the earliest instant possible under the
limits.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from harness.simulate.plan import JobPlan, Plan
from swath.domain.item import EndedItem

__all__ = ["ActualJob", "ActualRuns", "LowerBound", "lower_bound"]


class ActualJob:
    """One job. `useful_seconds` is time of attempts that came to an end; what a death cut short is wasted."""

    __slots__ = (
        "began_at",
        "ended",
        "ended_at",
        "ends",
        "first_sent",
        "open",
        "peak",
        "plan",
        "quiet_since",
        "running",
        "starts_after_open",
        "useful_seconds",
    )

    def __init__(self, plan: JobPlan) -> None:
        self.plan = plan
        self.running = 0
        self.began_at = 0.0  # the last of its items, on the boot clock
        self.open = 0
        self.quiet_since = 0.0  # on the boot clock: no request is open, though items have slots
        self.peak = 0
        self.useful_seconds = 0.0
        self.starts_after_open: int | None = None  # attempts that began after the circuit opened, if it did
        self.ends = bytearray(plan.items + 1)  # by sequence number, from 1
        self.ended = 0
        self.ended_at: float | None = None
        self.first_sent: float | None = None  # from the beginning, as the one before


class ActualRuns:
    """`problems` must stay empty. `capacity` and `used` add up, once a second, requests that could be and were open."""

    def __init__(self, plan: Plan) -> None:
        self.jobs = {each.job.job_id: ActualJob(each) for each in plan.jobs}
        self.problems: list[str] = []
        self.attempts = 0
        self.wasted_attempts = 0
        self.open = dict.fromkeys(plan.concurrency, 0)
        self.peak_open = dict.fromkeys(plan.concurrency, 0)
        self.capacity = 0
        self.used = 0
        self.quiet_seconds = 0.0  # the longest that a job had items in slots and nothing at its site
        self._concurrency = plan.concurrency
        self._of_site = {
            site: [truth for truth in self.jobs.values() if truth.plan.site == site] for site in plan.concurrency
        }

    def opened(self, job_id: str) -> None:
        """The circuit of a job has opened."""
        self.jobs[job_id].starts_after_open = 0

    def begins(self, job_id: str, now: float) -> None:
        """An item has taken a slot."""
        job = self.jobs[job_id]
        if not job.running:
            job.quiet_since = now
        job.running += 1
        job.began_at = now
        if job.starts_after_open is not None:
            job.starts_after_open += 1
            if job.starts_after_open == job.plan.limit + 1:
                self.problems.append(f"{job_id} started more items after its circuit opened than its limit")
        job.peak = max(job.peak, job.running)
        if job.running > job.plan.limit:
            self.problems.append(f"{job_id} runs {job.running} items, {job.plan.limit} are allowed")

    def leaves(self, job_id: str) -> None:
        """It has given it back, or its worker died."""
        self.jobs[job_id].running -= 1

    def opens(self, site: str, job_id: str, elapsed: float) -> None:
        """A request is sent."""
        job = self.jobs[job_id]
        if job.first_sent is None:
            job.first_sent = elapsed
        self.attempts += 1
        job.open += 1
        self.open[site] += 1
        self.peak_open[site] = max(self.peak_open[site], self.open[site])
        if self.open[site] > self._concurrency[site]:
            self.problems.append(f"{site} has {self.open[site]} open requests, {self._concurrency[site]} are allowed")

    def closes(self, site: str, job_id: str, now: float, seconds: float | None) -> None:
        """It is answered after so long; None when its worker died."""
        self.open[site] -= 1
        self.jobs[job_id].open -= 1
        self.jobs[job_id].quiet_since = now
        if seconds is None:
            self.wasted_attempts += 1
        else:
            self.jobs[job_id].useful_seconds += seconds

    def counted(self, job_id: str, ended: Iterable[EndedItem], accepted: frozenset[int]) -> None:
        """A commit was made."""
        job = self.jobs[job_id]
        for end in ended:
            if end.seq in accepted:
                job.ended += 1
                job.ends[end.seq] += 1
                if job.ends[end.seq] > 1:
                    self.problems.append(f"{job_id}: item {end.seq} ended {job.ends[end.seq]} times")

    def look(self, arrived: Iterable[str], now: float) -> None:
        """Once a second: how many requests could be open with the work there is, and how many are; who gets none."""
        for job in self.jobs.values():
            if job.running and not job.open:
                self.quiet_seconds = max(self.quiet_seconds, now - job.quiet_since)
        present = set(arrived)
        for site, jobs in self._of_site.items():
            wanted = sum(
                min(job.plan.limit, job.plan.items - job.ended)
                for job in jobs
                if job.plan.job.job_id in present and job.ended_at is None and not job.plan.doomed
            )
            possible = min(self._concurrency[site], wanted)
            self.capacity += possible
            self.used += min(possible, self.open[site])


class LowerBound(msgspec.Struct, frozen=True, kw_only=True):
    """The largest of three bounds, each from the beginning."""

    by_jobs: float
    by_sites: float
    by_workers: float

    @property
    def seconds(self) -> float:
        """No run can be shorter."""
        return max(self.by_jobs, self.by_sites, self.by_workers)


def lower_bound(truth: ActualRuns, plan: Plan) -> LowerBound:
    """A job that stops by itself ends when it stops, and is no part of it."""
    jobs = [job for job in truth.jobs.values() if not job.plan.doomed]
    sites = {site: [job for job in jobs if job.plan.site == site] for site in plan.concurrency}
    return LowerBound(
        by_jobs=max((_filled([job], job.plan.limit) for job in jobs), default=0.0),
        by_sites=max((_filled(sites[site], limit) for site, limit in plan.concurrency.items()), default=0.0),
        by_workers=_filled(jobs, plan.size.workers * plan.size.items_at_once),
    )


def _filled(jobs: list[ActualJob], limit: int) -> float:
    """When `limit` slots can have done the work of these: what arrives from an instant on cannot be done before it."""
    done_at, work_seconds = 0.0, 0.0
    for job in sorted(jobs, key=lambda job: -job.plan.arrives_at):
        work_seconds += job.useful_seconds
        done_at = max(done_at, job.plan.arrives_at + work_seconds / limit)
    return done_at

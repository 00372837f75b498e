"""Ends, sweeps and deletes jobs of the in-memory store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from swath.domain.errors import LeaseLost
from swath.domain.item import EndedItem
from swath.domain.job import EndingProgress, JobStatus, delete_at
from swath.domain.lease import Lease, LeaseDirective
from swath.domain.transitions import ItemState, JobState, check_job
from swath.domain.webhook import Webhook
from tests.support.memory.state import LeasePurpose, MemoryState, StoredJob

__all__ = ["MemoryEndings"]


class MemoryEndings:
    """See ports/endings.py for what each method promises."""

    _shelves: MemoryState

    async def claim_ending(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        with self._shelves.open():
            for name, job in self._shelves.jobs.items():
                put_off = job.ending_due > self._shelves.clock.boot()
                asked = name not in without and job_id in (None, name) and not put_off
                if asked and _may_end(job) and not self._shelves.leases_of(name):
                    return self._hand_out(worker_id, job, LeasePurpose.END)
            return None

    def _hand_out(self, worker_id: str, job: StoredJob, right: LeasePurpose, due_since: float | None = None) -> Lease:
        lease = self._shelves.new_lease(worker_id, job, right)
        return Lease(
            fence=lease.fence,
            job=job.order,
            worker_id=worker_id,
            lease_seconds=self._shelves.lease_seconds,
            revision=lease.revision,
            stopping=job.stopping,
            due_since=due_since,
        )

    async def renew_ending(self, lease: Lease, progress: EndingProgress) -> LeaseDirective:
        with self._shelves.open(lease.job.job_id):
            stored = self._shelves.live_lease(lease.fence, LeasePurpose.END)
            if stored is None or stored.worker_id != lease.worker_id:
                return LeaseDirective.LOST
            self._shelves.extend(stored)
            stored.progress = progress
            return LeaseDirective.GO_ON

    async def sweep(self, lease: Lease, limit: int) -> int:
        with self._shelves.open(lease.job.job_id):
            job = self._job_under(lease, LeasePurpose.END)
            left = [stored for stored in job.items.values() if stored.past is None]
            for stored in left[:limit]:
                end = EndedItem(
                    seq=stored.item.seq,
                    state=ItemState.CANCELLED,
                    reason=job.stopping,
                    attempts=stored.attempts,
                    tries=stored.tries,
                )
                self._shelves.end_item(job, stored, end, lease.fence)
                job.cost += end.cost
            return len(left)

    def _job_under(self, lease: Lease, right: LeasePurpose) -> StoredJob:
        stored = self._shelves.live_lease(lease.fence, right)
        if stored is None:
            raise LeaseLost(f"the right to {right.value} job {lease.job.job_id!r} was taken away")
        return self._shelves.job(stored.job_id)

    async def end(
        self, lease: Lease, state: JobState, manifest: Mapping[str, Any], webhook: Webhook | None = None
    ) -> JobStatus:
        with self._shelves.open(lease.job.job_id):
            job = self._job_under(lease, LeasePurpose.END)
            if job.remaining:
                raise ValueError(f"{job.remaining} items of job {lease.job.job_id!r} have not ended")
            if not state.terminal:
                raise ValueError(f"a job cannot go to its end as {state}")
            check_job(job.state, state)
            ended_at = self._shelves.glance_at_clocks().not_before(self._shelves.clock.now())
            job.state, job.ended_at, job.manifest = state, ended_at, dict(manifest)
            job.ending_deaths, job.ending_due = 0, 0.0
            if webhook is not None:
                job.webhooks[webhook.generation] = webhook
            del self._shelves.leases[lease.fence]
            return self._shelves.status(job)

    async def claim_deletion(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        with self._shelves.open():
            confirmed = min(self._shelves.look_at_clocks().confirmed_wall, self._shelves.clock.now())
            for name, job in self._shelves.jobs.items():
                due = None if job.deleting else delete_at(job.order, job.started_at, job.ended_at)
                wanted = name not in without and job_id in (None, name)
                may_go = job.deleting or (due is not None and due <= confirmed)
                if wanted and may_go and not self._shelves.leases_of(name):
                    job.deleting = True
                    return self._hand_out(worker_id, job, LeasePurpose.DELETE, due)
            return None

    async def purge(self, lease: Lease, limit: int) -> int:
        with self._shelves.open(lease.job.job_id):
            job = self._job_under(lease, LeasePurpose.DELETE)
            left = len(job.items)
            for seq in list(job.items)[:limit]:
                del job.seqs[job.items.pop(seq).item.item_id]
            if not left:
                del self._shelves.jobs[job.order.job_id], self._shelves.leases[lease.fence]
            return left


def _may_end(job: StoredJob) -> bool:
    all_ended = job.state in (JobState.RUNNING, JobState.PAUSED) and job.remaining == 0
    return not job.state.terminal and not job.deleting and (job.stopping is not None or all_ended)

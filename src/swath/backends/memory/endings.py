"""The last steps of a job in the memory store: who may end it, what a cancel sweeps, and the final commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from swath.backends.memory.records import StoredJob
from swath.backends.memory.shelves import Shelves
from swath.domain.attempt import Ended
from swath.domain.errors import LeaseLost
from swath.domain.job import JobStatus
from swath.domain.lease import Lease
from swath.domain.transitions import ItemState, JobState, check_job

__all__ = ["MemoryEndings"]


class MemoryEndings:
    """The part of ports/lease_book.py that ends jobs."""

    _shelves: Shelves

    async def claim_ending(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        with self._shelves.open():
            for job in self._shelves.jobs.values():
                if job.order.job_id in without or job_id not in (None, job.order.job_id):
                    continue
                all_ended = job.state is JobState.RUNNING and job.remaining == 0
                may_end = not job.state.terminal and (job.cancelling or all_ended)
                if may_end and not self._shelves.leases_of(job.order.job_id):
                    lease = self._shelves.new_lease(worker_id, job.order.job_id, ending=True)
                    return Lease(
                        fence=lease.fence,
                        job=job.order,
                        worker_id=worker_id,
                        lease_seconds=self._shelves.lease_seconds,
                        cancelling=job.cancelling,
                    )
            return None

    async def sweep(self, lease: Lease, limit: int) -> int:
        with self._shelves.open():
            job = self._job_to_end(lease)
            left = [stored for stored in job.items.values() if stored.ended is None]
            for stored in left[:limit]:
                known = stored.leased()
                end = Ended(
                    seq=known.seq,
                    state=ItemState.CANCELLED,
                    reason="cancelled",
                    attempts=known.attempts,
                    tries=known.tries,
                )
                stored.fence, stored.ended = lease.fence, end
                job.count(end)
            return len(left)

    def _job_to_end(self, lease: Lease) -> StoredJob:
        stored = self._shelves.live_lease(lease.fence)
        if stored is None or not stored.ending:
            raise LeaseLost(f"another worker ends job {lease.job.job_id!r} now")
        return self._shelves.job(stored.job_id)

    async def end(self, lease: Lease, state: JobState, manifest: Mapping[str, Any]) -> JobStatus:
        with self._shelves.open():
            job = self._job_to_end(lease)
            if job.remaining:
                raise ValueError(f"{job.remaining} items of job {lease.job.job_id!r} have not ended")
            check_job(job.state, state)
            job.last_pace = job.items_per_second(self._shelves.clock.boot())
            job.state, job.ended_at, job.manifest = state, self._shelves.clock.now(), dict(manifest)
            del self._shelves.leases[lease.fence]
            return self._shelves.status(job)

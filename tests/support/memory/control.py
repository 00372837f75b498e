"""Changes jobs of the in-memory store: pause, resume, cancel, policy, retry, delete, result versions."""

from __future__ import annotations

import msgspec

from swath.domain.errors import BadInput, Conflict, LeaseLost, Outdated
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import RetrySelection
from swath.domain.job import JobStatus, StopReason
from swath.domain.lease import Lease
from swath.domain.result_versions import check_job_ended, check_version
from swath.domain.throughput import Throughput
from swath.domain.transitions import ItemState, JobState, check_item, check_job
from tests.support.memory.state import LeasePurpose, MemoryState, StoredItem, StoredJob

__all__ = ["MemoryControl"]


class MemoryControl:
    """See ports/job_control.py for what each method promises."""

    _shelves: MemoryState

    async def pause(self, job_id: str) -> JobStatus:
        with self._shelves.open(job_id):
            job = self._job_to_change(job_id)
            if job.stopping or job.state.terminal or job.state is JobState.LOADING:
                told = "stopping" if job.stopping and not job.state.terminal else job.state.value
                raise Conflict(f"job {job_id!r} is {told}; only a job that is pending or running can be paused")
            if job.state is not JobState.PAUSED:
                check_job(job.state, JobState.PAUSED)
                job.state = JobState.PAUSED
            return self._shelves.status(job)

    async def resume(self, job_id: str) -> JobStatus:
        with self._shelves.open(job_id):
            job = self._job_to_change(job_id)
            if job.state.terminal:
                raise Conflict(f"job {job_id!r} has ended ({job.state}); `retry` runs items of it again")
            job.ending_due = 0.0
            if job.state is JobState.PAUSED and job.stopping is None:
                state = JobState.PENDING if job.started_at is None else JobState.RUNNING
                check_job(job.state, state)
                job.state, job.served = state, self._shelves.granted
                job.close_circuit()
                job.mark(self._shelves.clock.boot())
            return self._shelves.status(job)

    async def cancel(self, job_id: str) -> JobStatus:
        with self._shelves.open(job_id):
            job = self._job_to_change(job_id)
            if not job.state.terminal and job.stopping is None:
                job.stopping = StopReason.CANCELLED
            return self._shelves.status(job)

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        with self._shelves.open(job_id):
            job = self._job_to_change(job_id)
            if policy != job.order.policy:
                if expected not in (None, job.order.policy):
                    raise Outdated.policy(job_id)
                job.order = msgspec.structs.replace(job.order, policy=policy)
                job.revision += 1
            return self._shelves.status(job)

    async def retry(self, job_id: str, selection: RetrySelection) -> JobStatus:
        with self._shelves.open(job_id):
            job = self._job_to_change(job_id)
            if not job.state.terminal:
                raise Conflict(f"job {job_id!r} is {job.state}; items can be run again when it has ended")
            selected = [stored for stored in job.items.values() if _takes(selection, stored)]
            if not selected:
                raise BadInput(f"no item of job {job_id!r} fits the selection; nothing to run again")
            self._begin_generation(job, selected)
            return self._shelves.status(job)

    def _begin_generation(self, job: StoredJob, selected: list[StoredItem]) -> None:
        for stored in selected:
            if stored.ended is not None:
                check_item(stored.ended.state, ItemState.PENDING)
                job.count(stored.ended, by=-1)
                stored.begin_again()
        check_job(job.state, JobState.PENDING)
        job.state, job.generation, job.stopping = JobState.PENDING, job.generation + 1, None
        job.started_at, job.ended_at, job.pace, job.ran_before = None, None, Throughput(), job.ran
        job.served = self._shelves.granted
        job.close_circuit()

    async def delete(self, job_id: str) -> JobStatus:
        with self._shelves.open(job_id):
            job = self._shelves.job(job_id)
            if not job.state.terminal and job.state is not JobState.LOADING:
                raise Conflict(f"job {job_id!r} is {job.state}; cancel it first")
            job.deleting = True
            return self._shelves.status(job)

    async def add_version(self, job_id: str) -> int:
        with self._shelves.open(job_id):
            job = self._job_to_change(job_id)
            check_job_ended(job_id, job.state)
            job.versions += 1
            return job.versions

    async def set_current(self, job_id: str, version: int, *, under: Lease | None = None) -> JobStatus:
        with self._shelves.open(job_id):
            if under is not None and self._shelves.live_lease(under.fence, LeasePurpose.END) is None:
                raise LeaseLost(f"the right to end job {under.job.job_id!r} was taken away")
            job = self._job_to_change(job_id)
            check_version(job_id, version, job.versions)
            job.current_version = version
            return self._shelves.status(job)

    def _job_to_change(self, job_id: str) -> StoredJob:
        job = self._shelves.job(job_id)
        if job.deleting:
            raise Conflict.being_deleted(job_id)
        return job


def _takes(selection: RetrySelection, stored: StoredItem) -> bool:
    if stored.past is None:
        return False
    end = stored.past.end
    kind = None if end.failure is None else end.failure.kind
    return selection.takes(stored.item.item_id, end.state, kind, stored.past.ended_at)

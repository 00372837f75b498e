"""What a store must know after any sequence of calls, kept in the plainest way; store_machine.py drives both together.

It shares no code with any back end: who holds an item, who answers for a lease and until when is told here anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from swath.domain.attempt import Ended, Finding, HandedBack
from swath.domain.item import ItemRecord
from swath.domain.job import Counts, JobStatus
from swath.domain.lease import Lease
from swath.domain.transitions import ItemState, JobState
from swath.testing.contracts.model_records import ModelItem, ModelJob, ModelLease, ModelShare

__all__ = ["Model"]


@dataclass
class Model:
    """All jobs and leases, and the workers that are dead."""

    lease_seconds: float
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    leases: dict[int, ModelLease] = field(default_factory=dict)
    lost: list[ModelLease] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    last_fence: int = 0

    def leases_of(self, job: ModelJob) -> list[ModelLease]:
        """Every lease of the job."""
        return [lease for lease in self.leases.values() if lease.job_id == job.order.job_id]

    def live(self, job: ModelJob, worker: str | None = None) -> list[ModelLease]:
        """Leases of the job under which items may run, of one worker or of all."""
        live = [lease for lease in self.leases_of(job) if not lease.ending and not lease.rescued]
        return [lease for lease in live if worker in (None, lease.owner)]

    def next_job(self, worker: str, boot: float) -> ModelJob | None:
        """Whose items the worker's next claim must hand out."""
        runnable = [
            job
            for job in self.jobs.values()
            if job.state in (JobState.PENDING, JobState.RUNNING)
            and not job.cancelling
            and job.claimable(boot)
            and sum(share.demand > 0 for other, share in job.shares.items() if other != worker) < job.limit
        ]
        return min(runnable, key=lambda job: (-job.order.priority, len(job.items), job.number), default=None)

    def endable(self) -> list[ModelJob]:
        """Jobs whose end may be handed out."""
        return [
            job
            for job in self.jobs.values()
            if job.final is None
            and (job.cancelling or (job.started and not job.open_items))
            and not self.leases_of(job)
        ]

    def overdue(self, boot: float) -> set[int]:
        """Leases that a rescue must take away now."""
        return {f for f, lease in self.leases.items() if lease.expires <= boot or lease.owner in self.dead}

    def hold(self, lease: Lease, boot: float) -> ModelLease:
        """A lease was handed out."""
        assert lease.fence > self.last_fence, f"fence {lease.fence} after {self.last_fence}"
        self.last_fence = lease.fence
        job = self.jobs[lease.job.job_id]
        seqs = tuple(item.seq for item in lease.items)
        for leased in lease.items:
            item = job.items[leased.seq]
            assert item.end is None, f"item {item.seq} was leased after its end"
            assert not item.holder, f"item {item.seq} is held twice"
            assert item.due <= boot, f"item {item.seq} was leased before its time"
            assert (leased.item_id, leased.tries) == (item.item_id, item.tries)
            item.holder, item.due = lease.fence, 0.0
        if seqs:
            job.started = True
            self._enter(job, lease)
        self.leases[lease.fence] = ModelLease(lease, lease.worker_id, boot + self.lease_seconds, seqs)
        return self.leases[lease.fence]

    def _enter(self, job: ModelJob, lease: Lease) -> None:
        share = job.shares.get(lease.worker_id)
        demand = len(lease.items) + (0 if share is None else share.demand)
        assert share is None or lease.slots == share.ceiling, "a further lease changed the slots"
        assert lease.target <= min(job.limit, demand)
        if share is None:
            share = job.shares[lease.worker_id] = ModelShare(lease.slots, lease.target, demand)
        share.target, share.demand = lease.target, demand

    def held(self, lease: ModelLease) -> list[ModelItem]:
        """Items that the lease holds and that have not ended."""
        items = self.jobs[lease.job_id].items
        return [items[seq] for seq in lease.seqs if items[seq].holder == lease.fence]

    def winners(self, lease: ModelLease) -> set[str]:
        """Ids of items that ended under the lease."""
        items = self.jobs[lease.job_id].items
        return {items[seq].item_id for seq in lease.seqs if items[seq].ended_under == lease.fence}

    def take_away(self, lease: ModelLease, rescuer: str, boot: float) -> int:
        """A rescue; answers how many items came back."""
        if not lease.rescued:
            self.lost.append(ModelLease(lease.lease, lease.owner, 0.0, lease.seqs))
        held, loser, job = self.held(lease), lease.owner, self.jobs[lease.job_id]
        for item in held:
            crashes = item.tries.crashes + (item.seq in job.shares[loser].begun)
            item.give_back(tries=msgspec.structs.replace(item.tries, crashes=crashes))
        lease.rescued, lease.owner, lease.expires = True, rescuer, boot + self.lease_seconds
        self._leave(job, loser, held)
        return len(held)

    def _leave(self, job: ModelJob, worker: str, lost: list[ModelItem]) -> None:
        """What it lost does not run any more, and with its last lease of a job a worker loses its slots there."""
        if worker in job.shares:
            job.shares[worker].forget({item.seq for item in lost})
        if not self.live(job, worker):
            job.shares.pop(worker, None)

    def let_go(self, lease: ModelLease) -> None:
        """A release."""
        held = self.held(lease)
        for item in held:
            item.give_back()
        del self.leases[lease.fence]
        self._leave(self.jobs[lease.job_id], lease.owner, held)
        if not lease.rescued:
            self.lost.append(lease)

    def commit(self, lease: ModelLease, ended: list[Ended], handed_back: list[HandedBack], boot: float) -> set[int]:
        """The outcomes of one finish; answers which must count."""
        items = {item.seq: item for item in self.held(lease)}
        accepted = set()
        for end in ended:
            if end.seq in items:
                items.pop(end.seq).accept(lease.fence, end)
                accepted.add(end.seq)
        for back in handed_back:
            if back.seq in items:
                due = boot + back.delay_seconds if back.delay_seconds else 0.0
                items.pop(back.seq).give_back(due, back.tries)
                accepted.add(back.seq)
        return accepted

    def counts(self, job: ModelJob) -> Counts:
        """What the counters must say."""
        ends = Counter(item.end.state for item in job.items.values() if item.end is not None)
        queued = sum(len(share.queued) for share in job.shares.values())
        begun = sum(len(share.begun) for share in job.shares.values())
        findings = [item.end.finding for item in job.items.values() if item.end is not None]
        return Counts(
            pending=len(job.open_items) - queued - begun,
            queued=queued,
            in_progress=begun,
            success=ends[ItemState.SUCCESS],
            not_found=findings.count(Finding.NOT_FOUND),
            failed=ends[ItemState.FAILED],
            skipped=ends[ItemState.SKIPPED],
            cancelled=ends[ItemState.CANCELLED],
            total=len(job.items),
        )

    def check(self, status: JobStatus, records: list[ItemRecord], boot_to_now: float) -> None:
        """Counters, listing and model agree, item by item."""
        job = self.jobs[status.job.job_id]
        assert (status.state, status.cancelling, status.loaded_rows) == (job.state, job.cancelling, job.rows)
        assert status.counts == self.counts(job)
        failures = [item.end.failure.kind.value for item in job.items.values() if item.end and item.end.failure]
        assert status.failures == dict(Counter(failures))
        assert [record.seq for record in records] == sorted(job.items)
        for record in records:
            item = job.items[record.seq]
            assert record.item_id == item.item_id
            if item.end is not None:
                seen = (record.state, record.finding, record.failure, record.fence, record.not_before)
                assert seen == (item.end.state, item.end.finding, item.end.failure, item.ended_under, None)
            else:
                assert (record.state, record.fence) == (self._state(job, item), item.holder)
                assert record.tries == item.tries
                waits = item.due + boot_to_now if item.due else None
                assert (record.not_before is None) == (waits is None)
                assert waits is None or abs((record.not_before or 0.0) - waits) < 0.001

    def _state(self, job: ModelJob, item: ModelItem) -> ItemState:
        if not item.holder:
            return ItemState.PENDING
        share = job.shares[self.leases[item.holder].owner]
        if item.seq in share.begun:
            return ItemState.IN_PROGRESS
        return ItemState.QUEUED if item.seq in share.queued else ItemState.PENDING

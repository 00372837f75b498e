"""Who works on what: the LeaseBook half of the memory store.

An item is held by the lease whose fence it carries. Nothing here waits, so every method is one commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from swath.backends.memory.records import StoredItem, StoredJob, StoredLease, StoredShare
from swath.backends.memory.shelves import Shelves
from swath.domain.attempt import Ended, HandedBack
from swath.domain.lease import (
    Directive,
    Grant,
    Lease,
    LeasedItem,
    Report,
    RescuedLease,
    fair_share,
    grant_slots,
    lease_size,
)
from swath.domain.transitions import ItemState, JobState, check_item, check_job

__all__ = ["MemoryLeases"]


class MemoryLeases:
    """See ports/lease_book.py for what each method promises."""

    _shelves: Shelves

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        with self._shelves.open():
            for job in self._by_urgency():
                name = job.order.job_id
                if name in without or job_id not in (None, name):
                    continue
                others = sum(share.demand > 0 for worker, share in job.shares.items() if worker != worker_id)
                if others >= job.limit:
                    continue  # this worker would hold items without a slot to run them
                items = job.claimable(self._shelves.clock.boot())
                if items:
                    return self._lease(worker_id, job, items[: lease_size(len(items), others + 1)])
            return None

    def _by_urgency(self) -> list[StoredJob]:
        open_jobs = [
            job
            for job in self._shelves.jobs.values()
            if job.state in (JobState.PENDING, JobState.RUNNING) and not job.cancelling
        ]
        return sorted(open_jobs, key=lambda job: (-job.order.priority, len(job.items)))  # stable: age decides the rest

    def _lease(self, worker_id: str, job: StoredJob, items: Sequence[StoredItem]) -> Lease:
        if job.state is JobState.PENDING:
            check_job(job.state, JobState.RUNNING)
            job.state, job.started_at = JobState.RUNNING, self._shelves.clock.now()
            job.mark(self._shelves.clock.boot())
        lease = self._shelves.new_lease(worker_id, job.order.job_id, ending=False)
        lease.seqs = tuple(stored.item.seq for stored in items)
        for stored in items:
            stored.fence, stored.due = lease.fence, 0.0
        slots, target = self._enter(job, worker_id, len(items))
        return Lease(
            fence=lease.fence,
            job=job.order,
            worker_id=worker_id,
            items=tuple(stored.leased() for stored in items),
            slots=slots,
            target=target,
            lease_seconds=self._shelves.lease_seconds,
        )

    def _enter(self, job: StoredJob, worker_id: str, items: int) -> tuple[int, int]:
        """Gives a worker with a new lease its first slots; one that has some already keeps them and only wants more."""
        if worker_id not in job.shares:
            job.shares[worker_id] = StoredShare(demand=items)
            return self._grant(job, worker_id, ceiling=0)
        share = job.shares[worker_id]
        share.demand += items
        return share.slots, self._target(job, worker_id)

    def _grant(self, job: StoredJob, worker_id: str, ceiling: int) -> tuple[int, int]:
        """Gives a worker its share of the slots as things stand now; answers with slots and target."""
        target = self._target(job, worker_id)
        slots_of_others = sum(share.slots for worker, share in job.shares.items() if worker != worker_id)
        slots = grant_slots(job.limit, ceiling, target, slots_of_others)
        job.shares[worker_id].slots = slots
        return slots, target

    def _target(self, job: StoredJob, worker_id: str) -> int:
        workers = sorted(job.shares)
        return fair_share(job.limit, [job.shares[worker].demand for worker in workers])[workers.index(worker_id)]

    def _drop_idle_share(self, job: StoredJob, worker_id: str) -> None:
        """Frees the slots of a worker that has no lease of the job any more."""
        leases = self._shelves.leases_of(job.order.job_id)
        if not any(x.worker_id == worker_id and not x.ending and not x.rescued for x in leases):
            job.shares.pop(worker_id, None)

    async def finish(
        self, lease: Lease, ended: Sequence[Ended], handed_back: Sequence[HandedBack], report: Report
    ) -> Grant:
        with self._shelves.open():
            stored = self._shelves.live_lease(lease.fence)
            if stored is None or stored.ending:
                return Grant(directive=Directive.LOST)
            job = self._shelves.job(stored.job_id)
            _check(ended)
            accepted = self._end_items(job, stored, ended) | self._take_back(job, stored, handed_back)
            job.mark(self._shelves.clock.boot())
            share = job.shares[stored.worker_id]
            share.demand, share.queued, share.begun = report.demand, report.queued, report.begun
            slots, target = self._grant(job, stored.worker_id, min(report.ceiling, share.slots))  # none raises itself
            self._shelves.extend(stored)
            directive = Directive.STOP if job.cancelling else Directive.GO_ON
            return Grant(directive=directive, slots=slots, target=target, accepted=accepted)

    def _held(self, job: StoredJob, lease: StoredLease, seq: int) -> StoredItem | None:
        stored = job.items.get(seq)
        return stored if stored is not None and stored.fence == lease.fence and stored.ended is None else None

    def _end_items(self, job: StoredJob, lease: StoredLease, ended: Sequence[Ended]) -> frozenset[int]:
        accepted = set()
        for end in ended:
            stored = self._held(job, lease, end.seq)
            if stored is not None:
                stored.ended = end
                job.count(end)
                accepted.add(end.seq)
        return frozenset(accepted)

    def _take_back(self, job: StoredJob, lease: StoredLease, handed_back: Sequence[HandedBack]) -> frozenset[int]:
        accepted = set()
        for back in handed_back:
            stored = self._held(job, lease, back.seq)
            if stored is not None:
                due = self._shelves.clock.boot() + back.delay_seconds if back.delay_seconds > 0 else 0.0
                known = msgspec.structs.replace(stored.leased(), tries=back.tries, attempts=back.attempts)
                stored.give_back(due, known)
                accepted.add(back.seq)
        return frozenset(accepted)

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, Directive]:
        with self._shelves.open():
            return {fence: self._renew(worker_id, fence) for fence in fences}

    def _renew(self, worker_id: str, fence: int) -> Directive:
        lease = self._shelves.live_lease(fence)
        if lease is None or lease.worker_id != worker_id:
            return Directive.LOST
        self._shelves.extend(lease)
        return Directive.STOP if self._shelves.job(lease.job_id).cancelling and not lease.ending else Directive.GO_ON

    async def release(self, worker_id: str, fence: int) -> None:
        with self._shelves.open():
            lease = self._shelves.leases.get(fence)
            if lease is not None and lease.worker_id == worker_id:
                del self._shelves.leases[fence]
                self._return_items(lease, blamed=False)
                self._drop_idle_share(self._shelves.job(lease.job_id), lease.worker_id)

    def _return_items(self, lease: StoredLease, *, blamed: bool) -> int:
        """Makes the unfinished items of a lease claimable at once; if there is blame, those begun count a crash."""
        job = self._shelves.job(lease.job_id)
        share = job.shares.get(lease.worker_id, StoredShare())
        held = {seq: stored for seq in lease.seqs if (stored := self._held(job, lease, seq)) is not None}
        for seq, stored in held.items():
            known = stored.leased()
            stored.give_back(0.0, _crashed(known) if blamed and seq in share.begun else known)
        share.queued = tuple(seq for seq in share.queued if seq not in held)
        share.begun = tuple(seq for seq in share.begun if seq not in held)
        return len(held)

    async def rescue(self, worker_id: str) -> list[RescuedLease]:
        with self._shelves.open():
            return [self._rescue(worker_id, lease) for lease in self._shelves.leases.values() if self._is_over(lease)]

    def _is_over(self, lease: StoredLease) -> bool:
        return lease.expires_at <= self._shelves.clock.boot() or lease.worker_id in self._shelves.dead

    def _rescue(self, worker_id: str, lease: StoredLease) -> RescuedLease:
        job = self._shelves.job(lease.job_id)
        mine = [job.items[seq] for seq in lease.seqs if job.items[seq].fence == lease.fence]
        rescued = RescuedLease(
            fence=lease.fence,
            job_id=lease.job_id,
            worker_id=lease.worker_id,
            winners=tuple(stored.item.item_id for stored in mine if stored.ended is not None),
            returned=self._return_items(lease, blamed=True),
            silent_seconds=self._shelves.clock.boot() - lease.heard_at,
        )
        lease.rescued, lease.worker_id = True, worker_id
        self._shelves.extend(lease)
        self._drop_idle_share(job, rescued.worker_id)
        return rescued


def _check(ended: Sequence[Ended]) -> None:
    for end in ended:
        check_item(ItemState.PENDING, end.state)
        if not end.state.terminal:
            raise ValueError(f"an item cannot end as {end.state}")


def _crashed(known: LeasedItem) -> LeasedItem:
    tries = msgspec.structs.replace(known.tries, crashes=known.tries.crashes + 1)
    return msgspec.structs.replace(known, tries=tries)

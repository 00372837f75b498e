"""Holding on and letting go in the memory store: what runs, signs of life, and what the dead left behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from swath.backends.memory.finishing import MemoryFinishing
from swath.backends.memory.records import Right, StoredItem, StoredJob, StoredLease, StoredShare
from swath.domain.attempt import Ended
from swath.domain.blame import delay_after_silence, end_without_worker, ended_without_worker
from swath.domain.ending import put_off_seconds
from swath.domain.job import WaitingFor
from swath.domain.lease import Directive, Lease, RescuedLease

__all__ = ["MemoryLeases"]


class MemoryLeases(MemoryFinishing):
    """See ports/lease_book.py for what each method promises."""

    def begin(self, lease: Lease, *seqs: int) -> bool:
        stored, job = self._shelves.leases.get(lease.fence), self._shelves.jobs.get(lease.job.job_id)
        if stored is None or job is None or stored.rescued or not job.may_start or job.revision != lease.revision:
            return False
        stored.running.update(seqs)
        return True

    def leave(self, lease: Lease, *seqs: int) -> None:
        stored = self._shelves.leases.get(lease.fence)
        if stored is not None:
            stored.running.difference_update(seqs)

    def tell_waiting(self, worker_id: str, what: WaitingFor | None) -> None:
        self._shelves.waiting.pop(worker_id, None)
        if what is not None:
            self._shelves.waiting[worker_id] = what

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, Directive]:
        with self._shelves.open():
            return {fence: self._renew(worker_id, fence) for fence in fences}

    def _renew(self, worker_id: str, fence: int) -> Directive:
        lease = self._shelves.leases.get(fence)
        if lease is None or lease.rescued or lease.worker_id != worker_id:
            return Directive.LOST
        self._shelves.extend(lease)
        return self._directive(self._shelves.job(lease.job_id), lease)

    async def release(self, worker_id: str, fence: int) -> None:
        with self._shelves.open():
            lease = self._shelves.leases.get(fence)
            if lease is not None and lease.worker_id == worker_id:
                del self._shelves.leases[fence]
                self._shelves.touch(lease.job_id)
                self._return_items(lease, blamed=False)
                self._drop_idle_share(self._shelves.job(lease.job_id), lease.worker_id)

    def _drop_idle_share(self, job: StoredJob, worker_id: str) -> None:
        """Frees the slots of a worker that has no lease of the job any more."""
        leases = self._shelves.leases_of(job.order.job_id)
        if not any(x.worker_id == worker_id and x.right is Right.RUN and not x.rescued for x in leases):
            job.shares.pop(worker_id, None)

    def _return_items(self, lease: StoredLease, *, blamed: bool) -> int:
        """Makes the unfinished items of a lease claimable at once, but for one that is poison; answers how many."""
        job = self._shelves.job(lease.job_id)
        share = job.shares.get(lease.worker_id, StoredShare())
        held = {seq: stored for seq in lease.seqs if (stored := self._held(job, lease, seq)) is not None}
        died = lease.worker_id in self._shelves.dead
        for seq, stored in held.items():
            if blamed and seq in lease.running:
                self._blame(stored, alone=lease.alone and seq in share.begun, died=died)
            end = end_without_worker(seq, stored.tries, stored.attempts, stored.silences) if blamed else None
            if end is not None:
                self._end_lost(job, lease, stored, end)
            else:
                delay = delay_after_silence(stored.silences, self._shelves.lease_seconds) if blamed else 0.0
                self._give_back(job, stored, self._shelves.clock.boot() + delay if delay else 0.0)
        share.queued = tuple(seq for seq in share.queued if seq not in held)
        share.begun = tuple(seq for seq in share.begun if seq not in held)
        return sum(stored.past is None for stored in held.values())

    def _blame(self, stored: StoredItem, *, alone: bool, died: bool) -> None:
        """Only an item that ran alone, and was known to, when its worker died has surely killed it."""
        stored.suspect = True
        if alone and died:
            stored.tries = msgspec.structs.replace(stored.tries, crashes=stored.tries.crashes + 1)
        elif alone:
            stored.silences += 1

    def _end_lost(self, job: StoredJob, lease: StoredLease, stored: StoredItem, end: Ended) -> None:
        self._shelves.end_item(job, stored, end, lease.fence)
        self._record(job, [end])

    async def rescue(self, worker_id: str) -> list[RescuedLease]:
        with self._shelves.open():
            return [self._rescue(worker_id, lease) for lease in self._shelves.leases.values() if self._is_over(lease)]

    def _is_over(self, lease: StoredLease) -> bool:
        return lease.expires_at <= self._shelves.clock.boot() or lease.worker_id in self._shelves.dead

    def _rescue(self, worker_id: str, lease: StoredLease) -> RescuedLease:
        job = self._shelves.job(lease.job_id)
        self._shelves.touch(lease.job_id)
        dead = lease.worker_id in self._shelves.dead
        rescued = RescuedLease(
            fence=lease.fence,
            job_id=lease.job_id,
            worker_id=lease.worker_id,
            winners=tuple(job.items[seq].item.item_id for seq in lease.seqs if _won(job.items[seq], lease.fence)),
            returned=self._return_items(lease, blamed=True),
            silent_seconds=self._shelves.clock.boot() - lease.heard_at,
            dead=dead,
            ending_deaths=self._note_death(job, lease) if dead else 0,
        )
        lease.rescued, lease.worker_id = True, worker_id
        self._shelves.extend(lease)
        self._drop_idle_share(job, rescued.worker_id)
        return rescued

    def _note_death(self, job: StoredJob, lease: StoredLease) -> int:
        """Somebody died with this lease; answers how often ending the job has killed its worker, if that is it."""
        if lease.right is not Right.END or lease.rescued:
            return 0
        job.ending_deaths += 1
        job.ending_due = self._shelves.clock.boot() + put_off_seconds(job.ending_deaths)
        return job.ending_deaths


def _won(stored: StoredItem, fence: int) -> bool:
    """Whether it ended under the fence by its worker's word, and not because the worker was lost."""
    end = stored.ended
    return end is not None and stored.fence == fence and not ended_without_worker(end)

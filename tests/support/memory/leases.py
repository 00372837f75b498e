"""Claims, commits, renews, releases and rescues leases of the in-memory store.

An item is held by the lease whose fence it carries. Nothing here waits, so every method is one commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from swath.domain import circuit_breaker, throughput
from swath.domain.execution_policy import OnOpen
from swath.domain.fair_scheduling import JobBacklog, JobCandidate, next_job
from swath.domain.item import LEASE_BYTES, ByteBudget, EndedItem, HandedBackItem, item_bytes
from swath.domain.job import StopReason, WaitingFor, ending_retry_seconds, merge_scraper_versions
from swath.domain.lease import (
    Lease,
    LeaseDirective,
    RescuedLease,
    SlotGrant,
    SlotReport,
    delay_after_silence,
    end_after_worker_loss,
    fair_share,
    grant_slots,
    is_worker_loss_end,
    lease_size,
    max_lease_items,
    target_slots,
)
from swath.domain.transitions import ItemState, JobState, check_item, check_job
from tests.support.memory.state import LeasePurpose, MemoryState, StoredItem, StoredJob, StoredLease, StoredShare

__all__ = ["MemoryClaims", "MemoryFinishing", "MemoryLeases"]


class MemoryClaims:
    """The part of ports/lease_book.py that hands out items and slots."""

    _shelves: MemoryState

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        with self._shelves.open():
            claimable = {
                job.number: (job, items)
                for name, job in self._shelves.jobs.items()
                if name not in without and job_id in (None, name) and (items := self._claimable(job, worker_id))
            }
            turn = next_job([_candidate(job) for job, _ in claimable.values()], self._shelves.granted)
            if turn is None:
                return None
            job, items = claimable[turn.number]
            return self._lease(worker_id, job, self._slice(job, worker_id, items))

    async def backlog(self) -> list[JobBacklog]:
        with self._shelves.open():
            return [self._backlog(job) for job in self._shelves.jobs.values() if job.may_start]

    def _backlog(self, job: StoredJob) -> JobBacklog:
        since = job.order.created_at if job.generation == 1 else job.started_at
        now, pending = self._shelves.clock.now(), self._shelves.status(job).counts.pending
        return JobBacklog(
            job_id=job.order.job_id,
            priority=job.order.priority,
            items=job.total,
            pending=pending,
            claimable=len(job.claimable(self._shelves.clock.boot())),
            worker_ids=frozenset(worker_id for worker_id, share in job.shares.items() if share.demand > 0),
            limit=job.limit,
            on_demand=job.order.on_demand,
            oldest_seconds=max(0.0, now - (now if since is None else since)) if pending else None,
        )

    def _claimable(self, job: StoredJob, worker_id: str) -> list[StoredItem]:
        # With every slot in others' use this worker would hold items without one to run them.
        if not job.may_start or self._busy_others(job, worker_id) >= job.limit:
            return []
        return job.claimable(self._shelves.clock.boot())

    def _busy_others(self, job: StoredJob, worker_id: str) -> int:
        return sum(share.demand > 0 for worker, share in job.shares.items() if worker != worker_id)

    def _slice(self, job: StoredJob, worker_id: str, items: Sequence[StoredItem]) -> Sequence[StoredItem]:
        """A suspect goes alone."""
        if items[0].suspect:
            return items[:1]
        workers = self._busy_others(job, worker_id) + 1
        most = lease_size(len(items), workers, job.limit, max_lease_items(job.order))
        return list(ByteBudget(LEASE_BYTES).take(items[:most], lambda stored: item_bytes(stored.item)))

    def _lease(self, worker_id: str, job: StoredJob, items: Sequence[StoredItem]) -> Lease:
        if job.state is JobState.PENDING:
            check_job(job.state, JobState.RUNNING)
            job.state, job.started_at = JobState.RUNNING, self._shelves.clock.now()
            job.mark(self._shelves.clock.boot())
        self._shelves.granted += 1
        job.served = self._shelves.granted
        job.release(sum(stored.never_began for stored in items))
        lease = self._shelves.new_lease(worker_id, job, LeasePurpose.RUN)
        lease.seqs, lease.alone = tuple(stored.item.seq for stored in items), items[0].suspect
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
            revision=lease.revision,
            alone=lease.alone,
        )

    def _enter(self, job: StoredJob, worker_id: str, items: int) -> tuple[int, int]:
        """Gives a worker with a new lease its first slots; one that has some already keeps them and only wants more."""
        if worker_id not in job.shares:
            job.shares[worker_id] = StoredShare(demand=items)
            return self._grant(job, worker_id, ceiling=0)
        share = job.shares[worker_id]
        share.demand += items
        return share.slots, self._target(job, worker_id, share.slots)

    def _grant(self, job: StoredJob, worker_id: str, ceiling: int) -> tuple[int, int]:
        """Gives a worker its share of the slots as things stand now; answers with slots and target."""
        target = self._target(job, worker_id, ceiling)
        slots = grant_slots(job.limit, ceiling, target, _slots_of_others(job, worker_id))
        job.shares[worker_id].slots = slots
        return slots, target

    def _target(self, job: StoredJob, worker_id: str, ceiling: int) -> int:
        workers = sorted(job.shares)
        fair = fair_share(job.limit, [job.shares[worker].demand for worker in workers])[workers.index(worker_id)]
        return target_slots(job.limit, ceiling, fair, _slots_of_others(job, worker_id))


def _slots_of_others(job: StoredJob, worker_id: str) -> int:
    return sum(share.slots for worker, share in job.shares.items() if worker != worker_id)


def _candidate(job: StoredJob) -> JobCandidate:
    return JobCandidate(job.order.priority, job.total, job.number, job.served)


class MemoryFinishing(MemoryClaims):  # with MemoryLeases three deep: one port in three files
    """The part of ports/lease_book.py that takes outcomes."""

    async def finish(
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        with self._shelves.open(lease.job.job_id):
            stored = self._shelves.live_lease(lease.fence, LeasePurpose.RUN)
            if stored is None:
                return SlotGrant(directive=LeaseDirective.LOST)
            job = self._shelves.job(stored.job_id)
            _check(ended)
            accepted = self._end_items(job, stored, ended) | self._take_back(job, stored, handed_back)
            share = job.shares[stored.worker_id]
            share.demand, share.queued, share.begun = report.demand, report.queued, report.begun
            slots, target = self._grant(job, stored.worker_id, min(report.ceiling, share.slots))  # none raises itself
            self._shelves.extend(stored)
            return SlotGrant(directive=self._directive(job, stored), slots=slots, target=target, accepted=accepted)

    def _directive(self, job: StoredJob, lease: StoredLease) -> LeaseDirective:
        if lease.right is not LeasePurpose.RUN or (job.may_start and job.revision == lease.revision):
            return LeaseDirective.GO_ON
        return LeaseDirective.STOP

    def _held(self, job: StoredJob, lease: StoredLease, seq: int) -> StoredItem | None:
        stored = job.items.get(seq)
        return stored if stored is not None and stored.fence == lease.fence and stored.past is None else None

    def _end_items(self, job: StoredJob, lease: StoredLease, ended: Sequence[EndedItem]) -> frozenset[int]:
        counted = []
        for end in ended:
            stored = self._held(job, lease, end.seq)
            if stored is not None:
                self._shelves.end_item(job, stored, end, lease.fence)
                counted.append(end)
        self._record(job, counted)
        job.scraper_versions = merge_scraper_versions(job.scraper_versions, counted)
        return frozenset(end.seq for end in counted)

    def _record(self, job: StoredJob, ends: Sequence[EndedItem]) -> None:
        """Tells pace and circuit; if that opens, the job stops or is paused."""
        if ends:
            job.pace = throughput.record_ended_items(job.pace, self._shelves.clock.boot(), len(ends), job.limit)
        job.cost += sum(end.cost for end in ends)
        before = job.circuit
        job.circuit = circuit_breaker.record_item_ends(before, job.order.policy.circuit_breaker, ends)
        if before.opened is None and job.circuit.opened is not None and job.stopping is None:
            self._stop(job)

    async def open_circuit(self, job_id: str, why: str, most_left: int | None = None) -> None:
        with self._shelves.open(job_id):
            job = self._shelves.job(job_id)
            if most_left is not None and job.remaining > most_left:
                return
            if job.may_start and job.circuit.opened is None:
                job.circuit = msgspec.structs.replace(job.circuit, opened=why)
                self._stop(job)

    def _stop(self, job: StoredJob) -> None:
        """What the policy says of a job whose circuit has opened."""
        if job.order.policy.circuit_breaker.on_open is OnOpen.FAIL:
            job.stopping = StopReason.CIRCUIT_OPEN
        elif job.state is not JobState.PAUSED:
            check_job(job.state, JobState.PAUSED)
            job.state = JobState.PAUSED

    def _take_back(self, job: StoredJob, lease: StoredLease, handed_back: Sequence[HandedBackItem]) -> frozenset[int]:
        accepted = set()
        for back in handed_back:
            stored = self._held(job, lease, back.seq)
            if stored is not None:
                stored.take_progress(back)
                due = self._shelves.clock.boot() + back.delay_seconds if back.delay_seconds > 0 else 0.0
                self._give_back(job, stored, due)
                accepted.add(back.seq)
        return frozenset(accepted)

    def _give_back(self, job: StoredJob, stored: StoredItem, due: float = 0.0) -> None:
        stored.give_back(due)
        job.release(-stored.never_began)


def _check(ended: Sequence[EndedItem]) -> None:
    for end in ended:
        check_item(ItemState.PENDING, end.state)
        if not end.state.terminal:
            raise ValueError(f"an item cannot end as {end.state}")


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

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, LeaseDirective]:
        with self._shelves.open():
            return {fence: self._renew(worker_id, fence) for fence in fences}

    def _renew(self, worker_id: str, fence: int) -> LeaseDirective:
        lease = self._shelves.leases.get(fence)
        if lease is None or lease.rescued or lease.worker_id != worker_id:
            return LeaseDirective.LOST
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
        if not any(x.worker_id == worker_id and x.right is LeasePurpose.RUN and not x.rescued for x in leases):
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
            end = end_after_worker_loss(seq, stored.tries, stored.attempts, stored.silences) if blamed else None
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

    def _end_lost(self, job: StoredJob, lease: StoredLease, stored: StoredItem, end: EndedItem) -> None:
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
        if lease.right is not LeasePurpose.END or lease.rescued:
            return 0
        job.ending_deaths += 1
        job.ending_due = self._shelves.clock.boot() + ending_retry_seconds(job.ending_deaths)
        return job.ending_deaths


def _won(stored: StoredItem, fence: int) -> bool:
    """Whether it ended under the fence by its worker's word, and not because the worker was lost."""
    end = stored.ended
    return end is not None and stored.fence == fence and not is_worker_loss_end(end)

"""How outcomes get into the memory store: items, counters, circuit and slots in one commit. Before: claims.py."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from swath.backends.memory.claims import MemoryClaims
from swath.backends.memory.records import Right, StoredItem, StoredJob, StoredLease
from swath.domain import circuit, pace
from swath.domain.attempt import Ended, HandedBack
from swath.domain.job import Stopping, versions_met
from swath.domain.lease import Directive, Grant, Lease, Report
from swath.domain.policy import OnOpen
from swath.domain.transitions import ItemState, JobState, check_item, check_job

__all__ = ["MemoryFinishing"]


class MemoryFinishing(MemoryClaims):  # with MemoryLeases three deep: one port in three files
    """The part of ports/lease_book.py that takes outcomes."""

    async def finish(
        self, lease: Lease, ended: Sequence[Ended], handed_back: Sequence[HandedBack], report: Report
    ) -> Grant:
        with self._shelves.open(lease.job.job_id):
            stored = self._shelves.live_lease(lease.fence, Right.RUN)
            if stored is None:
                return Grant(directive=Directive.LOST)
            job = self._shelves.job(stored.job_id)
            _check(ended)
            accepted = self._end_items(job, stored, ended) | self._take_back(job, stored, handed_back)
            share = job.shares[stored.worker_id]
            share.demand, share.queued, share.begun = report.demand, report.queued, report.begun
            slots, target = self._grant(job, stored.worker_id, min(report.ceiling, share.slots))  # none raises itself
            self._shelves.extend(stored)
            return Grant(directive=self._directive(job, stored), slots=slots, target=target, accepted=accepted)

    def _directive(self, job: StoredJob, lease: StoredLease) -> Directive:
        if lease.right is not Right.RUN or (job.may_start and job.revision == lease.revision):
            return Directive.GO_ON
        return Directive.STOP

    def _held(self, job: StoredJob, lease: StoredLease, seq: int) -> StoredItem | None:
        stored = job.items.get(seq)
        return stored if stored is not None and stored.fence == lease.fence and stored.past is None else None

    def _end_items(self, job: StoredJob, lease: StoredLease, ended: Sequence[Ended]) -> frozenset[int]:
        counted = []
        for end in ended:
            stored = self._held(job, lease, end.seq)
            if stored is not None:
                self._shelves.end_item(job, stored, end, lease.fence)
                counted.append(end)
        self._record(job, counted)
        job.scraper_versions = versions_met(job.scraper_versions, counted)
        return frozenset(end.seq for end in counted)

    def _record(self, job: StoredJob, ends: Sequence[Ended]) -> None:
        """Tells pace and circuit; if that opens, the job stops or is paused."""
        if ends:
            job.pace = pace.record(job.pace, self._shelves.clock.boot(), len(ends), job.limit)
        job.cost += sum(end.cost for end in ends)
        before = job.circuit
        job.circuit = circuit.record(before, job.order.policy.circuit_breaker, ends)
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
            job.stopping = Stopping.CIRCUIT_OPEN
        elif job.state is not JobState.PAUSED:
            check_job(job.state, JobState.PAUSED)
            job.state = JobState.PAUSED

    def _take_back(self, job: StoredJob, lease: StoredLease, handed_back: Sequence[HandedBack]) -> frozenset[int]:
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


def _check(ended: Sequence[Ended]) -> None:
    for end in ended:
        check_item(ItemState.PENDING, end.state)
        if not end.state.terminal:
            raise ValueError(f"an item cannot end as {end.state}")

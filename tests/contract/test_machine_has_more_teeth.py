"""More stores that break one promise each: of circuits, deaths, turns, and of what people do to jobs.

The machine that finds them out is driven as in test_machine_has_teeth.py.
"""

from collections.abc import Collection, Sequence

import msgspec
import pytest

from swath.domain import circuit_breaker
from swath.domain.circuit_breaker import JobCircuit
from swath.domain.execution_policy import CircuitBreaker
from swath.domain.item import EndedItem
from swath.domain.job import JobStatus, StopReason
from swath.domain.lease import Lease, LeaseDirective, lease_size
from swath.domain.transitions import JobState
from tests.contract.test_machine_has_teeth import find_out
from tests.support.memory.state import LeasePurpose, StoredItem, StoredJob, StoredLease
from tests.support.memory.store import MemoryStore

NEVER_OPENS = CircuitBreaker(min_requests=100_000, consecutive_failures=100_000)


class CircuitPerCommit(MemoryStore):
    """The circuit is looked at once in a commit, and not after each outcome."""

    def _record(self, job: StoredJob, ends: Sequence[EndedItem]) -> None:
        job.circuit = circuit_breaker.record_item_ends(job.circuit, NEVER_OPENS, ends[:-1])
        super()._record(job, ends[-1:])


class CircuitShown(MemoryStore):
    """An open circuit is told, and the job goes on."""

    def _record(self, job: StoredJob, ends: Sequence[EndedItem]) -> None:
        job.circuit = circuit_breaker.record_item_ends(job.circuit, job.order.policy.circuit_breaker, ends)


class CircuitAlwaysFails(MemoryStore):
    """A job that was to be paused fails."""

    def _record(self, job: StoredJob, ends: Sequence[EndedItem]) -> None:
        before = job.state
        super()._record(job, ends)
        if job.circuit.opened and job.state is JobState.PAUSED and before is not JobState.PAUSED:
            job.state, job.stopping = before, StopReason.CIRCUIT_OPEN


class GateIgnored(MemoryStore):
    """All items are released at once."""

    def _claimable(self, job: StoredJob, worker_id: str) -> list[StoredItem]:
        known = job.circuit
        job.circuit = msgspec.structs.replace(known, finished=1_000_000)
        try:
            return super()._claimable(job, worker_id)
        finally:
            job.circuit = known


class GateNeverReturned(MemoryStore):
    """What comes back untouched stays released."""

    def _give_back(self, job: StoredJob, stored: StoredItem, due: float = 0.0) -> None:
        stored.give_back(due)


class SuspectsInCompany(MemoryStore):
    """A suspect is leased with others."""

    def _slice(self, job: StoredJob, worker_id: str, items: Sequence[StoredItem]) -> Sequence[StoredItem]:
        return items[: lease_size(len(items), self._busy_others(job, worker_id) + 1, job.limit)]


class BystandersBlamed(MemoryStore):
    """Whoever ran when its worker died counts a crash."""

    def _blame(self, stored: StoredItem, *, alone: bool, died: bool) -> None:
        super()._blame(stored, alone=True, died=died)


class SilenceTakenForDeath(MemoryStore):
    """A worker that fell silent counts as one that died."""

    def _blame(self, stored: StoredItem, *, alone: bool, died: bool) -> None:
        super()._blame(stored, alone=alone, died=True)


class ReportsBlamed(MemoryStore):
    """The last report says who ran, though it is over by now."""

    def _return_items(self, lease: StoredLease, *, blamed: bool) -> int:
        share = self._shelves.job(lease.job_id).shares.get(lease.worker_id)
        if share is not None:
            lease.running = set(share.begun)
        return super()._return_items(lease, blamed=blamed)


class ReleaseBlamed(MemoryStore):
    """A worker that gives its lease up is treated as if it had died."""

    def _return_items(self, lease: StoredLease, *, blamed: bool) -> int:
        return super()._return_items(lease, blamed=True)


class PoisonRunsOn(MemoryStore):
    """An item may kill as many workers as it likes."""

    def _end_lost(self, job: StoredJob, lease: StoredLease, stored: StoredItem, end: EndedItem) -> None:
        self._give_back(job, stored)


class LeavingForgotten(MemoryStore):
    """What once began runs for ever."""

    def leave(self, lease: Lease, *seqs: int) -> None:
        """Does nothing."""


class AnythingBegins(MemoryStore):
    """Items start in jobs that are paused, stop, or have another policy."""

    def begin(self, lease: Lease, *seqs: int) -> bool:
        stored = self._shelves.leases.get(lease.fence)
        if stored is not None:
            stored.running.update(seqs)
        return True


class OnlyTheUrgent(MemoryStore):
    """Nobody ever loses patience."""

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        for job in self._shelves.jobs.values():
            job.served = self._shelves.granted
        return await super().claim(worker_id, job_id, without)


class GreedyLeases(MemoryStore):
    """One worker gets all there is."""

    def _slice(self, job: StoredJob, worker_id: str, items: Sequence[StoredItem]) -> Sequence[StoredItem]:
        return items[:1] if items[0].suspect else items


class PausedAndLeased(MemoryStore):
    """A pause keeps nothing from being handed out."""

    def _claimable(self, job: StoredJob, worker_id: str) -> list[StoredItem]:
        paused = job.state is JobState.PAUSED
        job.state = JobState.RUNNING if paused else job.state
        try:
            return super()._claimable(job, worker_id)
        finally:
            job.state = JobState.PAUSED if paused else job.state


class ResumedAsItWas(MemoryStore):
    """The open circuit stays open."""

    async def resume(self, job_id: str) -> JobStatus:
        before = self._shelves.job(job_id).circuit
        await super().resume(job_id)
        self._shelves.job(job_id).circuit = before
        return await self.status(job_id)


class ResumedFromNothing(MemoryStore):
    """The new circuit knows nothing of what is held."""

    async def resume(self, job_id: str) -> JobStatus:
        paused = self._shelves.job(job_id).state is JobState.PAUSED
        status = await super().resume(job_id)
        if paused and status.stopping is None:
            self._shelves.job(job_id).circuit = JobCircuit()
        return status


class PolicyUnheard(MemoryStore):
    """Leases of a former policy go on."""

    def _directive(self, job: StoredJob, lease: StoredLease) -> LeaseDirective:
        return LeaseDirective.GO_ON if lease.right is not LeasePurpose.RUN or job.may_start else LeaseDirective.STOP


class FirstLimit(MemoryStore):
    """Slots are those of the policy that was first given."""

    def _grant(self, job: StoredJob, worker_id: str, ceiling: int) -> tuple[int, int]:
        now, job.order = job.order, job.first_order
        try:
            return super()._grant(job, worker_id, ceiling)
        finally:
            job.order = now


class RetryCountsTwice(MemoryStore):
    """What runs again stays in the counters."""

    def _begin_generation(self, job: StoredJob, selected: list[StoredItem]) -> None:
        ends = [stored.ended for stored in selected]
        super()._begin_generation(job, selected)
        for end in ends:
            if end is not None:
                job.count(end)


class RetryForgets(MemoryStore):
    """Former ends are gone."""

    def _begin_generation(self, job: StoredJob, selected: list[StoredItem]) -> None:
        super()._begin_generation(job, selected)
        for stored in selected:
            stored.earlier = ()


class RetryGoesOn(MemoryStore):
    """Attempts of the former generation count in the new one."""

    def _begin_generation(self, job: StoredJob, selected: list[StoredItem]) -> None:
        known = [(stored, stored.ended) for stored in selected]
        super()._begin_generation(job, selected)
        for stored, end in known:
            if end is not None:
                stored.tries, stored.attempts = end.tries, end.attempts


class RetryOfAll(MemoryStore):
    """Everything runs again, whatever was selected."""

    def _begin_generation(self, job: StoredJob, selected: list[StoredItem]) -> None:
        super()._begin_generation(job, list(job.items.values()))


class DeletionLeavesItems(MemoryStore):
    """Fewer items of a deleted job are removed than was asked for."""

    async def purge(self, lease: Lease, limit: int) -> int:
        return await super().purge(lease, limit - 1)


class DeletionLeavesTheJob(MemoryStore):
    """A deleted job is still listed."""

    async def purge(self, lease: Lease, limit: int) -> int:
        job = self._shelves.jobs.get(lease.job.job_id)
        left = await super().purge(lease, limit)
        if job is not None and not left:
            self._shelves.jobs[lease.job.job_id] = job
        return left


class KeptForEver(MemoryStore):
    """Retention never ends."""

    async def claim_deletion(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        kept = [name for name, job in self._shelves.jobs.items() if not job.deleting]
        return await super().claim_deletion(worker_id, job_id, [*without, *kept])


BROKEN = [
    CircuitPerCommit,
    CircuitShown,
    CircuitAlwaysFails,
    GateIgnored,
    GateNeverReturned,
    SuspectsInCompany,
    BystandersBlamed,
    SilenceTakenForDeath,
    ReportsBlamed,
    ReleaseBlamed,
    PoisonRunsOn,
    LeavingForgotten,
    AnythingBegins,
    OnlyTheUrgent,
    GreedyLeases,
    PausedAndLeased,
    ResumedAsItWas,
    ResumedFromNothing,
    PolicyUnheard,
    FirstLimit,
    RetryCountsTwice,
    RetryForgets,
    RetryGoesOn,
    RetryOfAll,
    DeletionLeavesItems,
    DeletionLeavesTheJob,
    KeptForEver,
]

BEGIN = {
    AnythingBegins: 5,
    BystandersBlamed: 4,
    CircuitAlwaysFails: 8,
    CircuitPerCommit: 8,
    CircuitShown: 2,
    FirstLimit: 1,
    OnlyTheUrgent: 1,
    PoisonRunsOn: 8,
    PolicyUnheard: 1,
    ReleaseBlamed: 2,
    ReportsBlamed: 9,
    ResumedAsItWas: 1,
    ResumedFromNothing: 1,
    SuspectsInCompany: 6,
    DeletionLeavesItems: 2,
    DeletionLeavesTheJob: 2,
    KeptForEver: 2,
    LeavingForgotten: 2,
}


@pytest.mark.req("Z1", "S3", "S4", "S6", "J5")
@pytest.mark.parametrize("store_class", BROKEN)
def test_the_machine_fails_on_a_broken_store(store_class: type[MemoryStore]) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        find_out(store_class, BEGIN.get(store_class, 0))

"""Each of these stores breaks one promise, and the state machine finds it out: so its silence means something.

Here: who holds what, counters, slots and time. The rest is in test_machine_has_more_teeth.py.
"""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test

from swath.domain.item import EndedItem, HandedBackItem
from swath.domain.lease import Lease, LeaseDirective, SlotGrant, SlotReport
from swath.ports.clock import Clock
from tests.contract.suites import LEASE_SECONDS, Kill, Store, StoreMachine, machine_settings
from tests.support.clock import FakeClock
from tests.support.memory.state import StoredItem, StoredJob, StoredLease
from tests.support.memory.store import MemoryStore


class FenceIgnored(MemoryStore):
    """Whoever says that an item has ended is believed."""

    async def finish(
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        job = self._shelves.jobs.get(lease.job.job_id)
        accepted = set()
        for end in ended:
            stored = None if job is None else job.items.get(end.seq)
            if job is not None and stored is not None and stored.past is None:
                self._shelves.end_item(job, stored, end, lease.fence)
                self._record(job, [end])
                accepted.add(end.seq)
        grant = await super().finish(lease, [], handed_back, report)
        return (
            grant
            if grant.directive is LeaseDirective.LOST
            else msgspec.structs.replace(grant, accepted=frozenset(accepted))
        )


class ZombiesHeard(MemoryStore):
    """A worker that lost its lease is told so, and its outcomes count all the same."""

    async def finish(
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        grant = await super().finish(lease, ended, handed_back, report)
        job = self._shelves.jobs.get(lease.job.job_id)
        for end in ended:
            stored = None if job is None else job.items.get(end.seq)
            if (
                grant.directive is LeaseDirective.LOST
                and job is not None
                and stored is not None
                and stored.past is None
            ):
                self._shelves.end_item(job, stored, end, lease.fence)
        return grant


class OutcomesCounted(MemoryStore):
    """Counters move by what was said, not by what was accepted."""

    def _end_items(self, job: StoredJob, lease: StoredLease, ended: Sequence[EndedItem]) -> frozenset[int]:
        accepted = super()._end_items(job, lease, ended)
        for end in ended:
            if end.seq not in accepted:
                job.count(end)
        return accepted


class ItemsForgotten(MemoryStore):
    """A rescue takes the lease away and leaves its items with nobody."""

    def _return_items(self, lease: StoredLease, *, blamed: bool) -> int:
        return 0 if blamed or lease.rescued else super()._return_items(lease, blamed=blamed)


class OthersOverlooked(MemoryStore):
    """Slots are granted as if there were no other worker."""

    def _grant(self, job: StoredJob, worker_id: str, ceiling: int) -> tuple[int, int]:
        target = self._target(job, worker_id, ceiling)
        job.shares[worker_id].slots = max(ceiling, target)
        return max(ceiling, target), target


class WallClock(FakeClock):
    """A boot clock that jumps with the wall clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def now(self) -> float:
        return self._clock.now()

    def boot(self) -> float:
        return self._clock.now()


class WallClockTrusted(MemoryStore):
    """Leases run out by the clock on the wall."""

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        super().__init__(WallClock(clock), lease_seconds)


class DelayIgnored(MemoryStore):
    """Items handed back to wait are handed out at once."""

    def _take_back(self, job: StoredJob, lease: StoredLease, handed_back: Sequence[HandedBackItem]) -> frozenset[int]:
        at_once = [msgspec.structs.replace(back, delay_seconds=0.0) for back in handed_back]
        return super()._take_back(job, lease, at_once)


class HandedBackTwice(MemoryStore):
    """An item that another lease holds by now can still be handed back."""

    def _held(self, job: StoredJob, lease: StoredLease, seq: int) -> StoredItem | None:
        stored = job.items.get(seq)
        return stored if stored is not None and stored.past is None else None


class SlotsKept(MemoryStore):
    """The slots of dead and silent workers are never free again."""

    def _drop_idle_share(self, job: StoredJob, worker_id: str) -> None:
        """Keeps it."""


class NobodyDies(MemoryStore):
    """Only time takes leases away, however dead their worker is."""

    def kill(self, worker_id: str) -> None:
        """Does nothing."""


BROKEN = [
    FenceIgnored,
    ZombiesHeard,
    OutcomesCounted,
    ItemsForgotten,
    OthersOverlooked,
    WallClockTrusted,
    DelayIgnored,
    HandedBackTwice,
    SlotsKept,
    NobodyDies,
]

BEGIN: dict[type[MemoryStore], int] = {OthersOverlooked: 1, WallClockTrusted: 2}


def machine_over(store_class: type[MemoryStore]) -> type[StoreMachine]:
    class Machine(StoreMachine):
        def make_store(self, clock: FakeClock) -> tuple[Store, Kill]:
            store = store_class(clock, LEASE_SECONDS)
            return store, store.kill

    return Machine


def find_out(store_class: type[MemoryStore], begin: int = 0) -> None:
    """Raises as the machine does, if it does in one of many short searches. `begin` is the first: from some numbers a
    fault is found in a second, from others in minutes."""
    for number in range(begin, begin + 20):
        run_state_machine_as_test(seed(number)(machine_over(store_class)), settings=machine_settings(examples=60))


@pytest.mark.req("Z1")
@pytest.mark.parametrize("store_class", BROKEN)
def test_the_machine_fails_on_a_broken_store(store_class: type[MemoryStore]) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        find_out(store_class, BEGIN.get(store_class, 0))

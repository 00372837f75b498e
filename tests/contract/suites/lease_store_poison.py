"""What LeaseStore promises after a worker's death (S6): suspects, isolation, poison. Part of LeaseStoreContract."""

from __future__ import annotations

import pytest

from swath.domain.failure import FailureKind
from swath.domain.item import Attempt, HandedBackItem, TryCounts
from swath.domain.job import Counts
from swath.domain.lease import MAX_SILENCE_DELAY_SECONDS, MAX_SILENCES, POISON_CRASHES, WORKER_SILENT, Lease, SlotReport
from swath.domain.transitions import ItemState
from tests.contract.suites.builders import Kill, Store, begun, claimed, dies, finished, listing, ready, success
from tests.support.clock import FakeClock

__all__ = ["PoisonContract"]


async def suspects(store: Store) -> list[int]:
    """Rows of items that are suspected now."""
    return [seq for seq, record in (await listing(store)).items() if record.suspect]


async def alone(store: Store, worker_id: str, *, committed: bool = True) -> Lease:
    """A suspect that runs in a lease of its own, as its worker is told to do it."""
    lease = await claimed(store, worker_id)
    assert lease.alone
    (item,) = lease.items
    begun(store, lease, item.seq)
    if committed:
        await finished(store, lease, report=SlotReport(ceiling=1, demand=1, begun=(item.seq,)))
    return lease


async def silent_alone(store: Store, clock: FakeClock, worker_id: str) -> Lease:
    """The same, and the worker is not heard of any more; somebody else cleans up."""
    lease = await alone(store, worker_id)
    clock.advance(lease.lease_seconds)
    for rescued in await store.rescue("cleaner"):
        await store.release("cleaner", rescued.fence)
    return lease


async def one_suspect(store: Store, kill: Kill, items: int = 6) -> None:
    """A job whose first item ran when its worker died."""
    await ready(store, items=items)
    begun(store, await claimed(store, "first"), 1)
    await dies(store, kill, "first")


class PoisonContract:
    """See LeaseBookContract."""

    async def test_what_ran_when_its_worker_died_is_suspected_and_nothing_else(self, store: Store, kill: Kill) -> None:
        await ready(store, items=10)
        lease = await claimed(store)
        begun(store, lease, 1, 2, 3, 4)
        store.leave(lease, 2)
        report = SlotReport(ceiling=4, demand=4, queued=(4,), begun=(1, 2, 5))  # older than what is noted
        await finished(store, lease, [success(3)], report=report)
        (rescued,) = await dies(store, kill, "worker")
        assert (rescued.returned, rescued.winners) == (len(lease.items) - 1, ("3",))
        assert await suspects(store) == [1, 4]
        assert {record.tries for record in (await listing(store)).values()} == {TryCounts()}

    async def test_what_ran_when_its_worker_fell_silent_is_suspected(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        begun(store, lease, 2)
        clock.advance(lease.lease_seconds)
        await store.rescue("other")
        assert await suspects(store) == [2]

    async def test_a_suspect_comes_first_in_a_lease_of_its_own(self, store: Store, kill: Kill) -> None:
        await ready(store, items=10)
        lease = await claimed(store)
        begun(store, lease, 2, 4)
        await dies(store, kill, "worker")
        leases = [await claimed(store, "other") for _ in range(3)]
        assert [each.alone for each in leases] == [True, True, False]
        assert [[item.seq for item in each.items] for each in leases[:2]] == [[2], [4]]
        assert not {2, 4} & {item.seq for item in leases[2].items}

    async def test_an_item_released_by_its_worker_is_not_suspected(self, store: Store) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        begun(store, lease, 1)
        await store.release(lease.worker_id, lease.fence)
        assert await suspects(store) == []
        assert not (await claimed(store)).alone

    async def test_a_death_alone_counts_a_crash(self, store: Store, kill: Kill) -> None:
        await one_suspect(store, kill)
        await alone(store, "second")
        await dies(store, kill, "second")
        records = await listing(store)
        assert [record.tries.crashes for record in records.values()] == [1, 0, 0, 0, 0, 0]
        assert await suspects(store) == [1]
        assert (await claimed(store, "third")).items[0].tries == TryCounts(crashes=1)

    async def test_a_silence_alone_counts_no_crash_however_often(
        self, store: Store, kill: Kill, clock: FakeClock
    ) -> None:
        await one_suspect(store, kill)
        for n in range(1, POISON_CRASHES + 2):
            await silent_alone(store, clock, f"frozen-{n}")
            clock.advance(MAX_SILENCE_DELAY_SECONDS)
        record = await store.item("job", "1")
        assert (record.state, record.tries, record.suspect) == (ItemState.PENDING, TryCounts(), True)
        lease = await alone(store, "awake")
        await finished(store, lease, [success(1)])
        assert (await store.status("job")).failures == {}

    async def test_after_each_silence_alone_an_item_waits_longer(
        self, store: Store, kill: Kill, clock: FakeClock
    ) -> None:
        await one_suspect(store, kill)
        lease_seconds = (await silent_alone(store, clock, "frozen-1")).lease_seconds
        for n, leases in ((2, 1), (3, 3)):
            await silent_alone(store, clock, f"frozen-{n}")
            clock.advance(leases * lease_seconds - 0.5)
            other = await claimed(store, f"other-{n}")
            assert not other.alone
            await store.release(f"other-{n}", other.fence)
            clock.advance(0.5)
        assert (await claimed(store, "last")).alone

    async def test_an_item_whose_workers_all_fall_silent_ends_but_not_as_poison(
        self, store: Store, kill: Kill, clock: FakeClock
    ) -> None:
        await one_suspect(store, kill)
        for n in range(1, MAX_SILENCES):
            await silent_alone(store, clock, f"frozen-{n}")
            clock.advance(MAX_SILENCE_DELAY_SECONDS)
        lease = await alone(store, "last")
        clock.advance(lease.lease_seconds)
        (rescued,) = await store.rescue("careless")
        clock.advance(lease.lease_seconds)
        (again,) = await store.rescue("other")
        assert (rescued.winners, rescued.returned, again.winners, again.returned) == ((), 0, (), 0)
        record = await store.item("job", "1")
        assert (record.state, record.fence, record.reason) == (ItemState.FAILED, lease.fence, WORKER_SILENT)
        assert record.failure is not None
        assert record.failure.kind is FailureKind.INTERNAL
        assert "not known" in record.failure.message
        assert (await store.status("job")).counts == Counts(pending=5, failed=1, total=6)

    async def test_an_item_that_was_tried_begins_anew_with_its_silences(
        self, store: Store, kill: Kill, clock: FakeClock
    ) -> None:
        await one_suspect(store, kill)
        for n in range(1, MAX_SILENCES):
            await silent_alone(store, clock, f"frozen-{n}")
            clock.advance(MAX_SILENCE_DELAY_SECONDS)
        lease = await alone(store, "awake")
        back = HandedBackItem(seq=1, tries=TryCounts(own=1), attempts=(Attempt(1.0, 2.0, "awake"),))
        store.leave(lease, 1)
        await finished(store, lease, handed_back=[back])
        again = await claimed(store, "next")
        assert not again.alone
        begun(store, again, 1)
        await dies(store, kill, "next")
        await silent_alone(store, clock, "frozen")
        assert (await store.item("job", "1")).state is ItemState.PENDING

    async def test_no_crash_counts_before_the_begin_was_committed(self, store: Store, kill: Kill) -> None:
        await one_suspect(store, kill)
        await alone(store, "second", committed=False)
        await dies(store, kill, "second")
        assert (await store.item("job", "1")).tries.crashes == 0
        assert await suspects(store) == [1]

    async def test_no_crash_counts_when_the_attempt_was_over(self, store: Store, kill: Kill) -> None:
        await one_suspect(store, kill)
        store.leave(await alone(store, "second"), 1)
        await dies(store, kill, "second")
        assert (await store.item("job", "1")).tries.crashes == 0
        assert await suspects(store) == [1]

    async def test_a_bystander_is_never_blamed(self, store: Store, kill: Kill) -> None:
        await one_suspect(store, kill, items=30)
        lease, others = await alone(store, "second"), await claimed(store, "second")
        beside = others.items[0].seq
        begun(store, others, beside)
        await finished(store, lease, report=SlotReport(ceiling=8, demand=8, begun=(1, beside)))
        await dies(store, kill, "second")
        records = await listing(store)
        assert {seq: record.tries.crashes for seq, record in records.items() if record.tries.crashes} == {1: 1}
        assert await suspects(store) == [1, beside]

    async def test_an_item_that_kills_three_times_alone_ends_as_poison(self, store: Store, kill: Kill) -> None:
        await one_suspect(store, kill)
        for n in range(1, POISON_CRASHES + 1):
            lease = await alone(store, f"worker-{n}")
            (rescued,) = await dies(store, kill, f"worker-{n}")
            assert (rescued.returned, rescued.winners) == (int(n < POISON_CRASHES), ())
        record = await store.item("job", "1")
        assert (record.state, record.fence, record.suspect) == (ItemState.FAILED, lease.fence, False)
        assert record.failure is not None
        assert record.failure.kind is FailureKind.POISON
        assert record.tries == TryCounts(crashes=POISON_CRASHES)
        status = await store.status("job")
        assert (status.counts, status.failures) == (Counts(pending=5, failed=1, total=6), {"poison": 1})
        further = await claimed(store, "last")
        assert not further.alone
        assert 1 not in {item.seq for item in further.items}

    async def test_poison_has_no_files_to_publish_whoever_cleans_up(self, store: Store, kill: Kill) -> None:
        await one_suspect(store, kill)
        for n in range(1, POISON_CRASHES):
            await alone(store, f"worker-{n}")
            await dies(store, kill, f"worker-{n}")
        await alone(store, "last")
        kill("last")
        (rescued,) = await store.rescue("careless")
        kill("careless")
        (again,) = await store.rescue("other")
        assert (rescued.winners, again.winners, again.returned) == ((), (), 0)

    @pytest.mark.parametrize("tried", [False, True])
    async def test_a_suspect_handed_back_is_one_until_it_was_tried(
        self, store: Store, kill: Kill, clock: FakeClock, tried: bool
    ) -> None:
        await one_suspect(store, kill)
        lease = await alone(store, "second")
        store.leave(lease, 1)
        attempts = (Attempt(1.0, 2.0, "second"),) if tried else ()
        back = HandedBackItem(seq=1, delay_seconds=5, tries=TryCounts(own=int(tried)), attempts=attempts)
        await finished(store, lease, handed_back=[back])
        assert await suspects(store) == ([] if tried else [1])
        assert not (await claimed(store, "third")).alone
        clock.advance(5)
        again = await claimed(store, "fourth")
        assert again.alone is not tried
        assert 1 in {item.seq for item in again.items}

    async def test_a_suspect_that_is_released_stays_one(self, store: Store, kill: Kill) -> None:
        await one_suspect(store, kill)
        lease = await claimed(store, "second")
        await store.release("second", lease.fence)
        assert (await claimed(store, "third")).alone

    async def test_a_suspect_may_end_like_any_other(self, store: Store, kill: Kill) -> None:
        await one_suspect(store, kill, items=1)
        lease = await alone(store, "second")
        await finished(store, lease, [success(1)])
        assert await suspects(store) == []
        assert (await store.status("job")).counts == Counts(success=1, total=1)

    async def test_crashes_go_with_the_item_from_worker_to_worker(self, store: Store, kill: Kill) -> None:
        await one_suspect(store, kill)
        await alone(store, "second")
        await dies(store, kill, "second")
        lease = await alone(store, "third")
        store.leave(lease, 1)
        tries = TryCounts(own=1, crashes=lease.items[0].tries.crashes)
        await finished(
            store, lease, handed_back=[HandedBackItem(seq=1, tries=tries, attempts=(Attempt(1.0, 2.0, "x"),))]
        )
        assert (await store.item("job", "1")).tries == TryCounts(own=1, crashes=1)

    async def test_a_handful_begins_and_leaves_together(self, store: Store, kill: Kill) -> None:
        await ready(store, items=10)
        lease = await claimed(store)
        assert store.begin(lease, 1, 2, 3, 4)
        store.leave(lease, 2, 3)
        await dies(store, kill, "worker")
        assert await suspects(store) == [1, 4]

    async def test_what_may_not_begin_is_not_noted(self, store: Store, kill: Kill) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        begun(store, lease, 1)
        await store.pause("job")
        assert not store.begin(lease, 2, 3)
        await dies(store, kill, "worker")
        assert await suspects(store) == [1]

    async def test_leaving_what_never_began_is_no_trouble(self, store: Store) -> None:
        await ready(store, items=2)
        lease = await claimed(store)
        store.leave(lease, 1)
        store.leave(lease, 77)
        await store.release(lease.worker_id, lease.fence)
        store.leave(lease, 1)

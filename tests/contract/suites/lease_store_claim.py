"""What LeaseStore promises of `claim`: the right items of the right job, each to one lease."""

from __future__ import annotations

import asyncio

import pytest

from swath.domain.item import Attempt, HandedBackItem, TryCounts
from swath.domain.lease import MAX_LEASE_ITEMS, SlotReport
from swath.domain.transitions import JobState
from tests.contract.suites.builders import Store, claim_all, claimed, finished, listing, ready, success
from tests.support.clock import FakeClock

__all__ = ["ClaimContract"]


class ClaimContract:
    """See LeaseBookContract."""

    async def test_a_lease_carries_its_job_and_items(self, store: Store) -> None:
        job = await ready(store, items=3)
        lease = await claimed(store, "worker")
        assert (lease.job, lease.worker_id, lease.stopping, lease.alone) == (job, "worker", None, False)
        assert [(item.seq, item.item_id, item.input) for item in lease.items[:2]] == [
            (n, str(n), {"parcel": str(n)}) for n in (1, 2)
        ]
        assert all((item.tries, item.attempts) == (TryCounts(), ()) for item in lease.items)
        fences = {seq: record.fence for seq, record in (await listing(store)).items()}
        leased = {item.seq for item in lease.items}
        assert fences == {seq: lease.fence if seq in leased else 0 for seq in (1, 2, 3)}

    async def test_the_first_claim_makes_a_job_running(self, store: Store) -> None:
        await ready(store)
        assert (await store.status("job")).state is JobState.PENDING
        await claimed(store)
        assert (await store.status("job")).state is JobState.RUNNING

    async def test_no_lease_has_a_fence_that_another_had(self, store: Store) -> None:
        fences = []
        for job_id in ("a", "b"):
            await ready(store, job_id, items=2, limit=1)
            for _ in range(3):
                lease = await claimed(store, job_id=job_id)
                fences.append(lease.fence)
                await store.release(lease.worker_id, lease.fence)
        assert fences == sorted(set(fences))
        assert fences[0] >= 1

    async def test_there_is_nothing_to_claim_in_an_empty_store(self, store: Store) -> None:
        assert await store.claim("worker") is None

    async def test_an_item_is_held_by_at_most_one_lease(self, store: Store) -> None:
        await ready(store, items=30, limit=10)
        leases = [await claimed(store), *await claim_all(store, "other")]
        held = [item.seq for lease in leases for item in lease.items]
        assert sorted(held) == list(range(1, 31))

    async def test_many_claims_at_once_share_no_item(self, store: Store) -> None:
        await ready(store, items=300, limit=50)
        leases = [lease for lease in await asyncio.gather(*(store.claim(f"w{n}") for n in range(30))) if lease]
        held = [item.seq for lease in leases for item in lease.items]
        assert len(held) == len(set(held)) > 100
        assert len({lease.fence for lease in leases}) == len(leases)
        assert sum(lease.slots for lease in leases) <= 50

    async def test_a_large_job_is_handed_out_in_slices(self, store: Store) -> None:
        await ready(store, items=250, limit=4)
        lease = await claimed(store)
        assert [item.seq for item in lease.items] == list(range(1, len(lease.items) + 1))
        assert 1 < len(lease.items) <= MAX_LEASE_ITEMS

    async def test_one_job_can_be_asked_for(self, store: Store) -> None:
        await ready(store, "a")
        await ready(store, "b")
        assert {lease.job.job_id for lease in await claim_all(store, job_id="b")} == {"b"}
        assert await store.claim("worker", "b") is None
        assert await store.claim("worker", "c") is None

    async def test_jobs_that_a_worker_cannot_run_are_passed_over(self, store: Store) -> None:
        await ready(store, "a")
        await ready(store, "b")
        lease = await store.claim("worker", without={"a"})
        assert lease is not None
        assert lease.job.job_id == "b"
        assert await store.claim("worker", without=["a", "b"]) is None

    async def test_urgency_is_priority_then_size_then_age(self, store: Store) -> None:
        await ready(store, "old-large", items=4)
        await ready(store, "small", items=2)
        await ready(store, "new-large", items=4)
        await ready(store, "urgent", items=9, limit=9, priority=1)
        claims = [lease.job.job_id for lease in await claim_all(store)]
        assert list(dict.fromkeys(claims)) == ["urgent", "small", "old-large", "new-large"]

    async def test_a_job_whose_slots_belong_to_others_that_can_use_them_is_passed_over(self, store: Store) -> None:
        await ready(store, "small", items=50, limit=1)
        await ready(store, "large", items=60)
        first = await claimed(store, "worker")
        assert first.job.job_id == "small"
        assert (await claimed(store, "other")).job.job_id == "large"
        assert (await claimed(store, "worker")).job.job_id == "small"
        await finished(store, first, report=SlotReport(ceiling=0, demand=0))
        assert (await claimed(store, "other")).job.job_id == "small"

    async def test_an_item_handed_back_is_claimable_after_its_delay(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=1)
        lease = await claimed(store)
        await finished(store, lease, handed_back=[HandedBackItem(seq=1, delay_seconds=30)])
        clock.advance(29.5)
        await store.renew("worker", [lease.fence])
        assert await store.claim("other") is None
        clock.advance(0.5)
        assert [item.seq for item in (await claimed(store, "other")).items] == [1]

    @pytest.mark.parametrize("jump", [-3_600.0, 3_600.0])
    async def test_a_jump_of_the_wall_clock_does_not_change_a_delay(
        self, store: Store, clock: FakeClock, jump: float
    ) -> None:
        await ready(store, items=1)
        await finished(store, await claimed(store), handed_back=[HandedBackItem(seq=1, delay_seconds=30)])
        clock.jump_wall(jump)
        assert await store.claim("other") is None
        clock.advance(30)
        assert await store.claim("other") is not None

    async def test_what_came_back_goes_before_what_is_fresh(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=20, limit=2)
        lease = await claimed(store)
        late, soon = lease.items[0].seq, lease.items[1].seq
        back = [HandedBackItem(seq=late, delay_seconds=5), HandedBackItem(seq=soon, delay_seconds=1)]
        await finished(store, lease, handed_back=back)
        clock.advance(5)
        assert [item.seq for item in (await claimed(store, "other")).items][:2] == [soon, late]

    async def test_what_earlier_leases_did_goes_with_the_item(self, store: Store) -> None:
        await ready(store, items=1)
        attempts = (Attempt(1.0, 2.0, "worker"), Attempt(3.0, 4.0, "worker"))
        back = HandedBackItem(seq=1, attempts=attempts, tries=TryCounts(2, 1, 0))
        await finished(store, await claimed(store), handed_back=[back])
        record = await store.item("job", "1")
        assert (record.attempts, record.tries, record.fence) == (attempts, TryCounts(2, 1, 0), 0)
        (item,) = (await claimed(store, "other")).items
        assert (item.attempts, item.tries) == (attempts, TryCounts(2, 1, 0))

    async def test_ended_items_are_never_handed_out_again(self, store: Store) -> None:
        await ready(store, items=3)
        lease = await claimed(store)
        await finished(store, lease, [success(2)])
        await store.release(lease.worker_id, lease.fence)
        assert [item.seq for lease in await claim_all(store) for item in lease.items] == [1, 3]

    async def test_a_cancelled_job_is_leased_no_more(self, store: Store) -> None:
        await ready(store)
        await store.cancel("job")
        assert await store.claim("worker") is None

"""What LeaseStore promises of `finish`: outcomes count once, under the fence, within the slots. Part of
LeaseStoreContract.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec.structs import replace

from swath.domain.item import EndedItem, HandedBackItem
from swath.domain.lease import Lease, LeaseDirective, SlotGrant, SlotReport
from swath.domain.transitions import ItemState
from tests.contract.suites.builders import Store, claimed, failed, finished, listing, ready, success
from tests.support.clock import FakeClock

__all__ = ["FinishContract"]


class FinishContract:
    """See LeaseBookContract."""

    async def test_outcomes_that_count_are_named(self, store: Store) -> None:
        await ready(store, items=6)
        lease = await claimed(store)
        grant = await finished(store, lease, [success(1), failed(2)], [HandedBackItem(seq=3)])
        assert grant.directive is LeaseDirective.GO_ON
        assert grant.accepted == {1, 2, 3}
        states = {seq: record.state.value for seq, record in (await listing(store)).items()}
        assert states == {1: "success", 2: "failed", **dict.fromkeys((3, 4, 5, 6), "pending")}

    async def test_a_repeated_call_counts_nothing(self, store: Store) -> None:
        await ready(store, items=6)
        lease = await claimed(store)
        for accepted in (frozenset({1, 2, 3}), frozenset(), frozenset()):
            grant = await finished(store, lease, [success(1), failed(2)], [HandedBackItem(seq=3)])
            assert (grant.directive, grant.accepted) == (LeaseDirective.GO_ON, accepted)
        counts = (await store.status("job")).counts
        assert (counts.success, counts.failed, counts.pending) == (1, 1, 4)
        assert (await store.status("job")).failures == {"timeout": 1}

    async def test_a_call_sent_twice_at_once_counts_once(self, store: Store) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        grants = await asyncio.gather(
            *(finished(store, lease, [success(1)], [HandedBackItem(seq=2)]) for _ in range(6))
        )
        assert sorted(seq for grant in grants for seq in grant.accepted) == [1, 2]
        assert (await store.status("job")).counts.success == 1

    async def test_one_item_named_twice_in_a_call_counts_once(self, store: Store) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        grant = await finished(store, lease, [success(1), failed(1)], [HandedBackItem(seq=1), HandedBackItem(seq=2)])
        assert grant.accepted == {1, 2}
        status = await store.status("job")
        assert (status.counts.success, status.counts.failed, status.failures) == (1, 0, {})
        assert (await store.item("job", "1")).state is ItemState.SUCCESS

    @pytest.mark.req("Z5", "J7")
    async def test_a_status_names_the_versions_of_the_scraper_under_which_items_have_ended(self, store: Store) -> None:
        await ready(store, items=6, scraper_version="1")
        assert (await store.status("job")).scraper_versions == ()
        lease = await claimed(store)
        await finished(store, lease, [success(1), failed(2)])
        assert (await store.status("job")).scraper_versions == ("1",)
        other = replace(success(3), scraper_version="2")
        await finished(store, lease, [other, success(4), replace(success(1), scraper_version="void")])
        status = await store.status("job")
        assert (status.job.scraper_version, status.scraper_versions) == ("1", ("1", "2"))

    async def test_an_item_of_another_lease_does_not_count(self, store: Store) -> None:
        await ready(store, items=40, limit=2)
        mine, theirs = await claimed(store, "worker"), await claimed(store, "other")
        grant = await finished(store, mine, [success(theirs.items[0].seq)], [HandedBackItem(seq=theirs.items[1].seq)])
        assert (grant.directive, grant.accepted) == (LeaseDirective.GO_ON, frozenset())
        records = await listing(store)
        assert {records[item.seq].fence for item in theirs.items} == {theirs.fence}
        assert (await store.status("job")).counts.ended == 0

    async def test_an_item_that_does_not_exist_does_not_count(self, store: Store) -> None:
        await ready(store, items=1)
        grant = await finished(store, await claimed(store), [success(77)], [HandedBackItem(seq=78)])
        assert grant.accepted == frozenset()

    async def test_an_item_handed_back_does_not_count_any_more(self, store: Store) -> None:
        await ready(store, items=2)
        lease = await claimed(store)
        await finished(store, lease, handed_back=[HandedBackItem(seq=1)])
        assert (await finished(store, lease, [success(1)])).accepted == frozenset()
        await claimed(store, "other")
        assert (await finished(store, lease, [success(1)])).accepted == frozenset()
        assert (await store.status("job")).counts.success == 0

    async def test_an_item_cannot_end_in_a_state_that_is_no_end(self, store: Store) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        with pytest.raises((ValueError, KeyError)):
            await finished(store, lease, [success(1), EndedItem(seq=2, state=ItemState.QUEUED)])
        assert (await store.status("job")).counts.ended == 0

    async def test_under_a_lost_fence_nothing_changes(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=6)
        lease = await claimed(store)
        clock.advance(lease.lease_seconds)
        await store.rescue("other")
        before = await listing(store)
        grant = await finished(store, lease, [success(1)], [HandedBackItem(seq=2, delay_seconds=9)])
        assert grant == SlotGrant(directive=LeaseDirective.LOST)
        assert await listing(store) == before
        again = await claimed(store, "other")
        assert (await finished(store, lease, [success(1)])).directive is LeaseDirective.LOST
        assert (await finished(store, again, [success(1)])).accepted == {1}

    async def test_under_a_released_fence_nothing_changes(self, store: Store) -> None:
        await ready(store, items=1)
        lease = await claimed(store)
        await store.release(lease.worker_id, lease.fence)
        assert await finished(store, lease, [success(1)]) == SlotGrant(directive=LeaseDirective.LOST)
        assert (await store.status("job")).counts.success == 0

    async def test_workers_of_a_cancelled_job_are_told_to_stop(self, store: Store) -> None:
        await ready(store, items=6)
        lease = await claimed(store)
        await store.cancel("job")
        grant = await finished(store, lease, [success(1)], [HandedBackItem(seq=2)])
        assert (grant.directive, set(grant.accepted)) == (LeaseDirective.STOP, {1, 2})

    async def test_a_commit_extends_the_lease(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        for seq in (1, 2):
            clock.advance(lease.lease_seconds - 0.5)
            assert await store.rescue("other") == []
            await finished(store, lease, [success(seq)])
        clock.advance(lease.lease_seconds)
        assert len(await store.rescue("other")) == 1

    async def test_a_worker_alone_gets_all_slots_that_it_can_use(self, store: Store) -> None:
        await ready(store, items=20, limit=5)
        lease = await claimed(store)
        assert (lease.slots, lease.target) == (5, 5)
        await ready(store, "one", items=1, limit=5)
        assert (await claimed(store, job_id="one")).slots == 1

    async def test_a_second_worker_gets_its_share_when_the_first_has_shrunk(self, store: Store) -> None:
        await ready(store, items=40, limit=8)
        first = await claimed(store, "worker")
        second = await claimed(store, "other")
        assert (first.slots, second.slots, second.target) == (8, 0, 4)
        grant = await finished(store, first, report=SlotReport(ceiling=8, demand=8))
        assert (grant.slots, grant.target) == (8, 4)
        grant = await finished(store, second, report=SlotReport(ceiling=0, demand=8))
        assert (grant.slots, grant.target) == (0, 4)
        grant = await finished(store, first, report=SlotReport(ceiling=5, demand=8))
        assert (grant.slots, grant.target) == (5, 4)
        grant = await finished(store, second, report=SlotReport(ceiling=0, demand=8))
        assert (grant.slots, grant.target) == (3, 4)

    async def test_slots_that_nobody_else_can_use_come_back(self, store: Store) -> None:
        await ready(store, items=40, limit=8)
        first, second = await claimed(store, "worker"), await claimed(store, "other")
        await finished(store, first, report=SlotReport(ceiling=4, demand=8))
        await finished(store, second, report=SlotReport(ceiling=0, demand=8))
        await store.release(second.worker_id, second.fence)
        grant = await finished(store, first, report=SlotReport(ceiling=4, demand=8))
        assert (grant.slots, grant.target) == (8, 8)

    async def test_a_worker_cannot_raise_its_own_ceiling(self, store: Store) -> None:
        await ready(store, items=40, limit=8)
        first, second = await claimed(store, "worker"), await claimed(store, "other")
        grant = await finished(store, second, report=SlotReport(ceiling=8, demand=8))
        assert grant.slots == 0
        await finished(store, first, report=SlotReport(ceiling=6, demand=8))
        assert (await finished(store, second, report=SlotReport(ceiling=8, demand=8))).slots == 2

    async def test_a_further_lease_leaves_the_slots_as_they_are_until_the_next_report(self, store: Store) -> None:
        await ready(store, items=60, limit=8)
        first, other = await claimed(store, "worker"), await claimed(store, "other")
        await finished(store, first, report=SlotReport(ceiling=3, demand=0))
        await finished(store, other, report=SlotReport(ceiling=0, demand=2))
        further = await claimed(store, "worker")
        assert (further.slots, further.target) == (3, 6)
        grant = await finished(store, further, report=SlotReport(ceiling=3, demand=24))
        assert (grant.slots, grant.target) == (6, 6)

    async def test_slots_are_kept_until_the_last_lease_is_given_up(self, store: Store) -> None:
        await ready(store, items=60, limit=8)
        leases = [await claimed(store, "worker") for _ in range(2)]
        other = await claimed(store, "other")
        await store.release(leases[0].worker_id, leases[0].fence)
        assert (await finished(store, other, report=SlotReport(ceiling=0, demand=8))).slots == 0
        await store.release(leases[1].worker_id, leases[1].fence)
        assert (await finished(store, other, report=SlotReport(ceiling=0, demand=8))).slots == 8

    @pytest.mark.parametrize("seed", range(5))
    async def test_slots_never_exceed_the_limit_whatever_workers_do(self, store: Store, seed: int) -> None:
        luck = random.Random(seed)
        limit = luck.randint(1, 9)
        await ready(store, items=90, limit=limit)
        leases: dict[str, list[Lease]] = {f"w{n}": [] for n in range(4)}
        slots = dict.fromkeys(leases, 0)
        for _ in range(80):
            worker = luck.choice(list(leases))
            held = leases[worker]
            if not held or luck.random() < 0.3:
                lease = await store.claim(worker)
                if lease is not None:
                    held.append(lease)
                    slots[worker] = lease.slots
            elif luck.random() < 0.3:
                await store.release(worker, held.pop(luck.randrange(len(held))).fence)
                slots[worker] = slots[worker] if held else 0
            else:
                report = SlotReport(ceiling=luck.randint(0, slots[worker]), demand=luck.randint(0, 12))
                slots[worker] = (await finished(store, luck.choice(held), report=report)).slots
            assert sum(slots.values()) <= limit

"""What LeaseStore promises of `renew`, `release` and `rescue`. Part of LeaseStoreContract."""

from __future__ import annotations

import asyncio
import threading

import pytest

from swath.domain.item import HandedBackItem, TryCounts
from swath.domain.lease import LeaseDirective, SlotReport
from tests.contract.suites.builders import Kill, Store, claim_all, claimed, failed, finished, listing, ready, success
from tests.support.clock import FakeClock

__all__ = ["RescueContract"]


class RescueContract:
    """See LeaseBookContract."""

    async def test_a_renewed_lease_goes_on(self, store: Store, clock: FakeClock) -> None:
        await ready(store)
        lease = await claimed(store)
        for _ in range(4):
            clock.advance(lease.lease_seconds - 1)
            assert dict(await store.renew("worker", [lease.fence])) == {lease.fence: LeaseDirective.GO_ON}
            assert await store.rescue("other") == []
        assert (await finished(store, lease, [success(1)])).accepted == {1}

    async def test_only_the_own_leases_are_renewed(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=40, limit=2)
        mine, theirs = await claimed(store, "worker"), await claimed(store, "other")
        clock.advance(mine.lease_seconds - 1)
        answers = await store.renew("worker", [mine.fence, theirs.fence, 99])
        assert dict(answers) == {
            mine.fence: LeaseDirective.GO_ON,
            theirs.fence: LeaseDirective.LOST,
            99: LeaseDirective.LOST,
        }
        clock.advance(1)
        assert [rescued.fence for rescued in await store.rescue("third")] == [theirs.fence]

    async def test_a_lease_that_was_taken_away_cannot_be_renewed(self, store: Store, clock: FakeClock) -> None:
        await ready(store)
        lease = await claimed(store)
        clock.advance(lease.lease_seconds)
        await store.rescue("other")
        assert dict(await store.renew("worker", [lease.fence])) == {lease.fence: LeaseDirective.LOST}

    async def test_a_renewal_tells_of_a_cancel(self, store: Store) -> None:
        await ready(store)
        lease = await claimed(store)
        await store.cancel("job")
        assert dict(await store.renew("worker", [lease.fence])) == {lease.fence: LeaseDirective.STOP}

    async def test_a_renewal_may_come_from_another_thread(self, store: Store, clock: FakeClock) -> None:
        await ready(store)
        lease = await claimed(store)
        clock.advance(lease.lease_seconds - 1)
        answers = []
        heart = threading.Thread(target=lambda: answers.append(asyncio.run(_renew(store, lease.fence))))
        heart.start()
        await asyncio.to_thread(heart.join, 10)
        assert answers == [{lease.fence: LeaseDirective.GO_ON}]
        clock.advance(1)
        assert await store.rescue("other") == []

    async def test_a_lease_whose_time_is_over_holds_until_it_is_rescued(self, store: Store, clock: FakeClock) -> None:
        await ready(store)
        lease = await claimed(store)
        clock.advance(lease.lease_seconds * 10)
        assert await store.claim("other") is None
        assert (await finished(store, lease, [success(1)])).accepted == {1}
        clock.advance(lease.lease_seconds * 10)
        assert dict(await store.renew("worker", [lease.fence])) == {lease.fence: LeaseDirective.GO_ON}
        assert await store.rescue("other") == []

    @pytest.mark.parametrize("jump", [-3_600.0, 3_600.0])
    async def test_a_jump_of_the_wall_clock_neither_ends_nor_extends_a_lease(
        self, store: Store, clock: FakeClock, jump: float
    ) -> None:
        await ready(store)
        lease = await claimed(store)
        clock.jump_wall(jump)
        clock.advance(lease.lease_seconds - 0.5)
        assert await store.rescue("other") == []
        clock.advance(0.5)
        assert len(await store.rescue("other")) == 1

    async def test_released_items_are_claimable_at_once_and_nobody_is_blamed(self, store: Store) -> None:
        await ready(store, items=6)
        lease = await claimed(store)
        await finished(store, lease, [success(1)], report=SlotReport(ceiling=3, demand=2, begun=(2, 3)))
        await store.release(lease.worker_id, lease.fence)
        again = await claimed(store, "other")
        assert [(item.seq, item.tries) for item in again.items[:2]] == [(2, TryCounts()), (3, TryCounts())]
        counts = (await store.status("job")).counts
        assert (counts.pending, counts.in_progress, counts.success) == (5, 0, 1)

    async def test_releasing_an_unknown_fence_does_nothing(self, store: Store) -> None:
        await ready(store)
        lease = await claimed(store)
        await store.release(lease.worker_id, lease.fence + 1)
        await store.release("somebody else", lease.fence)
        assert (await store.renew(lease.worker_id, [lease.fence]))[lease.fence] is LeaseDirective.GO_ON
        await store.release(lease.worker_id, lease.fence)
        await store.release(lease.worker_id, lease.fence)
        assert [item.item_id for item in (await claimed(store)).items] == [item.item_id for item in lease.items]

    async def test_a_silent_worker_loses_its_lease(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=8)
        lease = await claimed(store)
        clock.advance(5)
        await finished(store, lease, [success(1), failed(2)], [HandedBackItem(seq=3, delay_seconds=100)])
        clock.advance(lease.lease_seconds + 2)
        (rescued,) = await store.rescue("other")
        assert (rescued.fence, rescued.job_id, rescued.worker_id) == (lease.fence, "job", "worker")
        assert (sorted(rescued.winners), rescued.returned) == (["1", "2"], len(lease.items) - 3)
        assert rescued.silent_seconds == pytest.approx(lease.lease_seconds + 2)
        assert [item.seq for item in (await claimed(store, "other")).items][:2] == [4, 5]

    async def test_a_dead_worker_loses_its_leases_at_once(self, store: Store, kill: Kill) -> None:
        await ready(store, items=40, limit=2)
        lost, kept = await claimed(store, "worker"), await claimed(store, "other")
        kill("worker")
        assert [rescued.fence for rescued in await store.rescue("other")] == [lost.fence]
        assert (await finished(store, kept, [success(kept.items[0].seq)])).directive is LeaseDirective.GO_ON
        assert dict(await store.renew("worker", [lost.fence])) == {lost.fence: LeaseDirective.LOST}

    async def test_items_of_a_lost_lease_run_no_more_though_their_worker_has_others(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ready(store, items=40)
        lost, kept, released = [await claimed(store) for _ in range(3)]
        running = [lease.items[0].seq for lease in (lost, kept, released)]
        report = SlotReport(ceiling=8, demand=8, queued=(lost.items[1].seq,), begun=tuple(running))
        await finished(store, kept, report=report)
        clock.advance(kept.lease_seconds - 1)
        await store.renew("worker", [kept.fence, released.fence])
        clock.advance(1)
        assert [rescued.fence for rescued in await store.rescue("other")] == [lost.fence]
        await store.release(released.worker_id, released.fence)
        counts = (await store.status("job")).counts
        assert (counts.pending, counts.queued, counts.in_progress) == (39, 0, 1)
        records = await listing(store)
        assert [records[seq].state.value for seq in running] == ["pending", "in_progress", "pending"]

    async def test_what_an_item_went_through_since_it_left_a_lease_is_known_though_both_are_lost(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ready(store, items=8)
        once, twice = TryCounts(own=1), TryCounts(own=2)
        for lease in await claim_all(store):
            await finished(store, lease, [], [HandedBackItem(seq=item.seq, tries=once) for item in lease.items])
            await store.release("worker", lease.fence)
        former = await claimed(store)
        seqs = [item.seq for item in former.items][:-1]
        await finished(store, former, [], [HandedBackItem(seq=seq, tries=twice) for seq in seqs])
        await claim_all(store)
        clock.advance(former.lease_seconds)
        await store.rescue("other")
        records = await listing(store)
        assert [records[seq].tries for seq in seqs] == [twice] * len(seqs)
        assert records[former.items[-1].seq].tries == once

    async def test_with_its_last_lease_a_worker_loses_its_slots(self, store: Store, kill: Kill) -> None:
        await ready(store, items=12, limit=3)
        assert (await claimed(store)).slots == 3
        kill("worker")
        await store.rescue("other")
        assert (await claimed(store, "other")).slots == 3

    async def test_a_rescued_lease_is_given_to_one_caller(self, store: Store, kill: Kill) -> None:
        await ready(store)
        await claimed(store)
        kill("worker")
        answers = await asyncio.gather(*(store.rescue(f"w{n}") for n in range(5)))
        assert sorted(len(answer) for answer in answers) == [0, 0, 0, 0, 1]
        assert await store.rescue("late") == []

    async def test_a_worker_that_rescues_its_own_lease_has_lost_it(self, store: Store, clock: FakeClock) -> None:
        await ready(store)
        lease = await claimed(store)
        clock.advance(lease.lease_seconds)
        assert len(await store.rescue("worker")) == 1
        assert dict(await store.renew("worker", [lease.fence])) == {lease.fence: LeaseDirective.LOST}
        assert (await finished(store, lease, [success(1)])).directive is LeaseDirective.LOST

    async def test_if_the_rescuer_falls_silent_too_the_next_one_is_asked(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        await finished(store, lease, [success(1)])
        clock.advance(lease.lease_seconds)
        await store.rescue("cleaner")
        again = await claimed(store, "other")
        for cleaner in ("second", "third"):
            clock.advance(lease.lease_seconds - 1)
            await store.renew("other", [again.fence])
            assert await store.rescue(cleaner) == []
            clock.advance(1)
            (rescued,) = await store.rescue(cleaner)
            assert (rescued.fence, rescued.winners, rescued.returned) == (lease.fence, ("1",), 0)
        assert (await finished(store, again, [success(2)])).accepted == {2}

    async def test_if_the_rescuer_dies_too_the_next_one_is_asked_at_once(self, store: Store, kill: Kill) -> None:
        await ready(store)
        lease = await claimed(store)
        kill("worker")
        await store.rescue("cleaner")
        kill("cleaner")
        assert [rescued.fence for rescued in await store.rescue("second")] == [lease.fence]
        assert await store.rescue("third") == []

    async def test_a_job_cannot_end_before_the_rescued_lease_is_released(self, store: Store, kill: Kill) -> None:
        await ready(store, items=1)
        lease = await claimed(store)
        await finished(store, lease, [success(1)])
        kill("worker")
        await store.rescue("other")
        assert await store.claim_ending("other") is None
        await store.release(lease.worker_id, lease.fence)  # the one it was taken from has no say any more
        assert await store.claim_ending("other") is None
        await store.release("other", lease.fence)
        assert await store.claim_ending("other") is not None


async def _renew(store: Store, fence: int) -> dict[int, LeaseDirective]:
    return dict(await store.renew("worker", [fence]))

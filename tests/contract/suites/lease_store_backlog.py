"""What LeaseStore promises of the backlog. Part of LeaseStoreContract."""

from __future__ import annotations

import pytest

from swath.domain.fair_scheduling import JobBacklog
from swath.domain.item import Attempt, HandedBackItem, RetrySelection, TryCounts
from swath.domain.lease import SlotReport
from tests.contract.suites.builders import (
    Kill,
    Store,
    batch,
    begun,
    claimed,
    dies,
    end_job,
    finished,
    new_job,
    policy,
    ready,
    run_all,
    success,
)
from tests.support.clock import FakeClock

__all__ = ["BacklogContract"]


async def _one(store: Store) -> JobBacklog:
    (job,) = await store.backlog()
    return job


class BacklogContract:
    """Fixtures as for LeaseBookContract."""

    @pytest.mark.req("W5")
    async def test_a_sealed_job_waits_as_a_whole(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=5, limit=3, priority=4, created_at=clock.now())
        clock.advance(30)
        assert await _one(store) == JobBacklog(
            job_id="job", priority=4, items=5, pending=5, claimable=5, limit=3, oldest_seconds=30.0
        )

    @pytest.mark.req("W5")
    async def test_only_jobs_that_may_run_are_told_the_oldest_first(self, store: Store) -> None:
        for name in ("first", "paused", "cancelled", "second"):
            await ready(store, name)
        await store.submit(new_job("loading"))
        await store.load("loading", batch(0, 1, ["1"]))
        await store.pause("paused")
        await store.cancel("cancelled")
        assert [job.job_id for job in await store.backlog()] == ["first", "second"]

    @pytest.mark.req("W5")
    async def test_what_is_held_or_has_ended_is_not_claimable(self, store: Store) -> None:
        await ready(store, items=40, limit=8)
        lease = await claimed(store, "a")
        held = len(lease.items)
        waits = await _one(store)
        assert (waits.pending, waits.claimable, sorted(waits.worker_ids)) == (40, 40 - held, ["a"])
        running = [item.seq for item in lease.items[1:4]]
        begun(store, lease, *running)
        report = SlotReport(ceiling=8, demand=held - 1, queued=(running[0],), begun=tuple(running[1:]))
        await finished(store, lease, [success(lease.items[0].seq)], report=report)
        waits = await _one(store)
        assert (waits.pending, waits.claimable) == (40 - 1 - 3, 40 - held)

    @pytest.mark.req("W5")
    async def test_workers_are_those_that_can_use_slots(self, store: Store) -> None:
        await ready(store, items=40, limit=8)
        a, _ = await claimed(store, "a"), await claimed(store, "b")
        assert (await _one(store)).workers == 2
        await finished(store, a, report=SlotReport(ceiling=0, demand=0))
        assert (await _one(store)).workers == 1
        await store.release("a", a.fence)
        assert (await _one(store)).workers == 1

    @pytest.mark.req("W5")
    async def test_an_item_that_waits_for_its_time_is_pending_and_not_claimable(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ready(store, items=1)
        lease = await claimed(store)
        tried = Attempt(clock.now(), clock.now(), "worker")
        await finished(
            store, lease, [], [HandedBackItem(seq=1, delay_seconds=60, attempts=(tried,), tries=TryCounts(1))]
        )
        await store.release(lease.worker_id, lease.fence)
        waits = await _one(store)
        assert (waits.pending, waits.claimable, waits.workers) == (1, 0, 0)
        clock.advance(66)
        assert (await _one(store)).claimable == 1

    @pytest.mark.req("W5", "S4")
    async def test_what_the_circuit_has_not_released_is_not_claimable(self, store: Store) -> None:
        careful = policy(8, {"min_requests": 4})
        await ready(store, items=10, policy=careful)
        assert (await _one(store)).claimable == 4
        lease = await claimed(store)
        assert (await _one(store)).claimable == 4 - len(lease.items)
        await store.release(lease.worker_id, lease.fence)
        assert (await _one(store)).claimable == 4

    @pytest.mark.req("W5")
    async def test_what_a_dead_worker_held_is_claimable_after_its_rescue(self, store: Store, kill: Kill) -> None:
        await ready(store, items=6)
        lease = await claimed(store, "a")
        begun(store, lease, 1)
        await dies(store, kill, "a")
        waits = await _one(store)
        assert (waits.pending, waits.claimable, waits.workers) == (6, 6, 0)

    @pytest.mark.req("W5")
    async def test_a_later_generation_waits_with_what_was_selected(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=3, created_at=clock.now())
        await run_all(store)
        assert (await _one(store)).oldest_seconds is None  # all have ended, the job has not
        await end_job(store)
        assert await store.backlog() == []
        clock.advance(100)
        await store.retry("job", RetrySelection(item_ids=frozenset({"2"})))
        waits = await _one(store)
        assert (waits.items, waits.pending, waits.claimable, waits.oldest_seconds) == (3, 1, 1, 0.0)
        await claimed(store)
        clock.advance(7)
        assert (await _one(store)).oldest_seconds == pytest.approx(7)

    @pytest.mark.req("W5")
    async def test_a_lowered_limit_is_told(self, store: Store) -> None:
        await ready(store, limit=8)
        await store.change_policy("job", policy(2))
        assert (await _one(store)).limit == 2

    @pytest.mark.req("W5", "I3")
    async def test_what_somebody_waits_for_is_told(self, store: Store) -> None:
        await ready(store, "bulk", items=2)
        await store.order(new_job("wanted", on_demand=True), batch(0, 1, ["1"]))
        assert {job.job_id: (job.on_demand, job.pending) for job in await store.backlog()} == {
            "bulk": (False, 2),
            "wanted": (True, 1),
        }

"""The contract of the Endings port."""

from __future__ import annotations

import asyncio

import pytest

from swath.domain.errors import LeaseLost
from swath.domain.item import Attempt, HandedBackItem, RetrySelection, TryCounts
from swath.domain.job import Counts, EndingProgress, EndingStep, JobEnding, StopReason, ending_retry_seconds
from swath.domain.lease import Lease, LeaseDirective
from swath.domain.transitions import ItemState, JobState
from tests.contract.suites.builders import (
    Kill,
    Store,
    batch,
    claimed,
    dies,
    end_job,
    failed,
    finished,
    listing,
    new_job,
    ready,
    run_all,
    success,
)
from tests.contract.suites.endings_delete import DeletionContract
from tests.support.clock import FakeClock

__all__ = ["EndingsContract"]


async def to_be_ended(store: Store, worker_id: str = "worker", items: int = 3) -> Lease:
    """The right to end a job whose items have all ended."""
    await ready(store, items=items)
    await run_all(store)
    lease = await store.claim_ending(worker_id)
    assert lease is not None
    return lease


async def claimed_ending(store: Store, worker_id: str) -> Lease:
    """A right to end that must be there."""
    lease = await store.claim_ending(worker_id)
    assert lease is not None
    return lease


class EndingsContract(DeletionContract):  # one suite in two files
    """Fixtures to give: `store` (a Store, closed afterwards) on `clock` (a FakeClock), and `kill` (see orders.Kill)."""

    async def test_a_job_can_be_ended_when_all_its_items_have(self, store: Store) -> None:
        job = await ready(store, items=1)
        lease = await claimed(store)
        assert await store.claim_ending("other") is None
        await finished(store, lease, [success(1)])
        assert await store.claim_ending("other") is None  # the lease may still have files to publish
        await store.release(lease.worker_id, lease.fence)
        ending = await store.claim_ending("other")
        assert ending is not None
        assert (ending.job, ending.worker_id, ending.items, ending.stopping) == (job, "other", (), None)
        assert ending.fence > lease.fence

    async def test_a_waiting_item_keeps_its_job_open(self, store: Store) -> None:
        await ready(store, items=1)
        lease = await claimed(store)
        await finished(store, lease, handed_back=[HandedBackItem(seq=1, delay_seconds=60)])
        await store.release(lease.worker_id, lease.fence)
        assert await store.claim_ending("worker") is None

    async def test_one_holder_at_a_time(self, store: Store) -> None:
        await ready(store)
        await run_all(store)
        answers = await asyncio.gather(*(store.claim_ending(f"w{n}") for n in range(6)))
        assert len([answer for answer in answers if answer is not None]) == 1
        assert await store.claim_ending("late") is None

    async def test_a_released_right_goes_to_the_next(self, store: Store) -> None:
        lease = await to_be_ended(store)
        await store.release(lease.worker_id, lease.fence)
        assert await store.claim_ending("other") is not None
        with pytest.raises(LeaseLost):
            await store.end(lease, JobState.COMPLETED, {})

    async def test_end_makes_the_job_terminal_with_its_manifest(self, store: Store) -> None:
        lease = await to_be_ended(store)
        status = await store.end(lease, JobState.COMPLETED, {"parts": {"full": [1, 2]}})
        assert (status.state, status.manifest) == (JobState.COMPLETED, {"parts": {"full": [1, 2]}})
        assert await store.status("job") == status
        assert status.counts == Counts(success=3, total=3)
        assert await store.claim_ending("worker") is None
        assert await store.claim("worker") is None

    async def test_end_releases_the_right(self, store: Store, clock: FakeClock) -> None:
        lease = await to_be_ended(store)
        await store.end(lease, JobState.COMPLETED, {})
        with pytest.raises(LeaseLost):
            await store.end(lease, JobState.COMPLETED, {})
        clock.advance(lease.lease_seconds)
        assert await store.rescue("other") == []

    async def test_a_job_does_not_end_in_a_state_that_is_no_end(self, store: Store) -> None:
        lease = await to_be_ended(store)
        for state in (JobState.PENDING, JobState.RUNNING, JobState.LOADING):
            with pytest.raises(ValueError, match="cannot go"):
                await store.end(lease, state, {})
        assert (await store.status("job")).state is JobState.RUNNING

    async def test_a_job_with_unfinished_items_does_not_end(self, store: Store) -> None:
        await ready(store, items=3)
        await store.cancel("job")
        lease = await store.claim_ending("worker")
        assert lease is not None
        await store.sweep(lease, 2)
        with pytest.raises(ValueError, match="1 item"):
            await store.end(lease, JobState.CANCELLED, {})
        await store.sweep(lease, 2)
        assert (await store.end(lease, JobState.CANCELLED, {})).state is JobState.CANCELLED

    async def test_a_cancelled_job_waits_for_its_leases(self, store: Store) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        await store.cancel("job")
        assert await store.claim_ending("worker") is None
        await finished(store, lease, [success(1)], [HandedBackItem(seq=2, delay_seconds=500)])
        await store.release(lease.worker_id, lease.fence)
        status = await end_job(store)
        assert status.state is JobState.CANCELLED
        assert status.counts == Counts(success=1, cancelled=3, total=4)

    async def test_the_holder_of_a_cancelled_job_is_told_so_and_goes_on(self, store: Store) -> None:
        await ready(store)
        await store.cancel("job")
        lease = await store.claim_ending("worker")
        assert lease is not None
        assert lease.stopping is StopReason.CANCELLED
        assert dict(await store.renew("worker", [lease.fence])) == {lease.fence: LeaseDirective.GO_ON}

    async def test_sweep_cancels_up_to_so_many_and_says_how_many_were_left(self, store: Store) -> None:
        await ready(store, items=8)
        lease = await claimed(store)
        attempts = (Attempt(1.0, 2.0, "worker"),)
        back = HandedBackItem(seq=4, delay_seconds=9, attempts=attempts, tries=TryCounts(1, 0, 0))
        await finished(store, lease, [success(1), failed(3)], [back])
        await store.release(lease.worker_id, lease.fence)
        await store.cancel("job")
        ending = await store.claim_ending("worker")
        assert ending is not None
        assert [await store.sweep(ending, 4) for _ in range(3)] == [6, 2, 0]
        records = await listing(store)
        states = [record.state.value for record in records.values()]
        assert states == ["success", "cancelled", "failed", *["cancelled"] * 5]
        assert (records[4].attempts, records[4].tries, records[4].not_before) == (attempts, TryCounts(1, 0, 0), None)
        assert (await store.status("job")).counts == Counts(success=1, failed=1, cancelled=6, total=8)

    async def test_a_job_cancelled_while_loading_ends_with_its_items_swept(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "abc"))
        await store.cancel("job")
        status = await end_job(store)
        assert (status.state, status.counts) == (JobState.CANCELLED, Counts(cancelled=3, total=3))

    async def test_a_job_cancelled_before_its_first_item_came_ends_too(self, store: Store) -> None:
        await store.submit(new_job())
        await store.cancel("job")
        assert (await end_job(store)).state is JobState.CANCELLED

    async def test_a_job_cancelled_when_all_was_done_is_completed(self, store: Store) -> None:
        lease = await to_be_ended(store)
        await store.cancel("job")
        assert await store.sweep(lease, 10) == 0
        assert (await store.end(lease, JobState.COMPLETED, {})).state is JobState.COMPLETED

    async def test_the_right_to_end_is_rescued_like_any_lease(self, store: Store, clock: FakeClock) -> None:
        lease = await to_be_ended(store)
        clock.advance(lease.lease_seconds)
        (rescued,) = await store.rescue("other")
        assert (rescued.fence, rescued.job_id, rescued.winners, rescued.returned) == (lease.fence, "job", (), 0)
        assert await store.claim_ending("other") is None
        await store.release("other", lease.fence)
        again = await store.claim_ending("other")
        assert again is not None
        assert (await store.end(again, JobState.COMPLETED, {})).state is JobState.COMPLETED

    async def test_a_holder_that_lost_the_right_changes_nothing(self, store: Store, kill: Kill) -> None:
        await ready(store, items=2)
        await store.cancel("job")
        lease = await store.claim_ending("worker")
        assert lease is not None
        kill("worker")
        await store.rescue("other")
        for call in (store.sweep(lease, 5), store.end(lease, JobState.CANCELLED, {})):
            with pytest.raises(LeaseLost):
                await call
        assert {record.state for record in (await listing(store)).values()} == {ItemState.PENDING}
        assert dict(await store.renew("worker", [lease.fence])) == {lease.fence: LeaseDirective.LOST}

    @pytest.mark.req("Z8", "Z10", "J7")
    async def test_what_an_ending_reports_is_shown_while_its_holder_has_the_right(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ready(store)
        assert (await store.status("job")).ending is None
        await run_all(store)
        assert (await store.status("job")).ending is None
        lease = await claimed_ending(store, "worker")
        assert (await store.status("job")).ending == JobEnding(step=EndingStep.STARTING)
        for done in (1, 2):
            clock.advance(lease.lease_seconds - 1)
            progress = EndingProgress(EndingStep.LISTING, done, 3)
            assert await store.renew_ending(lease, progress) is LeaseDirective.GO_ON
            shown = JobEnding(step=EndingStep.LISTING, done=done, total=3)
            assert (await store.status("job")).ending == shown
            assert [status.ending for status in await store.jobs()] == [shown]
            assert await store.rescue("other") == []  # it renews the right as well
        await store.release(lease.worker_id, lease.fence)
        assert (await store.status("job")).ending is None
        assert await store.renew_ending(lease, EndingProgress(EndingStep.LISTING, 3, 3)) is LeaseDirective.LOST
        second = await claimed_ending(store, "other")
        assert (await store.status("job")).ending == JobEnding(step=EndingStep.STARTING)
        assert await store.renew_ending(lease, EndingProgress(EndingStep.LISTING, 3, 3)) is LeaseDirective.LOST
        assert (await store.status("job")).ending == JobEnding(step=EndingStep.STARTING)
        assert (await store.end(second, JobState.COMPLETED, {})).ending is None

    @pytest.mark.req("S6", "Z10")
    async def test_an_ending_that_kills_its_workers_is_put_off_longer_each_time_and_stops_no_other_job(
        self, store: Store, clock: FakeClock, kill: Kill
    ) -> None:
        await ready(store, "deadly")
        await ready(store, "other")
        await run_all(store)
        for deaths in range(1, 7):
            lease = await claimed_ending(store, f"w{deaths}")
            assert lease.job.job_id == "deadly"
            (rescued,) = await dies(store, kill, f"w{deaths}")
            assert rescued.ending_deaths == deaths
            seconds = ending_retry_seconds(deaths)
            if seconds:
                assert await store.claim_ending("hasty", "deadly") is None
                shown = JobEnding(step=EndingStep.PUT_OFF, deaths=deaths, retry_seconds=seconds)
                assert (await store.status("deadly")).ending == shown
                between = await store.claim_ending("hasty")
                assert between is not None
                assert between.job.job_id == "other"
                await store.release("hasty", between.fence)
                clock.advance(seconds)
        assert ending_retry_seconds(6) >= 600
        assert ending_retry_seconds(99) == ending_retry_seconds(6)
        last = await claimed_ending(store, "survivor")
        assert (await store.status("deadly")).ending == JobEnding(step=EndingStep.STARTING, deaths=6)
        assert (await store.end(last, JobState.COMPLETED, {})).ending is None
        await store.retry("deadly", RetrySelection(item_ids=frozenset({"1"})))
        assert (await store.status("deadly")).ending is None

    @pytest.mark.req("S6", "Z10", "J5")
    async def test_a_person_may_have_an_ending_that_is_put_off_tried_at_once(self, store: Store, kill: Kill) -> None:
        await to_be_ended(store, "first")
        await dies(store, kill, "first")
        await claimed_ending(store, "second")
        await dies(store, kill, "second")
        assert await store.claim_ending("third") is None
        status = await store.resume("job")
        assert status.ending == JobEnding(step=EndingStep.PUT_OFF, deaths=2, retry_seconds=0.0)
        await claimed_ending(store, "third")

    @pytest.mark.req("S6", "Z10")
    async def test_who_cleans_up_after_a_death_and_dies_is_no_death_of_the_ending(
        self, store: Store, kill: Kill
    ) -> None:
        await to_be_ended(store, "first")
        kill("first")
        assert [lease.ending_deaths for lease in await store.rescue("cleaner")] == [1]
        kill("cleaner")
        (rescued,) = await store.rescue("other")
        assert rescued.ending_deaths == 0
        await store.release("other", rescued.fence)
        await claimed_ending(store, "other")

"""What Endings promises of deletion: in pieces, by one holder, and complete. Part of EndingsContract."""

from __future__ import annotations

import asyncio

import pytest

from swath.domain.clock_watch import CONFIRM_SECONDS
from swath.domain.errors import LeaseLost, UnknownName
from swath.domain.item import RetrySelection
from swath.domain.lease import Lease, LeaseDirective
from swath.domain.transitions import JobState
from tests.contract.suites.builders import (
    Kill,
    Store,
    batch,
    claimed,
    end_job,
    listing,
    new_job,
    policy,
    ready,
    run_all,
)
from tests.support.clock import FakeClock

__all__ = ["DeletionContract"]

DAY_SECONDS = 86_400


async def over(store: Store, job_id: str = "job", items: int = 5, retention_days: float | None = None) -> None:
    """A job that has ended."""
    await ready(store, job_id, items=items, policy=policy(retention_days=retention_days))
    await run_all(store)
    await end_job(store)


async def to_be_deleted(store: Store, worker_id: str = "worker", items: int = 5) -> Lease:
    """The right to delete a job."""
    await over(store, items=items)
    await store.delete("job")
    lease = await store.claim_deletion(worker_id)
    assert lease is not None
    return lease


class DeletionContract:
    """See EndingsContract."""

    async def test_only_a_marked_job_is_deleted(self, store: Store) -> None:
        await over(store, "kept")
        await over(store, "gone")
        assert await store.claim_deletion("worker") is None
        await store.delete("gone")
        assert await store.claim_deletion("worker", "kept") is None
        lease = await store.claim_deletion("worker")
        assert lease is not None
        assert (lease.job.job_id, lease.worker_id, lease.items) == ("gone", "worker", ())

    async def test_a_job_is_removed_in_pieces_without_a_trace(self, store: Store) -> None:
        lease = await to_be_deleted(store)
        assert [await store.purge(lease, 2) for _ in range(3)] == [5, 3, 1]
        assert (await store.status("job")).deleting
        assert await listing(store) == {}
        assert await store.purge(lease, 2) == 0
        for look in (store.status("job"), store.items("job"), store.item("job", "1")):
            with pytest.raises(UnknownName):
                await look
        assert await store.jobs() == []
        assert await store.rescue("other") == []

    async def test_its_id_can_be_used_again(self, store: Store) -> None:
        lease = await to_be_deleted(store)
        while await store.purge(lease, 2):
            pass
        status = await store.submit(new_job(limit=1))
        assert (status.state, status.counts.total, status.generation) == (JobState.LOADING, 0, 1)
        assert (await store.load("job", batch(0, 1, "12"))).added == 2
        await store.seal("job", 1)
        assert (await store.item("job", "1")).earlier == ()
        assert (await claimed(store)).fence > lease.fence

    async def test_what_was_retried_leaves_no_trace_either(self, store: Store) -> None:
        await over(store)
        await store.retry("job", RetrySelection(since=0.0))
        await run_all(store)
        await end_job(store)
        await store.delete("job")
        lease = await store.claim_deletion("worker")
        assert lease is not None
        while await store.purge(lease, 3):
            pass
        await over(store)
        await store.retry("job", RetrySelection(since=0.0))
        assert [past.generation for past in (await store.item("job", "1")).earlier] == [1]

    async def test_a_loading_job_is_deleted_too(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "abc"))
        await store.delete("job")
        lease = await store.claim_deletion("worker", "job")
        assert lease is not None
        assert [await store.purge(lease, 10) for _ in range(2)] == [3, 0]

    async def test_one_holder_of_the_right_to_delete_at_a_time(self, store: Store) -> None:
        await over(store)
        await store.delete("job")
        answers = await asyncio.gather(*(store.claim_deletion(f"w{n}") for n in range(5)))
        assert len([answer for answer in answers if answer is not None]) == 1

    async def test_a_deletion_waits_for_whoever_ends_the_job(self, store: Store) -> None:
        await store.submit(new_job())
        await store.cancel("job")
        ending = await store.claim_ending("worker")
        assert ending is not None
        await store.delete("job")
        assert await store.claim_deletion("other") is None
        await store.release("worker", ending.fence)
        assert await store.claim_ending("worker") is None
        assert await store.claim_deletion("other") is not None

    async def test_the_right_to_delete_goes_on_and_is_rescued_like_any_lease(
        self, store: Store, clock: FakeClock
    ) -> None:
        lease = await to_be_deleted(store)
        await store.purge(lease, 2)
        assert dict(await store.renew("worker", [lease.fence])) == {lease.fence: LeaseDirective.GO_ON}
        clock.advance(lease.lease_seconds)
        (rescued,) = await store.rescue("other")
        assert (rescued.fence, rescued.winners, rescued.returned) == (lease.fence, (), 0)
        with pytest.raises(LeaseLost):
            await store.purge(lease, 2)
        assert await store.claim_deletion("other") is None
        await store.release("other", lease.fence)
        again = await store.claim_deletion("other")
        assert again is not None
        assert [await store.purge(again, 10) for _ in range(2)] == [3, 0]

    async def test_the_right_to_end_is_no_right_to_delete_nor_the_reverse(self, store: Store) -> None:
        await ready(store, "open")
        await run_all(store)
        ending = await store.claim_ending("worker")
        assert ending is not None
        deletion = await to_be_deleted(store)
        for call in (store.purge(ending, 5), store.sweep(deletion, 5), store.end(deletion, JobState.COMPLETED, {})):
            with pytest.raises(LeaseLost):
                await call
        assert (await store.status("open")).counts.total == 3

    async def test_a_dead_deleter_is_replaced(self, store: Store, kill: Kill) -> None:
        lease = await to_be_deleted(store)
        kill("worker")
        assert [rescued.fence for rescued in await store.rescue("other")] == [lease.fence]
        await store.release("other", lease.fence)
        assert await store.claim_deletion("other") is not None

    @pytest.mark.req("J5", "Z10")
    async def test_a_job_is_deleted_when_its_retention_is_over_for_an_hour(
        self, store: Store, clock: FakeClock
    ) -> None:
        await over(store, retention_days=2)
        ended_at = (await store.status("job")).ended_at
        assert ended_at is not None
        clock.advance(2 * DAY_SECONDS)
        assert await store.claim_deletion("worker") is None, "one look at the clocks is not enough"
        clock.advance(CONFIRM_SECONDS - 1)
        assert await store.claim_deletion("worker") is None
        assert not (await store.status("job")).deleting
        clock.advance(1)
        lease = await store.claim_deletion("worker")
        assert lease is not None
        assert lease.due_since == ended_at + 2 * DAY_SECONDS
        assert (await store.status("job")).deleting
        await store.release("worker", lease.fence)
        again = await store.claim_deletion("other")
        assert again is not None, "it is marked now"
        assert again.due_since is None

    @pytest.mark.req("J5", "Z10")
    @pytest.mark.parametrize("days", [1, 400])
    async def test_no_job_is_deleted_because_the_wall_clock_jumped(
        self, store: Store, clock: FakeClock, days: float
    ) -> None:
        await over(store, retention_days=days)
        assert await store.claim_deletion("worker") is None
        for _ in range(3):  # each time as far, as a clock does that is set by two servers in turn
            clock.jump_wall(days * DAY_SECONDS + 7)
            for _ in range(3):
                assert await store.claim_deletion("worker") is None
                assert await store.claim_deletion("worker", "job") is None
                clock.advance(7)
            clock.jump_wall(-days * DAY_SECONDS - 7)
            clock.advance(CONFIRM_SECONDS / 3)
            assert await store.claim_deletion("worker") is None
            clock.advance(CONFIRM_SECONDS)

    @pytest.mark.req("J5", "Z10")
    async def test_a_job_that_ended_while_the_wall_clock_was_behind_is_kept(
        self, store: Store, clock: FakeClock
    ) -> None:
        await ready(store, created_at=clock.now(), policy=policy(retention_days=10))
        clock.jump_wall(-400 * DAY_SECONDS)
        await run_all(store)
        await end_job(store)
        clock.jump_wall(400 * DAY_SECONDS)
        for _ in range(5):
            assert await store.claim_deletion("worker") is None
            clock.advance(CONFIRM_SECONDS)
        clock.advance(10 * DAY_SECONDS)
        assert await store.claim_deletion("worker") is not None

    @pytest.mark.req("J5", "Z10")
    async def test_a_retry_that_ended_while_the_wall_clock_was_behind_keeps_its_job_as_long_as_any(
        self, store: Store, clock: FakeClock
    ) -> None:
        """Its order is nearly as old as the job may become, so the time of that helps nobody."""
        await over(store, retention_days=10)
        for _ in range(9):
            assert await store.claim_deletion("worker") is None
            clock.advance(DAY_SECONDS)
        assert await store.claim_deletion("worker") is None
        await store.retry("job", RetrySelection(since=0.0))
        clock.jump_wall(-400 * DAY_SECONDS)
        await run_all(store)
        await end_job(store)
        clock.advance(14)
        assert await store.claim_deletion("worker") is None
        clock.jump_wall(400 * DAY_SECONDS)
        for _ in range(9):
            assert await store.claim_deletion("worker") is None
            clock.advance(DAY_SECONDS)
        clock.advance(DAY_SECONDS + CONFIRM_SECONDS)
        assert await store.claim_deletion("worker") is not None

    @pytest.mark.req("J5", "Z10")
    async def test_a_wall_clock_that_stays_where_it_jumped_is_believed_after_an_hour(
        self, store: Store, clock: FakeClock
    ) -> None:
        await over(store, retention_days=1)
        assert await store.claim_deletion("worker") is None
        clock.jump_wall(2 * DAY_SECONDS)
        for _ in range(12):
            assert await store.claim_deletion("worker") is None
            clock.advance(CONFIRM_SECONDS / 12)
            clock.jump_wall(-2.0)  # a time server's small corrections are no jumps
        clock.advance(60)
        assert await store.claim_deletion("worker") is not None

    async def test_retention_begins_anew_with_each_end(self, store: Store, clock: FakeClock) -> None:
        await over(store, retention_days=2)
        clock.advance(2 * DAY_SECONDS)
        await store.retry("job", RetrySelection(since=0.0))
        assert await store.claim_deletion("worker") is None
        await run_all(store)
        await end_job(store)
        clock.advance(DAY_SECONDS)
        assert await store.claim_deletion("worker") is None
        clock.advance(DAY_SECONDS + CONFIRM_SECONDS)
        assert await store.claim_deletion("worker") is not None

    async def test_retention_is_that_of_the_present_policy(self, store: Store, clock: FakeClock) -> None:
        await over(store, retention_days=1)
        await store.change_policy("job", policy(retention_days=3))
        clock.advance(2 * DAY_SECONDS)
        assert await store.claim_deletion("worker") is None
        clock.advance(CONFIRM_SECONDS)
        await store.change_policy("job", policy(retention_days=0.5))
        assert await store.claim_deletion("worker") is not None, "it has been due for long"
        await over(store, "stays")
        clock.advance(1_000 * DAY_SECONDS)
        assert await store.claim_deletion("worker", "stays") is None

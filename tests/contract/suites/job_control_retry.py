"""What JobControl promises of `retry` (J5). Part of JobControlContract."""

from __future__ import annotations

import pytest

from swath.domain.errors import BadInput, Conflict
from swath.domain.failure import FailureKind
from swath.domain.item import Attempt, EndedItem, RetrySelection, SuccessOutcome, TryCounts
from swath.domain.job import Counts
from swath.domain.transitions import ItemState, JobState
from tests.contract.suites.builders import (
    Store,
    claim_all,
    claimed,
    end_job,
    failed,
    finished,
    listing,
    policy,
    ready,
    run_all,
    success,
)
from tests.support.clock import FakeClock

__all__ = ["RetryContract"]


async def ended_job(store: Store) -> list[EndedItem]:
    """A job that was cancelled after five of its seven items had ended, in different ways."""
    await ready(store, items=7, limit=7)
    attempts = (Attempt(1.0, 2.0, "worker"),)
    ends = [
        success(1),
        success(2, SuccessOutcome.NOT_FOUND),
        failed(3),
        EndedItem(seq=4, state=ItemState.FAILED, failure=failed(4, FailureKind.BLOCKED).failure, attempts=attempts,
              tries=TryCounts(own=3), scraper_version="7"),
        EndedItem(seq=5, state=ItemState.SKIPPED, reason="robots"),
    ]  # fmt: skip
    for lease in await claim_all(store):
        mine = {item.seq for item in lease.items}
        await finished(store, lease, [end for end in ends if end.seq in mine])
        if 7 in mine:
            await store.cancel("job")
        await store.release(lease.worker_id, lease.fence)
    await end_job(store)
    return ends


class RetryContract:
    """See JobControlContract."""

    async def test_selected_items_are_pending_again_and_the_rest_keeps_its_end(self, store: Store) -> None:
        await ended_job(store)
        before = await listing(store)
        status = await store.retry("job", RetrySelection(failed=True))
        assert (status.state, status.generation, status.stopping) == (JobState.PENDING, 2, None)
        assert status.counts == Counts(pending=2, success=2, not_found=1, skipped=1, cancelled=2, total=7)
        assert (status.failures, status.ended_at) == ({}, None)
        records = await listing(store)
        assert {seq: records[seq] for seq in (1, 2, 5, 6, 7)} == {seq: before[seq] for seq in (1, 2, 5, 6, 7)}
        for seq in (3, 4):
            again = records[seq]
            assert (again.state, again.fence, again.failure) == (ItemState.PENDING, 0, None)
            assert (again.tries, again.attempts, again.ended_at) == (TryCounts(), (), None)

    @pytest.mark.parametrize(
        ("selection", "rows"),
        [
            (RetrySelection(failed=True), [3, 4]),
            (RetrySelection(kinds=frozenset({FailureKind.BLOCKED})), [4]),
            (RetrySelection(not_run=True), [6, 7]),
            (RetrySelection(item_ids=frozenset({"1", "5", "99"})), [1, 5]),
            (RetrySelection(failed=True, item_ids=frozenset({"2"})), [2, 3, 4]),
            (RetrySelection(since=0.0), [1, 2, 3, 4, 5, 6, 7]),
        ],
    )
    async def test_what_is_selected_runs_again_and_nothing_else(
        self, store: Store, selection: RetrySelection, rows: list[int]
    ) -> None:
        await ended_job(store)
        await store.retry("job", selection)
        leased = [item for lease in await claim_all(store) for item in lease.items]
        assert sorted(item.seq for item in leased) == rows
        assert all((item.tries, item.attempts) == (TryCounts(), ()) for item in leased)

    async def test_the_time_of_its_end_narrows_the_selection(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=4)
        lease = await claimed(store)
        mine = [item.seq for item in lease.items]
        await finished(store, lease, [failed(mine[0])])
        clock.advance(10)
        since = clock.now()
        await finished(store, lease, [failed(seq) for seq in mine[1:]])
        await store.release(lease.worker_id, lease.fence)
        await run_all(store)
        await end_job(store)
        await store.retry("job", RetrySelection(failed=True, since=since))
        leased = [item.seq for lease in await claim_all(store) for item in lease.items]
        assert sorted(leased) == mine[1:]

    async def test_former_ends_stay_known(self, store: Store, clock: FakeClock) -> None:
        ends = await ended_job(store)
        first_end = clock.now()
        assert (await store.item("job", "4")).earlier == ()
        await store.retry("job", RetrySelection(failed=True))
        clock.advance(50)
        (past,) = (await store.item("job", "4")).earlier
        assert (past.generation, past.ended_at, past.end) == (1, first_end, ends[3])
        await run_all(store)
        record = await store.item("job", "4")
        assert (record.state, record.generation, record.ended_at) == (ItemState.SUCCESS, 2, clock.now())
        assert record.earlier == (past,)
        untouched = await store.item("job", "1")
        assert (untouched.generation, untouched.ended_at, untouched.earlier) == (1, first_end, ())
        await end_job(store)
        await store.retry("job", RetrySelection(item_ids=frozenset({"1", "4"})))
        assert [past.generation for past in (await store.item("job", "4")).earlier] == [1, 2]
        assert [past.generation for past in (await store.item("job", "1")).earlier] == [1]
        assert {record.earlier for record in (await listing(store)).values()} == {()}, "a list has no earlier ends"

    async def test_the_job_ends_again_with_a_new_manifest(self, store: Store, clock: FakeClock) -> None:
        await ended_job(store)
        status = await store.retry("job", RetrySelection(failed=True, not_run=True))
        assert status.manifest == {"parts": 0}
        assert await store.claim_ending("worker") is None
        clock.advance(7)
        await run_all(store)
        lease = await store.claim_ending("worker")
        assert lease is not None
        assert lease.stopping is None
        status = await store.end(lease, JobState.COMPLETED, {"parts": 1})
        assert (status.state, status.generation, status.ended_at) == (JobState.COMPLETED, 2, clock.now())
        assert status.counts == Counts(success=6, not_found=1, skipped=1, total=7)
        assert status.manifest == {"parts": 1}

    async def test_each_item_ends_once_in_a_generation(self, store: Store) -> None:
        await ended_job(store)
        await store.retry("job", RetrySelection(failed=True))
        lease = await claimed(store, "other")
        seqs = [item.seq for item in lease.items]
        for accepted in (frozenset(seqs), frozenset()):
            assert (await finished(store, lease, [failed(seq) for seq in seqs])).accepted == accepted

    async def test_a_lease_of_a_former_generation_counts_for_nothing(self, store: Store) -> None:
        await ready(store, items=1)
        old = await claimed(store)
        await finished(store, old, [failed(1)])
        await store.release(old.worker_id, old.fence)
        await end_job(store)
        await store.retry("job", RetrySelection(failed=True))
        assert (await finished(store, old, [success(1)])).accepted == frozenset()
        assert (await finished(store, await claimed(store), [success(1)])).accepted == {1}

    async def test_a_job_whose_circuit_opened_is_taken_up_with_a_new_one(self, store: Store) -> None:
        breaker = {"min_requests": 4, "consecutive_failures": 4}
        await ready(store, items=10, policy=policy(4, breaker))
        for lease in await claim_all(store):
            await finished(store, lease, [failed(item.seq) for item in lease.items])
            await store.release(lease.worker_id, lease.fence)
        assert (await end_job(store)).state is JobState.FAILED
        status = await store.retry("job", RetrySelection(not_run=True))
        assert (status.circuit_opened, status.stopping, status.counts.pending) == (None, None, 6)
        leases = await claim_all(store)
        assert sum(len(lease.items) for lease in leases) == 4
        await finished(store, leases[0], [failed(leases[0].items[0].seq)])
        assert (await store.status("job")).circuit_opened is None

    async def test_only_an_ended_job_can_be_retried(self, store: Store) -> None:
        await ready(store)
        with pytest.raises(Conflict):
            await store.retry("job", RetrySelection(since=0.0))
        await run_all(store)
        with pytest.raises(Conflict):
            await store.retry("job", RetrySelection(since=0.0))

    async def test_a_selection_that_nothing_fits_is_refused(self, store: Store) -> None:
        await ready(store)
        await run_all(store)
        before = await end_job(store)
        for selection in (RetrySelection(), RetrySelection(failed=True), RetrySelection(item_ids=frozenset({"99"}))):
            with pytest.raises(BadInput):
                await store.retry("job", selection)
        assert await store.status("job") == before

    async def test_a_new_generation_can_be_paused_cancelled_and_retried(self, store: Store) -> None:
        await ended_job(store)
        await store.retry("job", RetrySelection(failed=True))
        assert (await store.pause("job")).state is JobState.PAUSED
        assert (await store.resume("job")).state is JobState.PENDING
        await store.cancel("job")
        status = await end_job(store)
        assert (status.state, status.counts.cancelled) == (JobState.CANCELLED, 4)
        status = await store.retry("job", RetrySelection(not_run=True))
        assert (status.generation, status.counts.pending) == (3, 4)

"""The contract of the JobStore port."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest

from swath.domain.errors import Conflict, UnknownName
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.item import Attempt, EndedItem, HandedBackItem, RetrySelection, SuccessOutcome, TryCounts
from swath.domain.job import Counts, JobStatus, WaitingFor
from swath.domain.lease import SlotReport
from swath.domain.result import Artifact
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
from tests.contract.suites.change_feed import ChangeFeedContract
from tests.contract.suites.job_store_find import FindContract
from tests.contract.suites.job_store_large import LargeInputContract
from tests.contract.suites.job_store_load import LoadContract
from tests.contract.suites.job_store_rate import JobRateContract
from tests.contract.suites.job_store_whole import StoredWholeContract
from tests.support.clock import FakeClock

__all__ = ["JobStoreContract"]


async def figures(store: Store) -> dict[str, int]:
    """Items by state, of which the counters must say the same."""
    states = Counter(record.state.value for record in (await listing(store)).values())
    counts = msgspec.to_builtins((await store.status("job")).counts)
    assert {state: counts[state] for state in ItemState} == {state: states[state] for state in ItemState}
    assert counts["total"] == states.total()
    return dict(states)


class JobStoreContract(
    LoadContract, StoredWholeContract, FindContract, LargeInputContract, ChangeFeedContract, JobRateContract
):  # three deep with the back end's class; one suite in several files
    """Fixtures to give: `store` (a Store, closed afterwards) on `clock` (a FakeClock), and `kill` (see orders.Kill)."""

    async def test_a_new_job_is_loading_and_empty(self, store: Store) -> None:
        status = await store.submit(new_job())
        assert status.state is JobState.LOADING
        assert status.counts == Counts()
        assert (status.started_at, status.ended_at, status.generation) == (None, None, 1)

    async def test_an_order_is_kept_whole(self, store: Store) -> None:
        policy = ExecutionPolicy.model_validate(
            {"retries": {"kinds": {"blocked": {"max_retries": 7}}}, "proxy": {"ladder": ["none", "datacenter"]}}
        )
        job = new_job(name="Ländle", labels={"county": "maricopa"}, callback_url="https://x.test/", created_at=5.5)
        job = type(job)(**{name: getattr(job, name) for name in job.__struct_fields__} | {"policy": policy})
        await store.submit(job)
        assert (await store.status("job")).job == job

    async def test_the_same_order_again_is_answered_as_it_stands(self, store: Store) -> None:
        await ready(store)
        status = await store.submit(new_job(created_at=99.0))
        assert status.state is JobState.PENDING
        assert status.counts.total == 3
        assert status.job.created_at == 0.0

    async def test_another_order_under_the_same_id_is_a_conflict(self, store: Store) -> None:
        await store.submit(new_job(limit=3))
        with pytest.raises(Conflict, match="'job'"):
            await store.submit(new_job(limit=4))
        assert (await store.status("job")).job == new_job(limit=3)

    async def test_an_abandoned_job_leaves_its_id_free(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "abc"))
        await store.abandon("job")
        with pytest.raises(UnknownName):
            await store.status("job")
        await store.submit(new_job(limit=1))
        assert (await store.load("job", batch(0, 1, "ab"))).added == 2
        assert list(await listing(store)) == [1, 2]

    async def test_only_a_loading_job_is_abandoned(self, store: Store) -> None:
        await ready(store)
        with pytest.raises(Conflict):
            await store.abandon("job")
        assert (await store.status("job")).counts.total == 3

    async def test_abandoning_a_cancelled_load_voids_the_right_to_end_it(self, store: Store, clock: FakeClock) -> None:
        await store.submit(new_job())
        await store.cancel("job")
        ending = await store.claim_ending("worker")
        assert ending is not None
        await store.abandon("job")
        await ready(store, items=1)
        clock.advance(ending.lease_seconds)
        assert await store.rescue("other") == []
        assert (await claimed(store)).fence > ending.fence

    async def test_an_unknown_job_is_named_with_near_matches(self, store: Store) -> None:
        await ready(store, "maricopa-2024")
        with pytest.raises(UnknownName, match="maricopa-2024"):
            await store.status("maricopa-2025")

    async def test_counts_follow_what_has_ended(self, store: Store) -> None:
        await ready(store, items=12)
        lease = await claimed(store)
        skipped = EndedItem(seq=4, state=ItemState.SKIPPED, reason="robots")
        ends = [success(1), success(2, SuccessOutcome.NOT_FOUND), failed(3, FailureKind.BLOCKED), skipped, failed(5)]
        await finished(store, lease, ends)
        status = await store.status("job")
        assert status.counts == Counts(pending=7, success=2, not_found=1, failed=2, skipped=1, total=12)
        assert status.failures == {"blocked": 1, "timeout": 1}

    async def test_running_items_are_counted_as_their_lease_last_reported(self, store: Store) -> None:
        await ready(store, items=10)
        lease = await claimed(store)
        assert (await store.status("job")).counts == Counts(pending=10, total=10)
        await finished(store, lease, [success(1)], report=SlotReport(ceiling=3, demand=5, queued=(2,), begun=(3, 4)))
        assert (await store.status("job")).counts == Counts(pending=6, queued=1, in_progress=2, success=1, total=10)
        states = [record.state.value for record in (await listing(store)).values()]
        assert states == ["success", "queued", "in_progress", "in_progress", *["pending"] * 6]

    async def test_queue_figures_equal_the_true_state(self, store: Store, kill: Kill) -> None:
        """Property 37, step by step; the state machine says it of any sequence."""
        await ready(store, items=30, limit=4)
        assert await figures(store) == {"pending": 30}
        first, second = await claimed(store), await claimed(store, "other")
        mine, theirs = [item.seq for item in first.items], [item.seq for item in second.items]
        await finished(store, first, report=SlotReport(ceiling=2, demand=2, queued=(mine[0],), begun=(mine[1],)))
        await finished(store, second, [failed(theirs[0])], report=SlotReport(ceiling=2, demand=2, begun=(theirs[1],)))
        assert await figures(store) == {"pending": 26, "queued": 1, "in_progress": 2, "failed": 1}
        await store.pause("job")
        await finished(store, first, [success(mine[1])], [HandedBackItem(seq=mine[0], delay_seconds=9)])
        assert await figures(store) == {"pending": 27, "in_progress": 1, "success": 1, "failed": 1}
        await dies(store, kill, "other")
        assert await figures(store) == {"pending": 28, "success": 1, "failed": 1}
        await store.release(first.worker_id, first.fence)
        await store.cancel("job")
        await end_job(store)
        assert await figures(store) == {"success": 1, "failed": 1, "cancelled": 28}
        await store.retry("job", RetrySelection(failed=True))
        assert await figures(store) == {"pending": 1, "success": 1, "cancelled": 28}

    async def test_a_status_is_one_consistent_reading(self, store: Store) -> None:
        await ready(store, items=16)
        lease = await claimed(store)

        async def work() -> None:
            for seq in range(1, 9):
                begun = (seq + 1,) if seq < 8 else ()
                await finished(store, lease, [success(seq)], report=SlotReport(ceiling=8, demand=8 - seq, begun=begun))

        async def look() -> list[JobStatus]:
            return [await store.status("job") for _ in range(20)]

        for status in (await asyncio.gather(look(), work()))[0]:
            counts = status.counts
            assert counts.pending + counts.queued + counts.in_progress + counts.success == counts.total == 16

    async def test_times_of_a_job_are_those_of_people(self, store: Store, clock: FakeClock) -> None:
        await ready(store)
        clock.advance(10)
        started = clock.now()
        await run_all(store)
        clock.advance(10)
        status = await end_job(store)
        assert (status.started_at, status.ended_at) == (started, clock.now())

    async def test_jobs_come_newest_first_and_page_by_page(self, store: Store) -> None:
        for job_id in "abcde":
            await store.submit(new_job(job_id))
        assert [status.job.job_id for status in await store.jobs()] == ["e", "d", "c", "b", "a"]
        assert [status.job.job_id for status in await store.jobs(limit=2)] == ["e", "d"]
        assert [status.job.job_id for status in await store.jobs(after="d", limit=2)] == ["c", "b"]
        assert await store.jobs(after="a") == []

    async def test_items_come_by_row_and_page_by_page(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, {1: "z", 3: "y", 7: "x"}, rows=7))
        await store.load("job", batch(1, 8, {9: "w"}, rows=2))
        assert [record.seq for record in await store.items("job")] == [1, 3, 7, 9]
        assert [record.seq for record in await store.items("job", limit=2)] == [1, 3]
        assert [record.seq for record in await store.items("job", after=3, limit=2)] == [7, 9]
        with pytest.raises(UnknownName):
            await store.items("other")

    async def test_one_item_is_found_by_its_id(self, store: Store) -> None:
        await ready(store)
        assert (await store.item("job", "2")).seq == 2
        with pytest.raises(UnknownName, match="'4'"):
            await store.item("job", "4")
        with pytest.raises(UnknownName, match="'other'"):
            await store.item("other", "2")

    async def test_an_ended_item_shows_all_that_was_said_of_it(self, store: Store) -> None:
        await ready(store, items=1)
        lease = await claimed(store)
        end = EndedItem(
            seq=1,
            state=ItemState.FAILED,
            failure=failed(1).failure,
            reason="why",
            attempts=(
                Attempt(1.0, 2.5, "worker", failed(1).failure, bytes=10, requests=2),
                Attempt(3.0, 4.0, "worker"),
            ),
            artifacts=(Artifact("items/1/data.json", 3, "abc"),),
            tries=TryCounts(2, 1, 0),
            scraper_version="7",
        )
        await finished(store, lease, [end])
        record = await store.item("job", "1")
        for name in ("state", "finding", "failure", "reason", "attempts", "artifacts", "tries", "scraper_version"):
            assert getattr(record, name) == getattr(end, name)
        assert (record.input, record.fence, record.not_before) == ({"parcel": "1"}, lease.fence, None)

    async def test_a_waiting_item_says_until_when(self, store: Store, clock: FakeClock) -> None:
        await ready(store, items=1)
        await finished(store, await claimed(store), handed_back=[HandedBackItem(seq=1, delay_seconds=30)])
        record = await store.item("job", "1")
        assert record.state is ItemState.PENDING
        assert record.not_before == pytest.approx(clock.now() + 30)
        clock.advance(30)
        await claimed(store)
        assert (await store.item("job", "1")).not_before is None

    async def test_what_a_worker_waits_for_is_told_while_a_job_has_not_ended(self, store: Store, kill: Kill) -> None:
        await ready(store, "over")
        await run_all(store)
        await end_job(store)
        await ready(store, items=40)
        await claimed(store)
        await claimed(store, "other")
        assert (await store.status("job")).waiting_for is None
        for what in (WaitingFor.DISK, WaitingFor.STORE):
            store.tell_waiting("worker", what)
            assert (await store.status("job")).waiting_for is what
            assert (await store.status("over")).waiting_for is None
            assert [status.waiting_for for status in await store.jobs()] == [what, None]
            assert await store.held_by() is None
        store.tell_waiting("worker", None)
        assert (await store.status("job")).waiting_for is None
        store.tell_waiting("other", WaitingFor.DISK)
        kill("other")
        assert (await store.status("job")).waiting_for is None, "the dead wait for nothing"

    async def test_a_closed_store_refuses_calls(self, store: Store) -> None:
        await store.close()
        with pytest.raises(Exception, match=r"."):  # which error is the back end's own affair
            await store.submit(new_job())

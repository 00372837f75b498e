"""What JobStore promises of jobs stored in one call: all their items or nothing. Part of JobStoreContract."""

from __future__ import annotations

import asyncio

import pytest

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.job import Counts
from swath.domain.transitions import JobState
from tests.contract.suites.builders import Store, batch, claimed, end_job, listing, new_job, ready, run_all

__all__ = ["StoredWholeContract"]


class StoredWholeContract:
    """See JobStoreContract."""

    @pytest.mark.req("I3", "J1")
    async def test_an_order_is_a_job_that_may_run(self, store: Store) -> None:
        job = new_job(on_demand=True, request_id="r-1", priority=9)
        status = await store.order(job, batch(0, 1, "abc"))
        assert (status.state, status.counts) == (JobState.PENDING, Counts(pending=3, total=3))
        assert (status.loaded_rows, status.loaded_batches, status.job) == (3, 1, job)
        assert await store.status("job") == status
        assert [record.item_id for record in (await listing(store)).values()] == ["a", "b", "c"]
        assert (await claimed(store)).items[0].item_id == "a"

    @pytest.mark.req("J6")
    async def test_the_same_order_with_the_same_batch_is_answered_as_it_stands(self, store: Store) -> None:
        await store.order(new_job(request_id="first"), batch(0, 1, "abc"))
        lease = await claimed(store)
        again = await store.order(new_job(request_id="second", created_at=9.0), batch(0, 1, "abc"))
        assert (again.state, again.counts.total, again.job.request_id) == (JobState.RUNNING, 3, "first")
        await store.release("worker", lease.fence)
        await run_all(store)
        await end_job(store)
        assert (await store.order(new_job(), batch(0, 1, "abc"))).state is JobState.COMPLETED

    @pytest.mark.req("J6")
    async def test_an_order_sent_several_times_at_once_is_one_job(self, store: Store) -> None:
        answers = await asyncio.gather(*(store.order(new_job(), batch(0, 1, "abc")) for _ in range(5)))
        assert {answer.counts.total for answer in answers} == {3}
        assert len(await store.jobs()) == 1

    @pytest.mark.req("J6")
    async def test_another_order_or_other_rows_under_the_id_are_a_conflict(self, store: Store) -> None:
        before = await store.order(new_job(), batch(0, 1, "abc"))
        with pytest.raises(Conflict, match="'job'"):
            await store.order(new_job(limit=3), batch(0, 1, "abc"))
        with pytest.raises(Conflict, match=r"\brow 2 differs"):
            await store.order(new_job(), batch(0, 1, "aXc"))
        assert await store.status("job") == before
        assert [record.item_id for record in (await listing(store)).values()] == ["a", "b", "c"]

    @pytest.mark.req("J6")
    async def test_a_job_that_was_loaded_in_pieces_is_another(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "abc"))
        await store.load("job", batch(1, 4, "d"))
        with pytest.raises(Conflict):
            await store.order(new_job(), batch(0, 1, "abc"))
        assert (await store.status("job")).state is JobState.LOADING

    @pytest.mark.req("J6")
    async def test_a_load_that_was_given_up_half_way_is_finished_by_the_order(self, store: Store) -> None:
        await store.submit(new_job())
        assert (await store.order(new_job(), batch(0, 1, "ab"))).state is JobState.PENDING
        await store.submit(new_job("other"))
        await store.load("other", batch(0, 1, "ab"))
        assert (await store.order(new_job("other"), batch(0, 1, "ab"))).counts.total == 2

    @pytest.mark.req("J6")
    async def test_an_id_that_comes_twice_is_named_and_there_is_no_job(self, store: Store) -> None:
        with pytest.raises(Conflict, match="'b'") as raised:
            await store.order(new_job(), batch(0, 1, "abcb"))
        assert raised.value.row == 4
        with pytest.raises(UnknownName):
            await store.status("job")
        assert (await store.order(new_job(limit=2), batch(0, 1, "abc"))).counts.total == 3

    async def test_an_order_without_items_makes_no_job(self, store: Store) -> None:
        with pytest.raises(BadInput, match="no items"):
            await store.order(new_job(), batch(0, 1, {}, rows=2))
        assert await store.jobs() == []

    @pytest.mark.req("J6")
    async def test_nothing_is_ordered_under_the_id_of_a_job_that_is_being_deleted(self, store: Store) -> None:
        await ready(store)
        await run_all(store)
        await end_job(store)
        await store.delete("job")
        with pytest.raises(Conflict, match="deleted"):
            await store.order(new_job(), batch(0, 1, "123"))

    @pytest.mark.req("I3")
    async def test_nobody_ever_sees_a_part_of_an_order(self, store: Store) -> None:
        async def look(over: asyncio.Event) -> int:
            looks = 0
            while not over.is_set() or not looks:
                for status in await store.jobs():
                    assert (status.state, status.counts.total) == (JobState.PENDING, 40)
                looks += 1
                await asyncio.sleep(0)
            return looks

        over = asyncio.Event()
        looking = asyncio.create_task(look(over))
        for number in range(8):
            await store.order(new_job(f"job-{number}"), batch(0, 1, [str(n) for n in range(40)]))
        over.set()
        assert await looking

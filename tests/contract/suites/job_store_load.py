"""What JobStore promises of loading: whole batches, in order, repeatable, closed once. Part of JobStoreContract."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.item import Item
from swath.domain.transitions import JobState
from swath.ports.job_store import BatchResult, DuplicateItem, ItemBatch, LoadStart
from tests.contract.suites.builders import Store, batch, claimed, end_job, listing, new_job, ready

__all__ = ["LoadContract"]


class LoadContract:
    """See JobStoreContract."""

    async def test_a_batch_adds_its_items(self, store: Store) -> None:
        await store.submit(new_job())
        assert await store.load("job", batch(0, 1, "abc")) == BatchResult(3)
        assert await store.load("job", batch(1, 4, "de")) == BatchResult(2)
        status = await store.status("job")
        assert (status.counts.pending, status.counts.total, status.loaded_rows) == (5, 5, 5)
        assert status.loaded_batches == 2
        assert [record.item_id for record in (await listing(store)).values()] == list("abcde")

    async def test_rows_that_were_refused_leave_gaps(self, store: Store) -> None:
        await store.submit(new_job())
        assert await store.load("job", batch(0, 1, {2: "a", 4: "b"}, rows=5)) == BatchResult(2)
        assert await store.load("job", batch(1, 6, {}, rows=3)) == BatchResult(0)
        status = await store.status("job")
        assert (status.counts.total, status.loaded_rows) == (2, 8)

    async def test_any_json_input_comes_back_as_it_was(self, store: Store) -> None:
        content = {"": None, "n": -1.5, "big": 2**60, "deep": [{"ü\U0001f600": [True, {}]}, "\x00\n"], "s": "'; --"}
        await store.submit(new_job())
        await store.load("job", ItemBatch(0, 1, 1, "digest", (Item(1, "' /..\n\U0001f600", content),)))
        record = await store.item("job", "' /..\n\U0001f600")
        assert record.input == content

    async def test_duplicates_are_left_out_and_reported_with_the_first_row(self, store: Store) -> None:
        await store.submit(new_job())
        first = await store.load("job", batch(0, 1, {1: "a", 2: "b", 3: "a"}))
        assert first == BatchResult(2, (DuplicateItem(3, "a", 1),))
        second = await store.load("job", batch(1, 4, {4: "b", 5: "c", 6: "c", 7: "a"}))
        assert second == BatchResult(1, (DuplicateItem(4, "b", 2), DuplicateItem(6, "c", 5), DuplicateItem(7, "a", 1)))
        assert list(await listing(store)) == [1, 2, 5]
        assert (await store.status("job")).counts.total == 3

    async def test_a_repeated_batch_changes_nothing_and_answers_as_it_did(self, store: Store) -> None:
        await store.submit(new_job())
        batches = [batch(0, 1, "aab"), batch(1, 4, "bcd")]
        answers = [await store.load("job", each) for each in batches]
        before = await store.status("job")
        assert [await store.load("job", each) for each in batches] == answers
        assert await store.status("job") == before
        await store.seal("job", 2)
        await claimed(store)
        assert [await store.load("job", each) for each in batches] == answers

    async def test_a_batch_sent_twice_at_once_is_added_once(self, store: Store) -> None:
        await store.submit(new_job())
        answers = await asyncio.gather(*(store.load("job", batch(0, 1, "abca")) for _ in range(5)))
        assert set(answers) == {BatchResult(3, (DuplicateItem(4, "a", 1),))}
        assert (await store.status("job")).counts.total == 3

    @pytest.mark.parametrize(
        ("rows", "differs"),
        [
            ({1: "a", 2: "X", 3: "c"}, 2),
            ({1: "a", 3: "c"}, 2),
            ({1: "a", 2: "b", 3: "c", 4: "d"}, 4),
            ({1: "a", 2: "b"}, 3),
        ],
        ids=["other id", "now refused", "one more", "one less"],
    )
    async def test_other_content_under_a_number_names_the_first_row_that_differs(
        self, store: Store, rows: dict[int, str], differs: int
    ) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "abc"))
        before = await listing(store)
        with pytest.raises(Conflict, match=rf"\brow {differs} differs"):
            await store.load("job", batch(0, 1, rows, rows=max(rows)))
        assert await listing(store) == before

    async def test_another_input_under_the_same_id_differs_too(self, store: Store) -> None:
        await store.submit(new_job())
        loaded = batch(0, 1, "abc")
        await store.load("job", loaded)
        items = [*loaded.items[:2], msgspec.structs.replace(loaded.items[2], input={"parcel": "X"})]
        with pytest.raises(Conflict, match=r"\brow 3 differs"):
            await store.load("job", ItemBatch(0, 1, 3, "other", tuple(items)))

    async def test_a_duplicate_that_was_left_out_is_no_difference(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "aab"))
        with pytest.raises(Conflict, match=r"\brow 3 differs"):
            await store.load("job", batch(0, 1, "aaX"))

    async def test_numbers_must_come_in_order(self, store: Store) -> None:
        await store.submit(new_job())
        with pytest.raises(ValueError, match="batch 1"):
            await store.load("job", batch(1, 1, "abc"))
        assert await listing(store) == {}
        assert await store.load("job", batch(0, 1, "abc")) == BatchResult(3)

    async def test_a_job_that_is_not_there_cannot_be_loaded(self, store: Store) -> None:
        with pytest.raises(UnknownName):
            await store.load("job", batch(0, 1, "a"))
        with pytest.raises(UnknownName):
            await store.seal("job", 0)

    async def test_nothing_is_added_after_the_load_was_closed(self, store: Store) -> None:
        await ready(store)
        with pytest.raises(Conflict):
            await store.load("job", batch(1, 4, "abc"))
        assert (await store.status("job")).counts.total == 3

    async def test_nothing_is_added_to_a_load_that_was_cancelled(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "ab"))
        await store.cancel("job")
        with pytest.raises(Conflict):
            await store.load("job", batch(1, 3, "c"))
        assert (await end_job(store)).counts.cancelled == 2
        with pytest.raises(Conflict):
            await store.load("job", batch(1, 3, "c"))

    async def test_nothing_is_leased_before_the_load_is_closed(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "abc"))
        assert await store.claim("worker") is None
        assert await store.claim_ending("worker") is None
        assert (await store.seal("job", 1)).state is JobState.PENDING
        assert (await claimed(store)).items[0].seq == 1

    async def test_a_job_sealed_before_is_returned_as_it_stands(self, store: Store) -> None:
        await ready(store)
        assert (await store.seal("job", 1)).state is JobState.PENDING
        await claimed(store)
        assert (await store.seal("job", 1)).state is JobState.RUNNING

    async def test_a_job_without_items_cannot_be_sealed(self, store: Store) -> None:
        await store.submit(new_job())
        with pytest.raises(BadInput, match="no items"):
            await store.seal("job", 0)
        await store.load("job", batch(0, 1, {}, rows=4))
        with pytest.raises(BadInput, match="no items"):
            await store.seal("job", 1)
        assert (await store.status("job")).state is JobState.LOADING

    async def test_another_number_of_batches_is_a_conflict(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "abc"))
        for batches in (0, 2):
            with pytest.raises(Conflict):
                await store.seal("job", batches)
        assert (await store.status("job")).state is JobState.LOADING
        await store.seal("job", 1)
        with pytest.raises(Conflict):
            await store.seal("job", 2)

    @pytest.mark.parametrize(("batches", "given"), [(0, "ends after 0"), (1, "ends after 3"), (2, "ends after 7")])
    async def test_fewer_batches_are_told_in_rows(self, store: Store, batches: int, given: str) -> None:
        await store.submit(new_job())
        for one in (batch(0, 1, "aab"), batch(1, 4, {5: "c"}, rows=4), batch(2, 8, "de")):
            await store.load("job", one)
        with pytest.raises(Conflict, match=rf"'job' .* it has 9 rows, and this file {given} rows$") as raised:
            await store.seal("job", batches)
        assert raised.value.row == {0: 1, 1: 4, 2: 8}[batches]

    async def test_more_batches_than_were_loaded_are_told_too(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "abc"))
        with pytest.raises(Conflict, match="it has 3 rows, and this file has more") as raised:
            await store.seal("job", 2)
        assert raised.value.row == 4

    @pytest.mark.req("I2")
    async def test_a_load_begins_behind_all_that_is_loaded_and_there_ever_after(self, store: Store) -> None:
        await store.submit(new_job())
        assert await store.begin_load("job", "first") == LoadStart(0, 0)
        await store.load("job", batch(0, 1, "aab"))
        await store.load("job", batch(1, 4, {5: "c"}, rows=3))
        assert await store.begin_load("job", "second") == LoadStart(2, 6)
        assert await store.begin_load("job", "first") == LoadStart(0, 0)
        await store.load("job", batch(2, 7, "d"))
        assert await store.begin_load("job", "second") == LoadStart(2, 6)

    @pytest.mark.req("I2")
    async def test_a_load_that_comes_again_finds_its_own_rows(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "ab"))
        start = await store.begin_load("job", "key")
        mine = batch(start.number, start.rows + 1, "cdc")
        answer = await store.load("job", mine)
        again = await store.begin_load("job", "key")
        assert await store.load("job", batch(again.number, again.rows + 1, "cdc")) == answer
        await store.seal("job", 2)
        assert await store.begin_load("job", "key") == start
        await claimed(store)
        assert await store.begin_load("job", "key") == start

    @pytest.mark.req("I2")
    async def test_one_key_asked_for_at_once_begins_in_one_place(self, store: Store) -> None:
        await store.submit(new_job())
        starts = await asyncio.gather(*(store.begin_load("job", "key") for _ in range(5)))
        assert set(starts) == {LoadStart(0, 0)}

    @pytest.mark.req("I2")
    async def test_no_new_load_begins_in_a_job_that_takes_no_more(self, store: Store) -> None:
        with pytest.raises(UnknownName):
            await store.begin_load("job", "key")
        await ready(store)
        await store.submit(new_job("stopped"))
        await store.cancel("stopped")
        await store.submit(new_job("deleted"))
        await store.delete("deleted")
        for job_id in ("job", "stopped", "deleted"):
            with pytest.raises(Conflict):
                await store.begin_load(job_id, "key")

    @pytest.mark.req("I2")
    async def test_keys_of_a_job_that_is_gone_mean_nothing_to_the_next(self, store: Store) -> None:
        await store.submit(new_job())
        await store.load("job", batch(0, 1, "ab"))
        await store.begin_load("job", "key")
        await store.abandon("job")
        await store.submit(new_job())
        assert await store.begin_load("job", "key") == LoadStart(0, 0)

"""A source becomes the items of a job, once, or nothing is begun and the reason is said."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.item import Item
from swath.domain.job import Job
from swath.domain.transitions import JobState
from swath.observability import crash_points
from swath.pipeline.ingest import validate
from swath.pipeline.ingest.load import (
    KEPT_PROBLEMS,
    LoadOptions,
    LoadReport,
    OnBadRows,
    OnDuplicates,
    RowsRefused,
    load,
)
from swath.pipeline.ingest.sources.file_and_stream import FileSource
from swath.pipeline.ingest.sources.rows import RowsInMemory
from swath.pipeline.ingest.validate import RowChecker
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.ingest.reading import Dribble, Parcel, given

pytestmark = pytest.mark.req("J2", "J6")

JOB = Job(job_id="county", scraper_id="demo-county")
CHECKER = RowChecker(Parcel)
STRICT = LoadOptions()
LENIENT = LoadOptions(on_bad_rows=OnBadRows.SKIP, on_duplicates=OnDuplicates.KEEP_FIRST)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(FakeClock())


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "BATCH_ROWS", 3)


def table(*parcels: object) -> str:
    return "\n".join(["parcel_id,owner", *(f"{parcel},x" for parcel in parcels)]) + "\n"


async def stored(store: MemoryStore) -> list[tuple[int, str]]:
    return [(record.seq, record.item_id) for record in await store.items("county", limit=100_000)]


async def refused(store: MemoryStore, text: str, options: LoadOptions = STRICT) -> RowsRefused:
    with pytest.raises(RowsRefused) as raised:
        await load(store, JOB, given(text), CHECKER, options)
    assert "\n" not in str(raised.value)
    return raised.value


async def test_a_loaded_job_is_sealed_and_complete(store: MemoryStore, small_batches: None) -> None:
    heard: list[int] = []
    report = await load(store, JOB, given(table(*range(1, 9))), CHECKER, progress=heard.append)
    assert (report.rows, report.items, report.bad_rows, report.duplicates) == (8, 8, 0, 0)
    assert report.status is not None
    assert report.status.state is JobState.PENDING
    assert report.lines() == []
    assert heard == [3, 6, 8]
    assert await stored(store) == [(number, str(number)) for number in range(1, 9)]


async def test_one_bad_row_refuses_all_and_leaves_nothing(store: MemoryStore, small_batches: None) -> None:
    error = await refused(store, "parcel_id,owner\n1,x\n2\n3,y\n4,z\n5\n")
    message = str(error)
    assert message.startswith("stdin: 2 of 5 rows cannot be used, first line 3: has 1 cell where the header has 2; ")
    assert "--bad-rows skip" in message
    assert error.report.lines() == [
        "line 3: has 1 cell where the header has 2",
        "line 6: has 1 cell where the header has 2",
    ]
    with pytest.raises(UnknownName):
        await store.status("county")
    await load(store, JOB, given(table(1, 2)), CHECKER)  # the id is free for the corrected file


async def test_bad_rows_can_be_left_out(store: MemoryStore, small_batches: None) -> None:
    report = await load(store, JOB, given("parcel_id,owner\n1,x\n2\n3,y\n4,z\n"), CHECKER, LENIENT)
    assert (report.rows, report.items, report.bad_rows) == (4, 3, 1)
    assert await stored(store) == [(1, "1"), (3, "3"), (4, "4")]


async def test_duplicates_refuse_all_with_both_lines(store: MemoryStore, small_batches: None) -> None:
    error = await refused(store, table(1, 2, 3, 1, 4, 1, 3))
    message = str(error)
    assert "3 of 7 rows repeat an item id, first line 5: the item id '1' is on line 2 already" in message
    assert "--duplicates keep-first" in message
    assert error.report.lines()[1:] == [
        "line 7: the item id '1' is on line 2 already",
        "line 8: the item id '3' is on line 4 already",
    ]
    with pytest.raises(UnknownName):
        await store.status("county")


async def test_the_first_of_duplicates_can_be_kept(store: MemoryStore, small_batches: None) -> None:
    report = await load(store, JOB, given(table(1, 2, 3, 1, 4, 1, 3)), CHECKER, LENIENT)
    assert (report.rows, report.items, report.duplicates) == (7, 4, 3)
    assert await stored(store) == [(1, "1"), (2, "2"), (3, "3"), (5, "4")]


async def test_lines_of_duplicates_are_right_in_uneven_files(store: MemoryStore, small_batches: None) -> None:
    text = 'parcel_id,owner\n1,"a\nb"\n\n2,x\n3,"c\n\nd"\n4,x\n3,x\n'
    error = await refused(store, text)
    assert error.report.lines() == ["line 10: the item id '3' is on line 6 already"]


async def test_bad_rows_and_duplicates_are_told_together(store: MemoryStore) -> None:
    message = str(await refused(store, "parcel_id,owner\n1,x\n2\n1,x\n"))
    assert "1 of 3 rows cannot be used" in message
    assert "1 of 3 rows repeat an item id" in message


async def test_all_troubles_are_counted_and_the_first_are_told(store: MemoryStore) -> None:
    error = await refused(store, "parcel_id,owner\n" + "1\n" * 5_000 + "1,x\n" * 101)
    assert (error.report.bad_rows, error.report.duplicates) == (5_000, 100)
    assert len(error.report.first_bad_rows) == len(error.report.first_duplicates) == KEPT_PROBLEMS
    assert error.report.lines()[KEPT_PROBLEMS] == "… and 4,980 more rows that cannot be used"
    assert error.report.lines()[-1] == "… and 80 more duplicates"


async def test_a_load_without_a_usable_row_is_refused_even_when_lenient(store: MemoryStore) -> None:
    message = str(await refused(store, "parcel_id,owner\n1\n2\n", LENIENT))
    assert "none of 2 rows can be used, first line 2: " in message
    with pytest.raises(UnknownName):
        await store.status("county")


@pytest.mark.req("Z5")
@pytest.mark.parametrize("text", ["", "parcel\n1\n", "parcel_id\n"])
async def test_a_file_that_is_wrong_as_a_whole_makes_no_job(store: MemoryStore, text: str) -> None:
    with pytest.raises(BadInput):
        await load(store, JOB, given(text), CHECKER)
    assert await store.jobs() == []


@pytest.mark.req("Z5")
async def test_a_file_that_goes_wrong_late_leaves_no_job(store: MemoryStore, small_batches: None) -> None:
    with pytest.raises(BadInput, match="line 11: byte 0xE9"):
        await load(store, JOB, given(table(*range(9)).encode() + b"\xe9,x\n"), CHECKER)
    assert await store.jobs() == []


async def test_the_same_job_again_is_answered_as_it_stands(store: MemoryStore, small_batches: None) -> None:
    text = table(*range(10))
    first = await load(store, JOB, given(text), CHECKER)
    await store.claim("worker")
    again = await load(store, JOB, given(text), CHECKER)
    assert again.status is not None
    assert again.status.state is JobState.RUNNING
    assert (again.rows, again.items) == (first.rows, first.items)
    assert len(await stored(store)) == 10


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (table(0, 1, 2, 3, "x", 5, 6, 7), "row 5 "),
        (table(0, 1, 2, 3, 4, 5, 6), "row 8 "),
        (table(0, 1, 2, 3, 4, 5), "ends after 6 rows"),
        (table(0, 1, 2, 3, 4, 5, 6, 7, 8), "row 9 "),
        (table(0, 1, 2, 3, 4, 5, 6, 7).replace("4,x", "4,y"), "row 5 "),
        (table(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), "row 9 |nothing can be added"),
    ],
)
async def test_other_content_under_the_same_id_is_a_conflict(
    store: MemoryStore, small_batches: None, changed: str, said: str
) -> None:
    await load(store, JOB, given(table(*range(8))), CHECKER)
    with pytest.raises(Conflict, match=said):
        await load(store, JOB, given(changed), CHECKER)
    assert len(await stored(store)) == 8


async def test_bad_rows_never_remove_a_job_that_runs(store: MemoryStore, small_batches: None) -> None:
    text = "parcel_id,owner\n1,x\n2\n3,y\n"
    await load(store, JOB, given(text), CHECKER, LENIENT)
    await refused(store, text)  # the same file, but this time without --bad-rows skip
    assert await stored(store) == [(1, "1"), (3, "3")]


async def test_another_order_under_the_same_id_is_a_conflict(store: MemoryStore) -> None:
    await load(store, JOB, given(table(1)), CHECKER)
    with pytest.raises(Conflict):
        await load(store, Job(job_id="county", scraper_id="other"), given(table(1)), CHECKER)


async def test_the_order_of_columns_is_not_content(store: MemoryStore) -> None:
    await load(store, JOB, given("parcel_id,owner\n1,Ann\n"), CHECKER)
    report = await load(store, JOB, given("owner,parcel_id\nAnn,1\n"), CHECKER)
    assert report.items == 1


async def test_rows_from_memory_load_like_a_file(store: MemoryStore) -> None:
    rows: list[dict[str, Any]] = [{"item_id": "item-1", "input": {"parcel_id": "1"}}, {"parcel_id": "2"}]
    await load(store, JOB, RowsInMemory("the request", rows), CHECKER)
    assert await stored(store) == [(1, "item-1"), (2, "2")]
    with pytest.raises(BadInput, match="nothing: has no rows"):
        await load(store, JOB, RowsInMemory("nothing", []), CHECKER)


async def test_a_slow_source_does_not_stall_the_event_loop(store: MemoryStore) -> None:
    may_go_on = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield b"parcel_id\n1\n2\n"
        assert may_go_on.wait(5)  # only the event loop can set it
        yield b"3\n"

    loading = asyncio.create_task(load(store, JOB, FileSource("-", stdin=Dribble(pieces())), CHECKER))
    await asyncio.sleep(0.01)
    may_go_on.set()
    report = await loading
    assert report.items == 3


async def test_a_cancelled_load_can_be_begun_again(store: MemoryStore, small_batches: None) -> None:
    never = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield table(*range(7)).encode()
        never.wait(5)

    heard = asyncio.Event()
    source = FileSource("-", stdin=Dribble(pieces()))
    loading = asyncio.create_task(load(store, JOB, source, CHECKER, progress=lambda _: heard.set()))
    await asyncio.wait_for(heard.wait(), 60)
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    never.set()
    assert (await store.status("county")).state is JobState.LOADING
    report = await load(store, JOB, given(table(*range(7))), CHECKER)
    assert report.items == 7


class _Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


@pytest.mark.req("Z1")
@pytest.mark.parametrize("point", ["after_submit", "after_load_batch", "before_seal"])
async def test_a_load_killed_at_any_point_neither_loses_nor_doubles(
    store: MemoryStore, small_batches: None, point: str
) -> None:
    text = table(*range(20), 4, 5)
    deaths = visits = 0
    report: LoadReport | None = None

    def kill(reached: str) -> None:
        # Each life gets one visit further than the one before.
        nonlocal visits
        visits += reached == point
        if reached == point and visits > deaths:
            raise _Killed

    while report is None:
        visits = 0
        crash_points.install(kill if deaths < 10 else None)
        try:
            report = await load(store, JOB, given(text), CHECKER, LENIENT)
        except _Killed:
            deaths += 1
        finally:
            crash_points.install(None)
    assert deaths >= 1
    assert (report.rows, report.items, report.duplicates) == (22, 20, 2)
    assert await stored(store) == [(number + 1, str(number)) for number in range(20)]


def test_batches_are_bounded_in_bytes() -> None:
    source = FileSource(
        "-", stdin=io.BytesIO(b"parcel_id,a\n" + b"".join(b"%d,%s\n" % (n, b"x" * 900_000) for n in range(12)))
    )
    sizes = [len(checked.batch.items) for checked in validate.checked_batches(source, CHECKER)]
    assert sizes == [5, 5, 2]


def test_the_digest_covers_ids_inputs_and_rows() -> None:
    def digest(*rows: dict[str, object]) -> str:
        (checked,) = validate.checked_batches(RowsInMemory("rows", rows), CHECKER)
        return checked.batch.digest

    base = digest({"parcel_id": "1"}, {"parcel_id": "2"})
    assert base == digest({"parcel_id": "1"}, {"parcel_id": "2"})
    variants = [
        digest({"parcel_id": "1"}, {"item_id": "x", "input": {"parcel_id": "2"}}),
        digest({"parcel_id": "1"}, {"parcel_id": "2", "more": 1}),
        digest({"parcel_id": "2"}, {"parcel_id": "1"}),
        digest({"parcel_id": "1"}, {"wrong": 1}, {"parcel_id": "2"}),
        digest({"parcel_id": "1"}, {"parcel_id": "2"}, {"wrong": 1}),
    ]
    assert len({base, *variants}) == 6


def test_a_row_that_cannot_be_encoded_leaves_no_trace_in_the_digest() -> None:
    def digest(bad: dict[str, str]) -> str:
        (checked,) = validate.checked_batches(
            RowsInMemory("rows", [{"parcel_id": "1"}, bad, {"parcel_id": "3"}]), CHECKER
        )
        assert [item.seq for item in checked.batch.items] == [1, 3]
        return checked.batch.digest

    assert digest({"parcel_id": "2", "owner": "x" * 5_000, "town": "\ud800"}) == digest({"wrong": "2"})


def test_the_digest_of_a_batch_covers_those_before(small_batches: None) -> None:
    def digests(text: str) -> list[str]:
        return [checked.batch.digest for checked in validate.checked_batches(given(text), CHECKER)]

    one, other = digests(table(*range(9))), digests(table(*range(4), "x", *range(5, 9)))
    assert one[0] == other[0]
    assert one[1] != other[1]
    assert one[2] != other[2]


def test_an_item_carries_the_number_of_its_row() -> None:
    (checked,) = validate.checked_batches(given("parcel_id\n1\n2\n"), CHECKER)
    assert checked.batch.items == (Item(1, "1", {"parcel_id": "1"}), Item(2, "2", {"parcel_id": "2"}))
    assert checked.lines == (2, 3)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (6, r"it has 8 rows, and this file ends after 6 rows \(line 7\); give another job id$"),
        (7, r"row 8 differs.* \(the file ends on line 8\); give another job id$"),
    ],
    ids=["between two batches", "within a batch"],
)
async def test_a_shorter_file_is_told_with_the_line_where_it_ends(
    store: MemoryStore, small_batches: None, rows: int, told: str
) -> None:
    await load(store, JOB, given(table(*range(1, 9))), CHECKER)
    with pytest.raises(Conflict, match=told):
        await load(store, JOB, given(table(*range(1, rows + 1))), CHECKER)

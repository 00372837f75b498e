"""R7: two jobs compared by a key: exactly what is new, changed or vanished, and what nobody can tell."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.execution_policy import Keep
from swath.domain.item import Item
from swath.domain.storage_keys import Layout
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.results.compare import table as compare_table_module
from swath.pipeline.results.compare.comparison import JobComparison
from swath.pipeline.results.compare.report import (
    Change,
    CompareRequest,
    CompareSummary,
    Difference,
    FieldChanges,
    UnknownReason,
    csv_pieces,
    json_pieces,
)
from swath.pipeline.results.compare.table import AskedItem, compare_table
from swath.ports.job_store import ItemBatch
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store, new_job, policy
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.making import FAILED, MISSING, SKIPPED, Made, end_lease, load, make_job

pytestmark = pytest.mark.req("R7")

PARCEL = CompareRequest(key=("parcel",))
Told = tuple[CompareSummary, list[Difference]]


def found(data: Any) -> Made:
    return Made(data=data)


async def make(
    store: Store, storage: ResultStorage, job_id: str, items: Mapping[str, Made], layout: Layout, **more: Any
) -> None:
    await make_job(store, storage, FakeClock(), items, job_id, layout, **more)


async def compared(store: Store, storage: ResultStorage, question: CompareRequest = PARCEL) -> Told:
    with compare_table() as table:
        comparison = JobComparison(store, storage, table, question)
        await comparison.load((await store.status("a"), await store.status("b")), lambda items: None)
        assert list(comparison.differences()) == list(comparison.differences())
        return comparison.summary(), list(comparison.differences())


BEFORE = {
    "1": found({"parcel": "100", "owner": "ANN", "tax": {"due": 5, "year": 2023}, "tags": ["a"]}),
    "2": found({"parcel": "200", "owner": "BOB", "tax": {"due": 7, "year": 2023}}),
    "3": found({"parcel": "300", "owner": "CAT", "note": None}),
    "4": found([{"parcel": "400"}, {"parcel": "401"}, {"owner": "nobody"}]),
    "5": found({"parcel": "500"}),
    "6": found({"parcel": "500"}),
}
AFTER = {
    "1": found({"parcel": "100", "owner": "ANNA", "tax": {"due": 5, "year": 2024}, "tags": ["a", "b"]}),
    "2": found({"parcel": "200", "tax": {"due": 7.0, "year": 2023}, "area": 3}),
    "9": found({"parcel": 300, "owner": "CAT"}),
    "4": found([{"parcel": "401"}]),
    "5": found({"parcel": "500"}),
    "7": found({"parcel": "600"}),
}


@pytest.mark.req("R2")
async def test_new_changed_and_vanished_records(store: Store, storage: ResultStorage, layout: Layout) -> None:
    await make(store, storage, "a", BEFORE, layout)
    await make(store, storage, "b", AFTER, Layout.FILES)
    summary, differences = await compared(store, storage)
    assert summary.same == 2  # 300, which is now a number and of another item, and 401
    assert differences == [
        Difference(
            change=Change.CHANGED,
            key=("100",),
            records=(1, 1),
            items=("1", "1"),
            fields={"owner": ("ANN", "ANNA"), "tags": (["a"], ["a", "b"]), "tax.year": (2023, 2024)},
        ),
        Difference(
            change=Change.CHANGED,
            key=("200",),
            records=(1, 1),
            items=("2", "2"),
            fields={"area": (None, 3), "owner": ("BOB", None)},
        ),
        Difference(change=Change.VANISHED, key=("400",), records=(1, 0), items=("4", None)),
        Difference(change=Change.DUPLICATE_KEY, key=("500",), records=(2, 1), items=("5", "5")),
        Difference(change=Change.NEW, key=("600",), records=(0, 1), items=(None, "7")),
        Difference(change=Change.NO_KEY, records=(1, 0), items=("4", None)),
    ]
    counts = {"new": 1, "changed": 2, "vanished": 1, "unknown": 0, "duplicate_key": 1, "no_key": 1}
    assert summary.counts == counts
    assert summary.fields == {
        "area": FieldChanges(filled=1),
        "owner": FieldChanges(changed=1, lost=1),
        "tags": FieldChanges(changed=1),
        "tax.year": FieldChanges(changed=1),
    }
    assert (summary.a.records, summary.b.records) == (8, 6)
    assert (summary.a.complete, summary.b.complete) == (False, True)  # a record of A has no key


async def test_only_some_fields_count(store: Store, storage: ResultStorage) -> None:
    await make(store, storage, "a", BEFORE, Layout.FILES)
    await make(store, storage, "b", AFTER, Layout.FILES)
    for question, fields in (
        (CompareRequest(key=("parcel",), fields=("tax",)), {"tax.year"}),
        (CompareRequest(key=("parcel",), ignore=("tax", "tags")), {"owner", "area"}),
        (CompareRequest(key=("parcel",), fields=("tax", "owner"), ignore=("tax.year",)), {"owner"}),
        (CompareRequest(key=("parcel",), ignore=("note", "area")), {"owner", "tags", "tax.year"}),  # one job has each
    ):
        assert set((await compared(store, storage, question))[0].fields) == fields
    for question in (CompareRequest(fields=("ta",)), CompareRequest(key=("parcel",), ignore=("input.parcel",))):
        with pytest.raises(UnknownName, match="no field in the records of either job"):
            await compared(store, storage, question)
    with pytest.raises(UnknownName, match="did you mean 'owner'"):
        await compared(store, storage, CompareRequest(fields=("owner", "ownr")))


async def test_jobs_without_any_record_have_no_fields_to_miss(store: Store, storage: ResultStorage) -> None:
    await make(store, storage, "a", {"1": Made(how=MISSING)}, Layout.FILES)
    await make(store, storage, "b", {"1": Made(how=MISSING)}, Layout.FILES)
    assert (await compared(store, storage, CompareRequest(fields=("owner",))))[1] == []


@pytest.mark.parametrize(
    ("ends", "complete", "expected"),
    [
        (
            {"1": found({"n": 1}), "2": found([]), "3": found([])},
            True,
            {"2": Change.VANISHED, "3": Change.VANISHED},
        ),
        ({"1": found({"n": 1}), "2": Made(how=MISSING)}, True, {"2": Change.VANISHED, "3": Change.UNKNOWN}),
        (
            {"1": found({"n": 1}), "2": Made(how=MISSING), "3": Made(how=FAILED)},
            False,
            {"2": Change.VANISHED, "3": Change.UNKNOWN},
        ),
        ({"1": found({"n": 1}), "2": Made(how=SKIPPED)}, False, {"2": Change.UNKNOWN, "3": Change.UNKNOWN}),
        ({"1": found({"n": 1}), "8": Made(how=FAILED)}, False, {"2": Change.UNKNOWN, "3": Change.UNKNOWN}),
        ({"1": Made(how=FAILED)}, False, {"1": Change.UNKNOWN, "2": Change.UNKNOWN, "3": Change.UNKNOWN}),
    ],
)
async def test_vanished_only_what_is_known_to_be(
    store: Store,
    storage: ResultStorage,
    layout: Layout,
    ends: Mapping[str, Made],
    complete: bool,
    expected: dict[str, Change],
) -> None:
    await make(store, storage, "a", {str(n): found({"n": 1}) for n in (1, 2, 3)}, layout)
    await make(store, storage, "b", ends, layout)
    summary, differences = await compared(store, storage, CompareRequest())
    assert summary.b.complete is complete
    assert summary.key == ("item_id", "record")
    assert {one.key[0]: one.change for one in differences} == expected


async def test_a_record_may_have_moved_to_an_item_that_nobody_could_read(store: Store, storage: ResultStorage) -> None:
    await make(store, storage, "a", {"1": found({"id": "P"}), "2": found({"id": "Q"})}, Layout.FILES)
    await make(store, storage, "b", {"1": Made(how=MISSING), "2": Made(how=FAILED)}, Layout.FILES)
    for key, first in ((("id",), Change.UNKNOWN), (("input.parcel",), Change.VANISHED), ((), Change.VANISHED)):
        _, differences = await compared(store, storage, CompareRequest(key=key))
        assert [one.change for one in differences] == [first, Change.UNKNOWN], key
    _, differences = await compared(store, storage, CompareRequest(key=("input.parcel", "id")))
    assert [one.change for one in differences] == [Change.UNKNOWN] * 2


def test_of_items_that_share_a_key_all_must_be_gone() -> None:
    with compare_table() as table:
        table.add([], [], [AskedItem(("P",), True), AskedItem(("Q",), True), AskedItem(("R",), False)])
        table.add([], [], [AskedItem(("P",), False), AskedItem(("Q",), True), AskedItem(("R",), True)])
        table.close_intake()
        assert [table.has_none((key,)) for key in "PQRS"] == [False, True, False, None]


@pytest.mark.parametrize("key", [(), ("input.parcel",), ("id",), ("input.parcel", "id")])
async def test_what_a_complete_job_was_never_asked_for_has_not_vanished(
    store: Store, storage: ResultStorage, layout: Layout, key: tuple[str, ...]
) -> None:
    """As when it has the first rows of the list only, or a sample of them."""
    await make(store, storage, "a", {str(n): found({"id": f"r{n}"}) for n in range(1, 13)}, layout)
    after = {"1": found({"id": "r1"}), "2": Made(how=MISSING), "3": found([])}
    await make(store, storage, "b", after, layout)
    summary, differences = await compared(store, storage, CompareRequest(key=key))
    assert (summary.b.complete, summary.same) == (True, 1)
    assert {int(one.items[0] or ""): (one.change, one.because) for one in differences} == {
        2: (Change.VANISHED, None),
        3: (Change.VANISHED, None),
        **dict.fromkeys(range(4, 13), (Change.UNKNOWN, UnknownReason.NOT_ASKED)),
    }
    assert (summary.counts["vanished"], summary.counts["unknown"]) == (2, 9)
    assert summary.unknown_because == {"not_asked": 9, "incomplete": 0}
    document = json.loads(b"".join(json_pieces(summary, differences)))
    assert Counter(one["because"] for one in document["differences"]) == {None: 2, "not_asked": 9}
    rows = csv.DictReader(io.StringIO(b"".join(csv_pieces(summary, differences)).decode(), newline=""))
    assert Counter(row["because"] for row in rows) == {"": 2, "not_asked": 9}


async def load_with(store: Store, storage: ResultStorage, job_id: str, items: Mapping[str, tuple[Any, Any]]) -> None:
    """A job of items by id: the input of each, and the record that it ends with."""
    await store.submit(new_job(job_id, limit=100, created_at=1_750_000_000.0))
    rows = tuple(Item(row, item_id, given) for row, (item_id, (given, _)) in enumerate(items.items(), 1))
    await store.load(job_id, ItemBatch(0, 1, len(rows), "digest", rows))
    await store.seal(job_id, 1)
    while (lease := await store.claim("worker", job_id)) is not None:
        await end_lease(store, storage, lease, {item_id: found(data) for item_id, (_, data) in items.items()})
    assert await Finisher(store, store, storage, FakeClock(), "finisher").run_once() is not None


async def test_an_item_of_another_id_asks_for_the_same_if_its_input_is_the_same(
    store: Store, storage: ResultStorage
) -> None:
    before = {"r1": ({"n": 1, "m": "x"}, {"k": "P"}), "r2": ({"n": 2}, {"k": "Q"}), "r3": ({}, {"k": "R"})}
    await load_with(store, storage, "a", before)
    after = {"s1": ({"m": "x", "n": "1"}, []), "s2": ({}, {"k": "S"}), "s3": ({"n": 3}, {"k": "T"})}
    await load_with(store, storage, "b", after)
    _, differences = await compared(store, storage, CompareRequest(key=("k",)))
    assert [(one.key[0], one.change) for one in differences] == [
        ("P", Change.VANISHED),
        ("Q", Change.UNKNOWN),
        ("R", Change.UNKNOWN),  # that nothing was given to both is no sameness
        ("S", Change.NEW),
        ("T", Change.NEW),
    ]
    _, differences = await compared(store, storage, CompareRequest(key=("input.n", "k")))
    assert [(one.key, one.because) for one in differences if one.change is Change.UNKNOWN] == [
        (("1", "P"), UnknownReason.INCOMPLETE),  # S has no such key, and may be anybody's
        (("2", "Q"), UnknownReason.NOT_ASKED),
    ]


async def test_a_record_without_key_may_be_the_one_that_is_missed(store: Store, storage: ResultStorage) -> None:
    await make(store, storage, "a", {"1": found({"parcel": "1"}), "2": found({"parcel": "2"})}, Layout.FILES)
    await make(store, storage, "b", {"1": found({"parcel": "1"}), "2": found({"parcel": ""})}, Layout.FILES)
    summary, differences = await compared(store, storage)
    assert summary.b.incomplete_because == "records without the key: 1"
    assert [(one.change, one.key) for one in differences] == [(Change.UNKNOWN, ("2",)), (Change.NO_KEY, ())]


async def test_a_job_that_has_not_ended_has_lost_nothing_yet(store: Store, storage: ResultStorage) -> None:
    await make(store, storage, "a", {"1": found({"parcel": "1"})}, Layout.FILES)
    await load(store, ["1"], "b", Layout.FILES)
    summary, differences = await compared(store, storage)
    assert (summary.b.status, [one.change for one in differences]) == ("pending", [Change.UNKNOWN])


async def test_a_key_may_have_parts_and_come_from_the_input(store: Store, storage: ResultStorage) -> None:
    await make(store, storage, "a", {"x": found([{"n": 1, "v": 1}, {"n": 2, "v": 1}])}, Layout.FILES)
    await make(store, storage, "b", {"x": found([{"n": 2, "v": 2}, {"n": 1, "v": 1}])}, Layout.FILES)
    summary, differences = await compared(store, storage, CompareRequest(key=("input.parcel", "n")))
    assert summary.same == 1
    assert [(one.change, one.key, one.fields) for one in differences] == [(Change.CHANGED, ("x", "2"), {"v": (1, 2)})]


async def test_a_number_in_a_key_is_the_same_however_it_is_written(store: Store, storage: ResultStorage) -> None:
    before = {"1": found({"k": 1}), "2": found({"k": 2.0}), "3": found({"k": 0.5}), "4": found({"k": True})}
    after = {"1": found({"k": 1.0}), "2": found({"k": "2"}), "3": found({"k": 0.50}), "4": found({"k": True})}
    await make(store, storage, "a", before, Layout.FILES)
    await make(store, storage, "b", after, Layout.FILES)
    summary, differences = await compared(store, storage, CompareRequest(key=("k",)))
    assert (summary.same, differences) == (4, [])


@pytest.mark.req("R6")
async def test_a_version_is_not_compared_as_a_job(store: Store, storage: ResultStorage) -> None:
    """A sample of it has few of the items, and would have all others vanish."""
    await make(store, storage, "a", {"1": found({"v": 1}), "2": found({"v": 1})}, Layout.FILES)
    await store.add_version("a")
    await make(store, storage, "b", {"1": found({"v": 2})}, Layout.FILES, extracts="a")
    with pytest.raises(BadInput, match=r"job 'b' is a version of 'a'; compare 'a', .*`swath jobs versions a`"):
        await compared(store, storage, CompareRequest())


@pytest.mark.req("R6")
async def test_the_current_versions_are_compared(store: Store, storage: ResultStorage, layout: Layout) -> None:
    await make(store, storage, "a", {"1": found({"v": 1})}, layout)
    await make(store, storage, "b", {"1": found({"v": 1}), "2": Made(how=MISSING)}, layout)
    await store.add_version("b")
    await make(store, storage, "b.v2", {"1": found({"v": 2})}, layout, extracts="b")
    await store.set_current("b", 2)
    summary, differences = await compared(store, storage, CompareRequest())
    assert (summary.b.version, [one.fields for one in differences]) == (2, [{"v": (1, 2)}])


@pytest.mark.req("R6")
async def test_nothing_has_vanished_by_a_version_that_could_not_read_everything(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    both = {"1": found({"k": "P"}), "2": found({"k": "Q"})}
    await make(store, storage, "a", both, layout)
    await make(store, storage, "b", both, layout)
    await store.add_version("b")
    await make(store, storage, "b.v2", {"1": found({"k": "P"}), "2": Made(how=FAILED)}, layout, extracts="b")
    await store.set_current("b", 2)
    for key in ((), ("k",)):
        summary, differences = await compared(store, storage, CompareRequest(key=key))
        assert (summary.b.status, summary.b.complete) == ("completed", False)
        assert str(summary.b.incomplete_because).startswith("its version 2 is ")
        assert [(one.change, one.because) for one in differences] == [(Change.UNKNOWN, UnknownReason.INCOMPLETE)]


async def test_what_cannot_be_compared_is_said_in_one_line(store: Store, storage: ResultStorage) -> None:
    await make(store, storage, "a", {"1": found({"parcel_id": "1"})}, Layout.FILES)
    await make(store, storage, "b", {"1": found({"parcel_id": "1"})}, Layout.FILES)
    with pytest.raises(UnknownName, match="did you mean 'parcel_id'"):
        await compared(store, storage, CompareRequest(key=("parcelid",)))
    kept = policy(100, keep=Keep.PAGES.value)
    await make(store, storage, "c", {"1": found({"parcel_id": "1"})}, Layout.FILES, policy=kept)
    jobs = await store.status("a"), await store.status("c")
    with compare_table() as table, pytest.raises(BadInput, match="keeps pages and no records"):
        await JobComparison(store, storage, table, PARCEL).load(jobs, lambda items: None)
    jobs = await store.status("a"), await store.status("b")
    await store.delete("b")
    with compare_table() as table, pytest.raises(Conflict, match="changed while it was compared"):
        await JobComparison(store, storage, table, CompareRequest()).load(jobs, lambda items: None)


async def test_no_room_for_the_comparison_is_told(
    store: Store, storage: ResultStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(store, storage, "a", {"1": found({"v": "x" * 100_000})}, Layout.FILES)
    await make(store, storage, "b", {"1": found({"v": 2})}, Layout.FILES)
    small = (*compare_table_module._SCHEMA[:-1], "PRAGMA max_page_count = 6", "BEGIN")
    monkeypatch.setattr(compare_table_module, "_SCHEMA", small)
    with pytest.raises(BadInput, match="make room there, or let TMPDIR name another folder"):
        await compared(store, storage, CompareRequest())


@pytest.mark.req("R5")
async def test_json_and_csv_say_the_same(store: Store, storage: ResultStorage) -> None:
    formula = {"1": found({"parcel": "=1+1", "owner": "@A"}), "2": found({"parcel": "2", "n": -5, "s": "a,\n"})}
    await make(store, storage, "a", formula, Layout.FILES)
    await make(store, storage, "b", {"1": found({"parcel": "2", "n": -6, "s": None}), "2": found({})}, Layout.FILES)
    summary, differences = await compared(store, storage)
    document = json.loads(b"".join(json_pieces(summary, differences)))
    assert document["summary"]["counts"] == summary.counts
    assert document["summary"]["b"]["complete"] is False
    assert document["differences"][0] == {
        "change": "changed",
        "key": {"parcel": "2"},
        "items": {"a": "2", "b": "1"},
        "records": {"a": 1, "b": 1},
        "fields": {"n": {"before": -5, "after": -6}, "s": {"before": "a,\n", "after": None}},
        "because": None,
    }
    text = b"".join(csv_pieces(summary, differences)).decode()
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["change", "key_parcel", "item_a", "item_b", "records_a", "records_b", "field", "before", "after", "because"],
        ["changed", "2", "2", "1", "1", "1", "n", "-5", "-6", ""],
        ["changed", "2", "2", "1", "1", "1", "s", "a,\n", "", ""],
        ["unknown", "'=1+1", "1", "", "1", "0", "", "", "", "incomplete"],
        ["no_key", "", "", "2", "0", "1", "", "", "", ""],
    ]
    assert json.loads(b"".join(json_pieces(summary, [])))["differences"] == []


@pytest.mark.req("R5")
async def test_text_and_the_number_that_it_reads_like_are_told_apart(store: Store, storage: ResultStorage) -> None:
    before = {"1": found({"n": 7, "b": True, "s": "7", "e": None, "o": 7, "t": "a"})}
    await make(store, storage, "a", before, Layout.FILES)
    after = {"1": found({"n": "7", "b": "true", "s": 7, "e": "", "o": "8", "t": "b"})}
    await make(store, storage, "b", after, Layout.FILES)
    summary, differences = await compared(store, storage, CompareRequest())
    text = b"".join(csv_pieces(summary, differences)).decode()
    rows = csv.DictReader(io.StringIO(text, newline=""))
    assert {row["field"]: (row["before"], row["after"]) for row in rows} == {
        "b": ("true", '"true"'),
        "e": ("", '""'),
        "n": ("7", '"7"'),
        "o": ("7", "8"),
        "s": ('"7"', "7"),
        "t": ("a", "b"),
    }


async def test_a_list_and_the_text_that_it_reads_like_are_told_apart(store: Store, storage: ResultStorage) -> None:
    same = {"n": [1, {"a": 2, "b": 3}], "e": []}
    before, after = {"o": [1, 2], "p": "{}", "z": {"a": {}}}, {"o": "[1,2]", "p": {}, "z": {"a": "{}"}}
    await make(store, storage, "a", {"1": found(before | same | {"t": [1]})}, Layout.FILES)
    same = {"n": [1.0, {"b": 3, "a": 2}], "e": []}
    await make(store, storage, "b", {"1": found(after | same | {"t": [True]})}, Layout.FILES)
    summary, differences = await compared(store, storage, CompareRequest())
    assert summary.fields == {name: FieldChanges(changed=1) for name in ("o", "p", "t", "z.a")}
    (told,) = json.loads(b"".join(json_pieces(summary, differences)))["differences"]
    assert told["fields"] == {
        "o": {"before": [1, 2], "after": "[1,2]"},
        "p": {"before": "{}", "after": {}},
        "t": {"before": [1], "after": [True]},
        "z.a": {"before": {}, "after": "{}"},
    }
    rows = csv.DictReader(io.StringIO(b"".join(csv_pieces(summary, differences)).decode(), newline=""))
    assert {row["field"]: (row["before"], row["after"]) for row in rows} == {
        "o": ("[1,2]", '"[1,2]"'),
        "p": ('"{}"', "{}"),
        "t": ("[1]", "[true]"),
        "z.a": ("{}", '"{}"'),
    }


VALUES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x", "y", "1", 1.0, 0.5])
RECORDS = st.dictionaries(st.sampled_from(["k", "v", "w"]), VALUES, max_size=3)
JOBS = st.dictionaries(
    st.sampled_from("abcdef"), st.builds(found, st.lists(RECORDS, max_size=3)) | st.just(Made(how=MISSING)), min_size=1
)


def text_of(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(int(value) if isinstance(value, float) and value.is_integer() else value)


def naive(a: Mapping[str, Made], b: Mapping[str, Made]) -> tuple[Counter[str], int]:
    """The same by looking at every pair, for jobs in which every item succeeds."""
    sides = [[(item, record) for item, made in sorted(job.items()) for record in made.data or []] for job in (a, b)]
    told: Counter[str] = Counter()
    same = 0
    told["no_key"] = sum(not text_of(record.get("k")) for side in sides for _, record in side)
    complete = all(text_of(record.get("k")) for _, record in sides[1])
    for key in {text_of(record.get("k")) for side in sides for _, record in side} - {""}:
        before, after = ([(i, r) for i, r in side if text_of(r.get("k")) == key] for side in sides)
        if len(before) > 1 or len(after) > 1:
            told["duplicate_key"] += 1
        elif not before:
            told["new"] += 1
        elif not after:
            told["vanished" if complete and before[0][0] in b else "unknown"] += 1
        else:
            names = ("v", "w")
            pairs = [(before[0][1].get(name), after[0][1].get(name)) for name in names]
            equal = all(x == y and isinstance(x, bool) == isinstance(y, bool) for x, y in pairs)
            same += equal
            told["changed"] += not equal
    return told, same


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(a=JOBS, b=JOBS, packed=st.booleans())
async def test_any_two_jobs_compare_as_by_hand(a: dict[str, Made], b: dict[str, Made], packed: bool) -> None:
    store, storage = MemoryStore(FakeClock()), MemoryResults()
    await make(store, storage, "a", a, Layout.WARC if packed else Layout.FILES)
    await make(store, storage, "b", b, Layout.FILES)
    try:
        summary, differences = await compared(store, storage, CompareRequest(key=("k",)))
    except UnknownName:
        records = [[record for made in job.values() for record in made.data or []] for job in (a, b)]
        assert any(side and not any("k" in record for record in side) for side in records)
        return
    told, same = naive(a, b)
    assert ({k: n for k, n in summary.counts.items() if n}, summary.same) == (
        {k: n for k, n in told.items() if n},
        same,
    )
    assert Counter(one.change.value for one in differences) == told


async def test_the_temporary_file_is_gone_at_the_end(
    store: Store, storage: ResultStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    await make(store, storage, "a", BEFORE, Layout.FILES)
    await make(store, storage, "b", AFTER, Layout.FILES)
    await compared(store, storage)
    assert list((tmp_path / "temporary").iterdir()) == []

"""R6: what the diff of a version calls a record, a value and a change, and that it leaves no item out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath import Pages, scraper
from swath.backends.clock import SystemClock
from swath.domain.storage_keys import Layout, PackLocation
from swath.pipeline.results.flatten import values_of
from swath.pipeline.results.versions import diff as diff_module
from swath.pipeline.results.versions.diff import Diff, VersionComparison, read_diff
from swath.pipeline.results.versions.lifecycle import use_version
from swath.ports.clock import Clock
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store
from tests.unit.pipeline.results.reextracting import V2, Parcels, make_version, parcels, scraped

pytestmark = pytest.mark.req("R6")


@pytest.fixture
def clock() -> Clock:
    return SystemClock()


@scraper("parcels", version="4")
class Empty(Parcels):
    """Returns a list with nothing in it."""

    def extract(self, pages: Pages) -> Any:
        return []


async def test_a_list_with_nothing_in_it_is_no_record(store: Store, storage: ResultStorage, layout: Layout) -> None:
    """No row of an export is made of it, so readers would miss what they have."""
    await scraped(store, storage, layout, parcels(1, 2))
    made = await make_version(store, storage, Empty())
    assert made.counts.success == 2
    diff = await read_diff(storage, "job.v2")
    assert diff is not None
    assert (diff.gone, diff.items, diff.same_items, diff.fields) == ({"no_data": 2}, 2, 0, {})
    assert (await store.status("job")).current_version == 1
    await use_version(store, "job", 2)
    await make_version(store, storage, Empty())
    again = await read_diff(storage, "job.v3")
    assert again is not None
    assert (again.still_none, again.same_items, again.gone, again.gained) == (2, 0, {}, 0)
    await make_version(store, storage, V2())
    gained = await read_diff(storage, "job.v4")
    assert gained is not None
    assert (gained.gained, gained.fields["owner"].filled) == (2, 2)


@scraper("parcels", version="2")
class Given(Parcels):
    """Says the same of every page."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record

    def extract(self, pages: Pages) -> Any:
        return self.record


async def test_zero_and_false_say_something(store: Store, storage: ResultStorage, layout: Layout) -> None:
    await scraped(store, storage, layout, parcels(1, 2))
    await make_version(store, storage, Given({"n": 0, "b": False, "was": None, "s": "", "o": 1}))
    after = {"n": 0, "b": False, "was": 0, "s": "", "o": None}
    for version in (3, 4):
        await make_version(store, storage, Given(after))
        await use_version(store, "job", version)
    changed, same = await read_diff(storage, "job.v3"), await read_diff(storage, "job.v4")
    assert changed is not None
    assert same is not None
    counts = {name: (one.same, one.filled, one.changed, one.lost) for name, one in changed.fields.items()}
    assert counts == {"n": (2, 0, 0, 0), "b": (2, 0, 0, 0), "was": (0, 2, 0, 0), "o": (0, 0, 0, 2)}
    assert {name: one.same for name, one in same.fields.items()} == {"n": 2, "b": 2, "was": 2}


async def test_what_is_the_same_is_counted_for_every_item(store: Store, storage: ResultStorage) -> None:
    await scraped(store, storage, Layout.WARC, parcels(*range(1, 8)))
    for version in (2, 3):
        await make_version(store, storage, Given({"a": "x", "b": "y"}))
        await use_version(store, "job", version)
    diff = await read_diff(storage, "job.v3")
    assert diff is not None
    assert (diff.same_items, {name: one.same for name, one in diff.fields.items()}) == (7, {"a": 7, "b": 7})


async def test_a_diff_is_as_large_as_its_fields_and_no_larger(store: Store, storage: ResultStorage) -> None:
    """Records whose names are data would else make one of each."""
    await scraped(store, storage, Layout.FILES, parcels(1, 2))
    await make_version(store, storage, Given({f"f{number}": "x" for number in range(1_300)}))
    diff = await read_diff(storage, "job.v2")
    assert diff is not None
    assert len(diff.fields) <= 1_001
    assert sum(one.filled for one in diff.fields.values()) == 2 * 1_300


async def test_a_diff_goes_through_all_items_and_one_that_is_damaged_hides_no_other(
    store: Store, storage: ResultStorage
) -> None:
    await scraped(store, storage, Layout.WARC, parcels(*range(1, 8)), step=1)
    (hit,) = [one for one in await store.items("job") if one.item_id == "p4"]
    line = PackLocation.of(hit.artifacts[-1].key)
    assert line is not None
    whole = bytearray(await storage.get("job", line.pack))
    whole[line.start + line.length // 2] ^= 0xFF
    await make_version(store, storage, V2())  # which reads the page and what is said of it from another place
    for batch_items in (2, 3, 1_000):
        assert (await compared(store, storage, batch_items)).items == 7
    await storage.put("job", {line.pack: bytes(whole)})
    diff = await compared(store, storage, 1_000)
    assert (diff.items, diff.unreadable) == (6, 1)


VALUES = st.sampled_from(["", "a", "b", None, 0, 1, False, 2.5, [], [""], {}, {"a": ""}, {"a": "b", "c.d": None}])
NAMES = st.sampled_from(["a", "b", "_c", "d.e"])
RECORDS = st.dictionaries(NAMES, VALUES) | st.dictionaries(NAMES, st.sampled_from(["", "a", "b"])) | VALUES


@given(st.lists(RECORDS | st.lists(RECORDS, max_size=3), max_size=8), st.integers(1, 5))
def test_what_was_the_same_before_counts_as_if_it_were_compared_field_by_field(items: list[Any], most: int) -> None:
    quick, slow = (Diff(job_id="job", version=2, former_version=1) for _ in range(2))
    known: diff_module._KnownShapes = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff_module, "MOST_FIELDS", most)
        for data in items:
            diff_module._add_same(quick, known, data)
            rows = [values_of(one) for one in (data if isinstance(data, list) else [data])]
            slow.still_none += not rows
            slow.same_items += bool(rows) and diff_module._add_values(slow, "p1", rows, rows)
    diff_module._count(known)
    assert quick == slow
    assert list(quick.fields) == list(slow.fields)


async def compared(store: Store, storage: ResultStorage, batch_items: int) -> Diff:
    """The first two versions of the job, so many items at a time."""
    first = msgspec.structs.replace(await store.status("job"), current_version=1)
    comparison = VersionComparison(store, storage, first, (await store.status("job.v2")).job)
    after = 0
    while records := await store.items("job.v2", after, batch_items):
        await comparison.add(records)
        after = records[-1].seq
    return comparison.diff

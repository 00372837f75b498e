"""R8: each value leads back to the pages that it was extracted from, and never to more than is known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.backends.sqlite.results.results import FolderResults
from swath.domain.errors import UnknownName
from swath.domain.execution_policy import Keep
from swath.domain.storage_keys import Layout, PackLocation
from swath.pipeline.results.provenance import Evidence, find_evidence, occurs_in, searchable_texts
from swath.pipeline.results.records import read_rows
from tests.contract.suites.builders import Store, policy
from tests.support.clock import FakeClock
from tests.unit.pipeline.making import FAILED, STARTED, Made, make_job, page
from tests.unit.pipeline.results.stored_jobs import load

pytestmark = pytest.mark.req("R8")

PARCEL = page("html", b"<h1>Owner:</h1><b>SMITH\n &amp; SONS</b><i>12,500.00</i>" + b" " * 2_000, "https://c.example/p")
BILL = page("bill", b"<td>Due</td><td>1<!-- -->7</td><td>2024</td>", "https://c.example/bill?y=2024", STARTED + 5)
DATA = {
    "owner": "SMITH & SONS",
    "value": 12_500,
    "tax": {"year": 2024, "due": 17, "paid": False, "note": None},
    "county": "Maricopa",
}
TWO = {"one": Made(data=DATA, pages=(PARCEL, BILL))}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[FolderResults]:
    made = FolderResults(tmp_path / "results")
    yield made
    await made.close()


async def evidence(store: Store, storage: FolderResults, item_id: str = "one", job_id: str = "job") -> Evidence:
    return await find_evidence(store, storage, await store.status(job_id), item_id)


@pytest.mark.req("R2")
async def test_values_lead_to_pages(store: Store, storage: FolderResults, clock: FakeClock, layout: Layout) -> None:
    await make_job(store, storage, clock, TWO, layout=layout)
    found = await evidence(store, storage)
    assert (found.version, found.scraper_id, found.scraper_version) == (1, "example-mock", "1")
    assert (found.generation, found.proxy_tier, found.damage) == (1, "datacenter", ())
    parcel, bill = found.pages
    assert (parcel.name, parcel.url, parcel.status, parcel.fetched_at) == ("html", "https://c.example/p", 200, STARTED)
    assert (parcel.sha256, parcel.size, parcel.file) == (PARCEL.sha256, len(PARCEL.body), "html.html")
    assert (bill.name, bill.url, bill.fetched_at) == ("bill", "https://c.example/bill?y=2024", STARTED + 5)
    keys = {artifact.key for artifact in (await store.item("job", "one")).artifacts}
    assert {parcel.artifact, bill.artifact} <= keys
    assert {value.pages for value in found.values} == {("html", "bill")}
    assert {value.field: (value.value, value.found_in) for value in found.values} == {
        "owner": ("SMITH & SONS", ("html",)),
        "value": (12_500, ("html",)),
        "tax.year": (2024, ("bill",)),
        "tax.due": (17, ("bill",)),
        "tax.paid": (False, None),
        "tax.note": (None, None),
        "county": ("Maricopa", ()),
    }


async def test_an_item_that_has_not_ended_has_no_generation(
    store: Store, storage: FolderResults, layout: Layout
) -> None:
    await load(store, "waits", [("one", {})], layout)
    found = await evidence(store, storage, job_id="waits")
    assert (found.generation, found.proxy_tier, found.pages) == (None, None, ())


@pytest.mark.req("R5")
async def test_the_way_out_is_that_of_the_attempt_which_got_the_pages(
    store: Store, storage: FolderResults, clock: FakeClock, layout: Layout
) -> None:
    climbed = Made(data={"n": 1}, pages=(PARCEL,), tiers=("datacenter", "residential", "unlocker"))
    await make_job(store, storage, clock, {"one": climbed}, layout=layout)
    assert len((await store.item("job", "one")).attempts) == 3
    assert (await evidence(store, storage)).proxy_tier == "unlocker"
    batches = [batch async for batch in read_rows(store, storage, await store.status("job"))]
    assert [row.provenance["proxy_tier"] for batch in batches for row in batch.rows] == ["unlocker"]


async def test_several_records_of_an_item_are_told_apart(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    await make_job(store, storage, clock, {"one": Made(data=[{"n": 1}, {"n": 2}], pages=(PARCEL,))})
    values = (await evidence(store, storage)).values
    assert [(one.record, one.field, one.value) for one in values] == [(1, "n", 1), (2, "n", 2)]


async def test_pages_that_were_not_kept_are_named_and_not_searched(
    store: Store, storage: FolderResults, clock: FakeClock, layout: Layout
) -> None:
    kept = policy(100, keep=Keep.DATA.value)
    await make_job(store, storage, clock, TWO, layout=layout, policy=kept)
    found = await evidence(store, storage)
    assert [(one.name, one.sha256, one.file, one.artifact) for one in found.pages] == [
        ("html", PARCEL.sha256, None, None),
        ("bill", BILL.sha256, None, None),
    ]
    assert {value.found_in for value in found.values} == {None}


async def test_an_item_without_a_record_has_none_to_trace(
    store: Store, storage: FolderResults, clock: FakeClock
) -> None:
    await make_job(store, storage, clock, {"bad": Made(how=FAILED), **TWO})
    found = await evidence(store, storage, "bad")
    assert (found.pages, found.values, found.damage) == ((), (), ())
    with pytest.raises(UnknownName):
        await evidence(store, storage, "nobody")


def damage(storage: FolderResults, key: str, job_id: str = "job") -> None:
    at = PackLocation.of(key)
    file = Path(storage.location(job_id)) / (key if at is None else at.pack)
    body = bytearray(file.read_bytes())
    body[15 if at is None else at.start + at.length // 2] ^= 0xFF
    file.write_bytes(body)


@pytest.mark.req("Z2")
async def test_a_damaged_page_is_told_and_hides_nothing_else(
    store: Store, storage: FolderResults, clock: FakeClock, layout: Layout
) -> None:
    await make_job(store, storage, clock, TWO, layout=layout)
    key = (await evidence(store, storage)).pages[0].artifact
    assert key is not None
    damage(storage, key)
    found = await evidence(store, storage)
    assert len(found.damage) == 1
    assert f"the stored file {key} of job 'job' has other bytes than were stored" in found.damage[0]
    assert (len(found.pages), len(found.values)) == (2, 7)
    assert {value.found_in for value in found.values} == {None}  # it may be on the page that cannot be read


@pytest.mark.req("Z2")
async def test_a_damaged_record_leaves_the_pages(store: Store, storage: FolderResults, clock: FakeClock) -> None:
    await make_job(store, storage, clock, TWO)
    damage(storage, "items/one/data.json")
    found = await evidence(store, storage)
    assert (len(found.pages), found.values, len(found.damage)) == (2, (), 1)
    damage(storage, "items/one/metadata.json")
    found = await evidence(store, storage)
    assert (found.pages, found.values, len(found.damage)) == ((), (), 2)


@pytest.mark.req("R6")
async def test_values_are_those_of_the_current_version_and_pages_those_of_the_job(
    store: Store, storage: FolderResults, clock: FakeClock, layout: Layout
) -> None:
    await make_job(store, storage, clock, TWO, layout=layout)
    assert await store.add_version("job") == 2
    newer = {"one": Made(data={"owner": "SMITH"}, pages=(PARCEL, BILL))}
    more = {"extracts": "job", "policy": policy(100, keep=Keep.DATA.value)}
    await make_job(store, storage, clock, newer, "job.v2", layout, **more)
    assert (await evidence(store, storage)).version == 1
    await store.set_current("job", 2)
    found = await evidence(store, storage)
    assert (found.version, found.pages[0].file) == (2, "html.html")
    assert [(one.field, one.value, one.found_in) for one in found.values] == [("owner", "SMITH", ("html",))]


@pytest.mark.parametrize(
    ("value", "text", "there"),
    [
        (17, "<td>17</td>", True),
        (17, "<td>170</td>", False),
        (17, "17,500", False),
        (17, "3.17", False),
        (17, "$17.", True),
        (1234567.5, "$1,234,567.50", True),
        (1234567, "1,234,567", True),
        (1234, "1,234,567", False),
        ("4755.75", "<td>$4,755.75</td>", True),
        ("4755.75", "14,755.75", False),
        ("4755.75", "4,755.755", False),
        ("-4755.75", "due: -$4,755.75", True),
        ("-4755.75", "due: (4,755.75)", True),
        ("-4755.75", "due: \u2212$4,755.75", True),
        ("-4755.75", "due: $4,755.75", False),
        (-4755.75, "due: ($4,755.75)", True),
        ("1000000", "1,000,000", True),
        ("0100200", "100,200", False),
        ("Ann Lee", "<b>Ann\n\tLee</b>", True),
        ("Ann Lee", "<b>Ann</b> <i>Lee</i>", True),
        ("Ann", "Anna", False),
        ("a&b", "a&amp;b", True),
        ("https://x/?a=1", '<a href="https://x/?a=1">', True),
        ("(602)", "phone(602)555", True),
        ("  ", "anything", False),
        ("a+b", "aab", False),
    ],
)
def test_a_value_occurs_by_itself_or_not_at_all(value: str | float, text: str, there: bool) -> None:
    assert occurs_in(value, searchable_texts(text)) is there


@given(st.text(), st.text())
def test_whatever_is_looked_for_anywhere_is_no_error(value: str, text: str) -> None:
    occurs_in(value, searchable_texts(text))

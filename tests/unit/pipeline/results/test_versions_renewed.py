"""R6, R8: a retry of the scraped job, or of a version's own, leaves no value with pages that it was not read from."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from swath import Page, Pages, WebPage, WebSession, scraper
from swath.backends.clock import SystemClock
from swath.domain.errors import Conflict
from swath.domain.failure import FailureKind
from swath.domain.item import RetrySelection
from swath.domain.job import Job
from swath.domain.storage_keys import Layout
from swath.domain.transitions import ItemState
from swath.pipeline.formats.stored_files import read_item_files
from swath.pipeline.results.export.exporter import Export, ExportFormat
from swath.pipeline.results.export.exporter import ExportRequest as Exported
from swath.pipeline.results.provenance import Evidence, find_evidence
from swath.pipeline.results.records import current_items_at, read_rows
from swath.pipeline.results.versions.diff import read_diff
from swath.pipeline.results.versions.lifecycle import (
    VersionRequest,
    begin_version,
    load_version,
    refuse_mixed_pages,
    use_version,
)
from swath.ports.clock import Clock
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store
from tests.unit.pipeline.results.reextracting import V1, V2, Parcels, make_version, scraped, work_on

pytestmark = pytest.mark.req("R6", "R8")

NOW = 1_750_000_000.0
ITEMS: list[dict[str, Any]] = [{"n": 1}, {"n": 2}]
SOLD = b"<h1>Parcel 1</h1><b>Buyer</b><u>9.50</u>"
P1 = RetrySelection(item_ids=frozenset({"p1"}))


@scraper("parcels", version="1")
class Sold(V1):
    """The first scraper, on a site that has changed."""

    async def fetch(self, item: Any, web: WebSession) -> Any:
        return WebPage(Page(name="html", url="https://county.example/1", status=200, body=SOLD))


@scraper("parcels", version="3")
class Worse(Parcels):
    """Cannot read the second page."""

    def extract(self, pages: Pages) -> Any:
        if "2" in pages.main.css("h1")[0].text():
            raise ValueError("a bug")
        return {"owner": pages.main.css("b")[0].text()}


@pytest.fixture
def clock() -> Clock:
    return SystemClock()


async def sold(store: Store, storage: ResultStorage) -> None:
    await store.retry("job", P1)
    await work_on(store, storage, Sold(), "job")


async def evidence(store: Store, storage: ResultStorage, item_id: str, job_id: str = "job") -> Evidence:
    return await find_evidence(store, storage, await store.status(job_id), item_id)


async def provenances(store: Store, storage: ResultStorage, job_id: str = "job") -> list[dict[str, Any]]:
    batches = read_rows(store, storage, await store.status(job_id), everything=True)
    return [row.provenance async for batch in batches for row in batch.rows]


async def test_a_value_keeps_its_page_when_the_item_has_run_again(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path
) -> None:
    await scraped(store, storage, layout, ITEMS)
    await make_version(store, storage, V2())
    await store.retry("job", P1)
    assert [(one["version"], one["state"]) for one in await provenances(store, storage)] == [
        (1, "pending"),
        (2, "success"),
    ]
    await work_on(store, storage, Sold(), "job")
    found = await evidence(store, storage, "p1")
    assert (found.version, found.generation, found.scraper_version) == (1, 2, "1")
    assert [page.sha256 for page in found.pages] == [hashlib.sha256(SOLD).hexdigest()]
    assert {one.field: (one.value, one.found_in) for one in found.values}["owner"] == ("Buyer", ("html",))
    kept = await evidence(store, storage, "p2")
    assert (kept.version, kept.generation, kept.scraper_version) == (2, 1, "2")
    told = await provenances(store, storage)
    assert [(one["version"], one["generation"]) for one in told] == [(1, 2), (2, 1)]
    assert [one["pages"][0]["sha256"] for one in told] == [found.pages[0].sha256, kept.pages[0].sha256]
    await Export(store, storage, await store.status("job"), Exported(ExportFormat.FILES)).to_file(tmp_path / "out")
    folder = tmp_path / "out/items/p1"
    assert json.loads((folder / "metadata.json").read_bytes())["pages"][0]["sha256"] == found.pages[0].sha256
    assert (folder / "html.html").read_bytes() == SOLD
    assert json.loads((folder / "data.json").read_bytes())["owner"] == "Buyer"


async def test_the_next_version_is_compared_with_what_readers_get(store: Store, storage: ResultStorage) -> None:
    await scraped(store, storage, Layout.FILES, ITEMS)
    await make_version(store, storage, V2())
    await sold(store, storage)
    await make_version(store, storage, V2())
    diff = await read_diff(storage, "job.v3")
    assert diff is not None
    assert (diff.former_version, diff.items, diff.same_items, diff.fields["owner"].same) == (2, 2, 1, 2)
    assert [(one["version"], one["generation"]) for one in await provenances(store, storage)] == [(3, 2), (3, 1)]


async def test_what_ran_again_since_is_left_out_of_a_comparison(store: Store, storage: ResultStorage) -> None:
    """Whether the version that is compared, the one that readers have, or only what is known of the job is older."""
    await scraped(store, storage, Layout.FILES, ITEMS)
    await make_version(store, storage, V2())
    second, before = (await store.status("job.v2")).job, await store.status("job")
    assert set(await current_items_at(store, before, second, [2, 4])) == {2, 4}
    await sold(store, storage)
    assert set(await current_items_at(store, before, second, [2, 4])) == {4}
    await make_version(store, storage, V2())
    third, now = (await store.status("job.v3")).job, await store.status("job")
    assert now.current_version == 3
    assert {seq: job_id for seq, (job_id, _) in (await current_items_at(store, now, third, [2, 4])).items()} == {
        2: "job.v3",
        4: "job.v3",
    }
    assert set(await current_items_at(store, now, second, [2, 4])) == {4}


async def test_items_of_a_version_do_not_run_again_over_other_pages(store: Store, storage: ResultStorage) -> None:
    await scraped(store, storage, Layout.FILES, ITEMS)
    await make_version(store, storage, V2())
    await refuse_mixed_pages(store, "job.v2")
    await sold(store, storage)
    with pytest.raises(Conflict, match=r"'job' ran again since 'job.v2' was begun.*swath jobs reextract"):
        await refuse_mixed_pages(store, "job.v2")
    await refuse_mixed_pages(store, "job")


async def test_pages_that_change_while_a_version_is_made_are_not_given_its_values(
    store: Store, storage: ResultStorage
) -> None:
    await scraped(store, storage, Layout.FILES, ITEMS)
    begun = await begin_version(store, NOW, "job", VersionRequest(scraper=V2()))
    await load_version(store, begun, lambda _: None)
    await store.pause("job.v2")
    await sold(store, storage)
    with pytest.raises(Conflict, match=r"ran again since version 2 was begun; cancel job\.v2 first"):
        await begin_version(store, NOW, "job", VersionRequest(scraper=V2()))
    await store.resume("job.v2")
    await work_on(store, storage, V2(), "job.v2")
    diff = await read_diff(storage, "job.v2")
    assert diff is not None
    assert (diff.items, (await store.status("job")).current_version) == (1, 2)
    assert [one["version"] for one in await provenances(store, storage)] == [1, 2]


async def test_the_job_of_a_version_tells_where_its_own_records_come_from(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path
) -> None:
    await scraped(store, storage, layout, ITEMS)
    await make_version(store, storage, V2())
    told = await provenances(store, storage, "job.v2")
    assert [(one["job_id"], one["version"], one["generation"]) for one in told] == [("job", 2, 1)] * 2
    found = await evidence(store, storage, "p1", "job.v2")
    assert (found.version, found.job_id, found.pages[0].file) == (2, "job", "html.html")
    assert found.pages[0].artifact in {one.key for one in (await store.item("job", "p1")).artifacts}
    assert found.values[0].found_in == ("html",)
    await Export(store, storage, await store.status("job.v2"), Exported(ExportFormat.FILES)).to_file(tmp_path / "out")
    assert (tmp_path / "out/items/p1/html.html.gz").exists()
    await sold(store, storage)
    old = await evidence(store, storage, "p1", "job.v2")
    assert (old.version, old.generation, old.proxy_tier, old.pages[0].artifact) == (2, None, None, None)
    assert old.pages[0].sha256 == found.pages[0].sha256
    told = await provenances(store, storage, "job.v2")
    assert (told[0]["generation"], told[0]["pages"][0]["sha256"]) == (None, found.pages[0].sha256)


async def test_how_the_current_version_has_failed_is_told(store: Store, storage: ResultStorage) -> None:
    await scraped(store, storage, Layout.FILES, ITEMS)
    await make_version(store, storage, Worse())
    await use_version(store, "job", 2)
    found = await evidence(store, storage, "p2")
    assert (found.version, found.scraper_version, found.state, found.values) == (2, "3", ItemState.FAILED, ())
    assert found.failure is not None
    assert (found.failure.kind, "a bug" in found.failure.message) == (FailureKind.INTERNAL, True)
    assert len(found.pages) == 2


async def test_items_of_a_version_that_run_again_renew_its_diff_and_move_nobody(
    store: Store, storage: ResultStorage
) -> None:
    await scraped(store, storage, Layout.FILES, ITEMS)
    await make_version(store, storage, Worse())
    await store.retry("job.v2", RetrySelection(failed=True))
    await work_on(store, storage, V2(), "job.v2")
    diff = await read_diff(storage, "job.v2")
    assert diff is not None
    assert (diff.former_version, diff.gone, (await store.status("job")).current_version) == (1, {}, 1)
    await use_version(store, "job", 2)
    await store.retry("job.v2", RetrySelection(item_ids=frozenset({"p2"})))
    await work_on(store, storage, Worse(), "job.v2")
    diff = await read_diff(storage, "job.v2")
    assert diff is not None
    assert (diff.former_version, diff.gone, (await store.status("job")).current_version) == (1, {"internal": 1}, 2)
    files = await read_item_files(storage, "job.v2", "p1", (await store.item("job.v2", "p1")).artifacts)
    assert json.loads(files["data.json"]) == {"owner": "Owner 1"}


async def test_one_version_is_not_made_by_two_different_files(store: Store, storage: ResultStorage) -> None:
    await scraped(store, storage, Layout.FILES, ITEMS)
    one = VersionRequest(scraper=V2(), source="/scrapers/slow1.py", source_sha256="a" * 64)
    begun = await begin_version(store, NOW, "job", one)
    assert (await begin_version(store, NOW, "job", one)).job == begun.job
    other = VersionRequest(scraper=V2(), source="/scrapers/slow1.py", source_sha256="b" * 64)
    with pytest.raises(Conflict) as refused:
        await begin_version(store, NOW, "job", other)
    told = "slow1.py has changed since version 2 was begun; raise its version, or cancel job.v2"
    assert str(refused.value) == told
    raised = VersionRequest(scraper=Worse(), source="/scrapers/slow1.py", source_sha256="b" * 64)
    assert (await begin_version(store, NOW, "job", raised)).job.job_id == "job.v3"


async def test_a_number_whose_name_somebody_has_taken_is_passed_over(store: Store, storage: ResultStorage) -> None:
    await scraped(store, storage, Layout.FILES, ITEMS)
    await store.submit(Job(job_id="job.v2", scraper_id="any"))
    assert (await make_version(store, storage, V2())).job.job_id == "job.v3"
    assert (await store.status("job")).current_version == 3

"""R6, K1: stored pages are read again as a new version, with no network, and what is different is told exactly."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swath import HttpScraper, Pages, scraper
from swath.backends.clock import SystemClock
from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.result import Artifact
from swath.domain.result_versions import version_job_id
from swath.domain.storage_keys import Layout, PackLocation
from swath.domain.transitions import ItemState, JobState
from swath.pipeline.extract.stored_pages import has_pages
from swath.pipeline.finish.deletion import Remover, mark_for_deletion
from swath.pipeline.formats.artifacts import parse_metadata
from swath.pipeline.formats.stored_files import read_item_files
from swath.pipeline.results.verify.verifier import verify
from swath.pipeline.results.versions.diff import DiffExample, FieldDiff, read_diff
from swath.pipeline.results.versions.lifecycle import (
    VersionEnd,
    VersionRequest,
    begin_version,
    load_version,
    use_version,
    versions_of,
)
from swath.ports.clock import Clock
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store
from tests.unit.pipeline.results.reextracting import V1, V2, Parcels, make_version, owner_of, parcels, scraped, work_on

pytestmark = pytest.mark.req("R6", "K1")

NOW = 1_750_000_000.0


@pytest.fixture
def clock() -> Clock:
    return SystemClock()


async def data_of(store: Store, storage: ResultStorage, job_id: str) -> dict[str, Any]:
    found = {}
    for record in await store.items(job_id):
        files = await read_item_files(storage, job_id, record.item_id, record.artifacts)
        found[record.item_id] = msgspec.json.decode(files["data.json"]) if "data.json" in files else None
    return found


async def test_pages_are_read_again_and_every_difference_is_counted(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    items = [*parcels(*range(1, 13)), {"n": 90, "odd": "gone"}, {"n": 91, "odd": "refused"}]
    first = await scraped(store, storage, layout, items)
    assert (first.counts.success, first.counts.not_found, first.failures) == (12, 1, {"internal": 2})
    made = await make_version(store, storage, V2())
    assert (made.state, made.counts.success, made.counts.total) == (JobState.COMPLETED, 12, 12)
    assert (made.job.job_id, made.job.extracts, made.job.layout) == ("job.v2", "job", Layout.WARC)
    before, after = await store.items("job"), await store.items("job.v2")
    assert [(one.seq, one.item_id, one.input) for one in after] == [
        (one.seq, one.item_id, one.input) for one in before[:12]
    ]
    expected = {
        f"p{n}": {"owner": owner_of(n), "tax": {"due": n + 0.5}, "pages": ["extra page", "html"]} for n in range(1, 13)
    }
    assert await data_of(store, storage, "job.v2") == expected
    assert {(one.scraper_version, one.attempts[0].requests, one.attempts[0].bytes) for one in after} == {("2", 0, 0)}
    assert (await store.status("job")).current_version == 2
    assert (await verify(store, storage, "job.v2")).ok
    assert (await verify(store, storage, "job")).ok
    diff = await read_diff(storage, "job.v2")
    assert diff is not None
    assert (diff.version, diff.former_version, diff.items, diff.same_items) == (2, 1, 12, 0)
    assert (diff.gained, diff.gone, diff.still_none, diff.unreadable) == (1, {}, 0, 0)
    filled = [DiffExample(f"p{n}", None, ["extra page", "html"]) for n in (1, 2, 3)]
    assert diff.fields == {
        "owner": FieldDiff(same=11, filled=1, examples={"filled": [DiffExample("p8", None, "Owner 8")]}),
        "tax.due": FieldDiff(
            changed=11,
            filled=1,
            examples={
                "changed": [DiffExample(f"p{n}", f"{n}.50", n + 0.5) for n in (1, 2, 3)],
                "filled": [DiffExample("p8", None, 8.5)],
            },
        ),
        "pages": FieldDiff(filled=12, examples={"filled": filled}),
        "note": FieldDiff(lost=11, examples={"lost": [DiffExample(f"p{n}", "old", None) for n in (1, 2, 3)]}),
    }


async def test_the_end_of_a_version_goes_through_its_items_once(
    store: Store, storage: ResultStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the manifests and for the diff, which the other half of the rows is read for."""
    await scraped(store, storage, Layout.WARC, parcels(*range(1, 8)))
    begun = await begin_version(store, NOW, "job", VersionRequest(scraper=V2()))
    await load_version(store, begun, lambda _: None)
    rows, read = dict.fromkeys(("job", "job.v2"), 0), store.items

    async def counted(job_id: str, after: int = 0, limit: int = 1_000) -> list[ItemRecord]:
        found = await read(job_id, after, limit)
        rows[job_id] += len(found)
        return found

    monkeypatch.setattr(store, "items", counted)
    made = await work_on(store, storage, V2(), "job.v2")
    assert made.state is JobState.COMPLETED
    assert rows == {"job": 2 * 7, "job.v2": 7}  # of the scraped job for its pages, and for what readers got so far


BEFORE = {"o": [1, 2], "p": "{}", "z": {"a": {}}, "n": [1, {"a": 2, "b": 0}], "t": [1], "long": [8] * 200, "e": []}
AFTER = {"o": "[1,2]", "p": {}, "z": {"a": "{}"}, "n": [1.0, {"b": 0, "a": 2}], "t": [True], "long": [9] * 200}


@scraper("parcels", version="2")
class Lists(Parcels):
    """Has lists and an empty object."""

    def extract(self, pages: Pages) -> Any:
        return BEFORE


@scraper("parcels", version="3")
class Texts(Parcels):
    """Has texts that read like them."""

    def extract(self, pages: Pages) -> Any:
        return AFTER


async def test_a_list_that_becomes_text_is_a_change(store: Store, storage: ResultStorage, layout: Layout) -> None:
    await scraped(store, storage, layout, parcels(1))
    await make_version(store, storage, Lists())
    await make_version(store, storage, Texts())
    diff = await read_diff(storage, "job.v3")
    assert diff is not None
    cut = [f"[{','.join([digit] * 200)}"[:199] + "…" for digit in "89"]
    assert diff.fields == {
        "o": FieldDiff(changed=1, examples={"changed": [DiffExample("p1", [1, 2], "[1,2]")]}),
        "p": FieldDiff(lost=1, examples={"lost": [DiffExample("p1", "{}", {})]}),
        "z.a": FieldDiff(filled=1, examples={"filled": [DiffExample("p1", {}, "{}")]}),
        "n": FieldDiff(same=1),
        "t": FieldDiff(changed=1, examples={"changed": [DiffExample("p1", [1], [True])]}),
        "long": FieldDiff(changed=1, examples={"changed": [DiffExample("p1", *cut)]}),
    }
    assert (diff.items, diff.same_items) == (1, 0)


async def test_many_leases_and_groups_give_the_same(store: Store, storage: ResultStorage, layout: Layout) -> None:
    numbers = [n for n in range(1, 340) if n % 8]
    await scraped(store, storage, layout, parcels(*numbers))
    made = await make_version(store, storage, V2())
    assert (made.state, made.counts.success) == (JobState.COMPLETED, len(numbers))
    assert {item_id: one["owner"] for item_id, one in (await data_of(store, storage, "job.v2")).items()} == {
        f"p{n}": owner_of(n) for n in numbers
    }
    diff = await read_diff(storage, "job.v2")
    assert diff is not None
    assert (diff.items, diff.fields["owner"].same, diff.fields["note"].lost) == (len(numbers),) * 3


async def test_a_version_says_of_its_pages_what_the_scrape_did(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    """Which bytes a record was read from, though they are not held for long and not stored again."""
    await scraped(store, storage, layout, parcels(1))
    await make_version(store, storage, V2())
    told = []
    for job_id in ("job", "job.v2"):
        (record,) = await store.items(job_id)
        files = await read_item_files(storage, job_id, record.item_id, record.artifacts)
        told.append({page.name: (page.sha256, page.size) for page in parse_metadata(files["metadata.json"]).pages})
        assert (set(files) == {"metadata.json", "data.json"}) is (job_id == "job.v2")
    assert told[0] == told[1]
    assert min(size for _, size in told[0].values()) > 0


async def test_items_that_the_current_version_lacks_are_compared_with_the_first(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    await scraped(store, storage, layout, parcels(1, 2, 3))
    await make_version(store, storage, V2(), sample=1)
    await store.set_current("job", 2)  # as no person can
    await make_version(store, storage, V2())
    diff = await read_diff(storage, "job.v3")
    assert diff is not None
    assert (diff.former_version, diff.items, diff.same_items) == (2, 3, 1)


async def test_the_next_version_is_compared_with_the_one_that_is_current(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    await scraped(store, storage, layout, parcels(1, 2, 3))
    await make_version(store, storage, V2())
    await make_version(store, storage, V2())
    diff = await read_diff(storage, "job.v3")
    assert diff is not None
    assert (diff.former_version, diff.same_items, diff.items) == (2, 3, 3)
    await use_version(store, "job", 1)
    await make_version(store, storage, V2())
    again = await read_diff(storage, "job.v4")
    assert again is not None
    assert (again.former_version, again.same_items, (await store.status("job")).current_version) == (1, 0, 4)


@scraper("parcels", version="3")
class Worse(Parcels):
    """Breaks on one page."""

    def extract(self, pages: Pages) -> Any:
        if pages.main.css("b")[0].text() == owner_of(2):
            raise ValueError("a bug")
        return {"owner": pages.main.css("b")[0].text()}


async def test_a_version_that_lacks_a_record_is_not_given_to_readers_by_itself(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    await scraped(store, storage, layout, parcels(1, 2, 3, 8))
    made = await make_version(store, storage, Worse())
    assert (made.state, made.failures) == (JobState.PARTIALLY_COMPLETED, {"internal": 1})
    diff = await read_diff(storage, "job.v2")
    assert diff is not None
    assert (diff.gone, diff.gained) == ({"internal": 1}, 1)
    assert "a bug" in str(diff.gone_examples["internal"][0].after)
    assert (await store.status("job")).current_version == 1
    assert (await use_version(store, "job", 2)).current_version == 2


async def test_what_failed_before_and_still_fails_keeps_nobody_from_the_new_version(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    await scraped(store, storage, layout, parcels(1, 8))
    made = await make_version(store, storage, V1())
    assert (made.state, made.failures) == (JobState.PARTIALLY_COMPLETED, {"internal": 1})
    diff = await read_diff(storage, "job.v2")
    assert diff is not None
    assert (diff.gone, diff.still_none, (await store.status("job")).current_version) == ({}, 1, 2)


@pytest.mark.parametrize(("wanted", "taken"), [(1, 1), (4, 4), (10, 10), (50, 10)])
async def test_a_sample_is_spread_and_never_becomes_current(
    store: Store, storage: ResultStorage, layout: Layout, wanted: int, taken: int
) -> None:
    items = [*parcels(*range(11, 16)), *({"n": 50 + n, "odd": "gone"} for n in range(5)), *parcels(*range(21, 26))]
    await scraped(store, storage, layout, items)
    made = await make_version(store, storage, V2(), sample=wanted)
    assert (made.state, made.counts.total) == (JobState.COMPLETED, taken)
    seqs = [one.seq for one in await store.items("job.v2")]
    assert {one.item_id for one in await store.items("job.v2")} <= {f"p{n}" for n in [*range(11, 16), *range(21, 26)]}
    assert wanted == 1 or (min(seqs) <= 10 and max(seqs) > 20)
    assert (await store.status("job")).current_version == 1
    with pytest.raises(BadInput, match="sample"):
        await use_version(store, "job", 2)


async def test_one_that_was_broken_off_is_taken_up_wherever_it_was(
    store: Store, storage: ResultStorage, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swath.pipeline.results.versions.lifecycle.BATCH_ITEMS", 4)
    await scraped(store, storage, layout, parcels(*(n for n in range(1, 20) if n % 8)))
    wish = VersionRequest(scraper=V2())
    begun = await begin_version(store, NOW, "job", wish)
    heard: list[int] = []

    def dies(items: int) -> None:
        heard.append(items)
        if len(heard) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await load_version(store, begun, dies)
    again = await begin_version(store, NOW + 60, "job", wish)
    assert (again.job, again.counts.total) == (begun.job, 8)
    assert (await load_version(store, again, heard.append)).counts.total == 17
    assert (heard, (await store.status("job")).versions) == ([4, 8, 12, 16, 17], 2)
    other = await begin_version(store, NOW, "job", VersionRequest(scraper=V2(), sample=3))
    assert other.job.job_id == "job.v3"
    ended = await work_on(store, storage, V2(), "job.v2")
    assert ended.counts.success == 17
    assert (await begin_version(store, NOW, "job", wish)).job.job_id == "job.v4"  # that one has ended


async def test_damage_of_one_page_costs_its_item_only(store: Store, storage: ResultStorage, layout: Layout) -> None:
    await scraped(store, storage, layout, parcels(1, 2, 3))
    (hit,) = [one for one in await store.items("job") if one.item_id == "p2"]
    page = next(one for one in hit.artifacts if "html" in one.key and "extra" not in one.key)
    packed = PackLocation.of(page.key)
    key = page.key if packed is None else packed.pack
    whole = bytearray(await storage.get("job", key))
    place = len(whole) // 2 if packed is None else packed.start + packed.length // 2
    whole[place] ^= 0xFF
    await storage.put("job", {key: bytes(whole)})
    made = await make_version(store, storage, V2())
    assert (made.counts.success, made.failures) == (2, {"internal": 1})
    (failed,) = [one for one in await store.items("job.v2") if one.failure is not None]
    assert failed.item_id == "p2"
    assert failed.failure is not None
    assert "swath jobs verify" in failed.failure.message


async def refusal(store: Store, made: HttpScraper, job_id: str = "job") -> str:
    with pytest.raises((BadInput, Conflict, UnknownName)) as refused:
        await load_version(store, await begin_version(store, NOW, job_id, VersionRequest(scraper=made)), lambda _: None)
    assert "\n" not in str(refused.value)
    return str(refused.value)


async def test_what_cannot_be_read_again_is_refused_in_one_line(store: Store, storage: ResultStorage) -> None:
    await scraped(store, storage, Layout.FILES, parcels(1), keep="data")
    assert "no stored pages" in await refusal(store, V2())
    with pytest.raises(UnknownName):
        await store.status("job.v2")
    assert "no extract" in await refusal(store, Parcels())
    await scraped(store, storage, Layout.FILES, parcels(1), "kept")
    await make_version(store, storage, V2(), "kept")
    assert "is a version of job 'kept'" in await refusal(store, V2(), "kept.v2")
    await store.submit(msgspec.structs.replace((await store.status("kept")).job, job_id="open"))
    assert "when it has ended" in await refusal(store, V2(), "open")
    await store.delete("kept")
    assert "deleted" in await refusal(store, V2(), "kept")


async def test_versions_are_listed_with_who_made_them(store: Store, storage: ResultStorage, layout: Layout) -> None:
    await scraped(store, storage, layout, parcels(1, 2))
    await make_version(store, storage, V2())
    await store.add_version("job")  # whoever counted it died
    await make_version(store, storage, Worse(), sample=1)
    found = await versions_of(store, await store.status("job"))
    assert [(one.number, one.scraper_version, one.current, one.sample) for one in found] == [
        (1, "1", False, False),
        (2, "2", True, False),
        (4, "3", False, True),
    ]
    with pytest.raises(BadInput, match="not there any more"):
        await use_version(store, "job", 3)


async def gone(store: Store, storage: ResultStorage, *job_ids: str) -> bool:
    for job_id in job_ids:
        with pytest.raises(UnknownName):
            await store.status(job_id)
        assert [key async for key in storage.keys(job_id)] == []
    return True


async def test_nothing_of_a_deleted_job_is_left_in_its_versions(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    await scraped(store, storage, layout, parcels(1, 2))
    await make_version(store, storage, V2())
    await make_version(store, storage, V2(), sample=1)
    loading = await begin_version(store, NOW, "job", VersionRequest(scraper=Worse()))
    assert loading.state is JobState.LOADING
    await scraped(store, storage, layout, parcels(1), "job.v5")  # somebody's own, whatever it is called
    await mark_for_deletion(store, "job")
    assert await Remover(store, storage, SystemClock(), "r", job_id="job").run_once() == "job"
    assert await gone(store, storage, "job", "job.v2", "job.v3", "job.v4")
    assert (await store.status("job.v5")).counts.success == 1


async def test_a_version_that_readers_get_is_not_deleted_under_them(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    await scraped(store, storage, layout, parcels(1, 2))
    await make_version(store, storage, V2())
    with pytest.raises(Conflict, match="swath jobs use job --version 1"):
        await mark_for_deletion(store, "job.v2")
    await store.delete("job.v2")  # by a way that does not ask
    assert await Remover(store, storage, SystemClock(), "r").run_once() == "job.v2"
    assert (await store.status("job")).current_version == 1
    await make_version(store, storage, V2())
    await use_version(store, "job", 1)
    await mark_for_deletion(store, "job.v3")
    assert await Remover(store, storage, SystemClock(), "r").run_once() == "job.v3"
    assert await gone(store, storage, "job.v2", "job.v3")
    assert (await verify(store, storage, "job")).ok


async def test_a_job_is_deleted_after_a_version_of_it_that_still_runs_has_ended(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    await scraped(store, storage, layout, parcels(1, 2))
    begun = await begin_version(store, NOW, "job", VersionRequest(scraper=V2()))
    await load_version(store, begun, lambda _: None)
    with pytest.raises(Conflict, match=r"cancel job 'job\.v2' first"):
        await mark_for_deletion(store, "job")
    await store.delete("job")  # as a retention does
    assert await Remover(store, storage, SystemClock(), "r").run_once() is None
    assert (await store.status("job.v2")).stopping is not None
    ended: JobStatus = await work_on(store, storage, V2(), "job.v2")
    assert ended.state is JobState.CANCELLED
    assert await Remover(store, storage, SystemClock(), "r").run_once() == "job"
    assert await gone(store, storage, "job", "job.v2")


def test_names_of_versions_fit_and_do_not_meet() -> None:
    assert (version_job_id("x", 1), version_job_id("x", 12)) == ("x", "x.v12")
    long = ["a" * 200, "a" * 199 + "b"]
    names = {version_job_id(job_id, number) for job_id in long for number in (2, 3)}
    assert len(names) == 4
    assert {len(name) for name in names} == {200}


async def test_an_ending_that_is_repeated_leaves_the_diff_as_it_was(
    store: Store, storage: ResultStorage, layout: Layout
) -> None:
    """Whoever ends the job may die after the pointer has moved; the next one must not compare it with itself."""
    await scraped(store, storage, layout, parcels(1, 2))
    made = await make_version(store, storage, V2())
    first = await read_diff(storage, "job.v2")
    assert await VersionEnd(store, storage)(made) is None
    again = await read_diff(storage, "job.v2")
    assert again == first
    assert again is not None
    assert again.former_version == 1


@pytest.mark.parametrize(
    ("files", "has"),
    [
        (("html.html.gz", "metadata.json"), True),
        (("first.html",), True),
        (("refused.html", "metadata.json"), False),
        (("refused.html.gz", "html.html"), True),
        (("not-refused.html",), True),
        (("bill.pdf", "data.json"), False),
    ],
)
def test_an_answer_that_was_no_page_is_nothing_to_read(files: tuple[str, ...], has: bool) -> None:
    for where in ("items/p1/", "items/p1/~7/", "packs/7.warc.gz@0+5/"):
        artifacts = tuple(Artifact(where + name, 5, "") for name in files)
        record = ItemRecord(seq=1, item_id="p1", input={}, state=ItemState.SUCCESS, artifacts=artifacts)
        assert has_pages(record) is has

"""Exports hold the current version, and of items that it does not have what version 1 has."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from swath.domain.execution_policy import Keep
from swath.domain.item import Item
from swath.domain.result_versions import version_job_id
from swath.domain.storage_keys import Layout
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.results.export.exporter import Export, ExportFormat, ExportRequest
from swath.ports.job_store import ItemBatch
from swath.ports.result_storage import ResultStorage
from tests.contract.suites.builders import Store, new_job
from tests.support.clock import FakeClock
from tests.unit.pipeline.results.stored_jobs import NOT_FOUND, end_items, stored_job

DATA = [{"n": 1}, {"n": 2}, NOT_FOUND, {"n": 4}]


async def make_version(store: Store, storage: ResultStorage, layout: Layout) -> None:
    """As re-extraction does: the same rows but for the one that was not found, and no pages kept."""
    newer = version_job_id("job", await store.add_version("job"))
    job = new_job(newer, limit=100, created_at=1_750_000_000.0)
    policy = job.policy.model_copy(update={"keep": Keep.DATA})
    job = msgspec.structs.replace(job, layout=layout, extracts="job", policy=policy, scraper_id="second")
    await store.submit(job)
    items = tuple(Item(seq, f"item-{seq}", {"parcel": f"p{seq}", "n": seq}) for seq in (1, 2, 4))
    await store.load(newer, ItemBatch(0, 1, 4, "digest", items))
    await store.seal(newer, 1)
    await end_items(store, storage, [{"m": 10}, {"m": 20}, None, {"m": 40}], newer)
    assert await Finisher(store, store, storage, FakeClock(), "finisher").run_once() is not None
    await store.set_current("job", 2)


async def exported(store: Store, storage: ResultStorage, target: Path, form: ExportFormat) -> None:
    wish = ExportRequest(form, everything=True)
    await Export(store, storage, await store.status("job"), wish).to_file(target)


@pytest.mark.req("R5", "R6")
async def test_rows_are_those_of_the_current_version(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path
) -> None:
    await stored_job(store, storage, DATA, layout)
    await make_version(store, storage, layout)
    await exported(store, storage, tmp_path / "new.jsonl", ExportFormat.JSONL)
    lines = [json.loads(line) for line in (tmp_path / "new.jsonl").read_text().splitlines()]
    told = [line.pop("_provenance") for line in lines]
    assert lines == [{"m": 10}, {"m": 20}, {}, {"m": 40}]
    assert {one["job_id"] for one in told} == {"job"}
    assert [one["version"] for one in told] == [2, 2, 1, 2]
    assert [one["scraper_id"] for one in told] == ["second", "second", "example-mock", "second"]
    assert (told[2]["outcome"], told[0]["proxy_tier"]) == ("not_found", "datacenter")
    await store.set_current("job", 1)
    await exported(store, storage, tmp_path / "old.jsonl", ExportFormat.JSONL)
    first = json.loads((tmp_path / "old.jsonl").read_text().splitlines()[0])
    assert (first["n"], first["_provenance"]["version"]) == (1, 1)


@pytest.mark.req("R1", "R5", "R6")
async def test_files_have_the_pages_of_the_first_and_the_data_of_the_current_version(
    store: Store, storage: ResultStorage, layout: Layout, tmp_path: Path
) -> None:
    await stored_job(store, storage, DATA, layout)
    await exported(store, storage, tmp_path / "old", ExportFormat.FILES)
    await make_version(store, storage, layout)
    await exported(store, storage, tmp_path / "new", ExportFormat.FILES)
    old, new = tmp_path / "old/items/item-1", tmp_path / "new/items/item-1"
    assert (new / "html.html.gz").read_bytes() == (old / "html.html.gz").read_bytes()
    assert json.loads((new / "data.json").read_bytes()) == {"m": 10}
    assert json.loads((new / "metadata.json").read_bytes())["pages"][0]["file"] == "html.html.gz"
    assert not (tmp_path / "new/items/item-3/data.json").exists()
    assert (tmp_path / "new/items/item-3/html.html.gz").exists()

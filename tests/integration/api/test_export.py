"""R5 over HTTP: every format, unable to do anything, a few at once, and whole or not at all."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import sqlite3
import stat
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # it has no types
import pytest

from swath.domain.storage_keys import Layout
from swath.entrypoints.api import downloads
from swath.pipeline.results.export.exporter import Export
from tests.integration.api.running import Api
from tests.integration.api.test_download import INERT
from tests.unit.pipeline.results.stored_jobs import NOT_FOUND, TIMED_OUT, load, stored_job

pytestmark = pytest.mark.req("R5", "I2")

DATA = [{"parcel": f"p{n}", "owner": {"name": "=1+1"}} for n in range(1, 51)] + [NOT_FOUND, TIMED_OUT]
TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
    "sqlite": "application/vnd.sqlite3",
    "files": "application/x-tar",
}


@pytest.fixture
async def job(api: Api) -> None:
    await stored_job(api.services.store, api.services.storage, DATA, Layout.WARC)


def names(form: str, content: bytes, folder: Path) -> list[str]:
    """The owners' names, by the reader of each format."""
    if form == "csv":
        return [row["owner.name"] for row in csv.DictReader(io.StringIO(content.decode(), newline=""))]
    if form == "jsonl":
        return [json.loads(line)["owner"]["name"] for line in content.splitlines()]
    if form == "files":
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            files = {member.name: archive.extractfile(member) for member in archive}
        return [json.loads(file.read())["owner"]["name"] for key, file in files.items() if file and "/data.json" in key]
    path = folder / f"read.{form}"
    path.write_bytes(content)
    if form == "parquet":
        return [row["owner.name"] for row in pq.read_table(path).to_pylist()]
    with sqlite3.connect(path) as db:
        found = [name for (name,) in db.execute('SELECT "owner.name" FROM records')]
    db.close()
    return found


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("form", TYPES)
async def test_every_format_is_answered_to_be_saved(
    api: Api, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, to_part = list[str](), Export.to_part

    async def noted(self: Export, path: Path) -> int:
        made.append(f"{path.parent} {stat.S_IMODE(path.stat().st_mode):o}")
        return await to_part(self, path)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Export, "to_part", noted)
    answer = await api.client.get("/jobs/job/export", params={"format": form})
    assert answer.status_code == 200, answer.text
    assert {header: answer.headers.get(header) for header in INERT} == INERT
    assert answer.headers["content-type"] == TYPES[form]
    assert answer.headers["content-disposition"] == f'attachment; filename="job.{"tar" if form == "files" else form}"'
    assert names(form, answer.content, tmp_path) == ["'=1+1" if form == "csv" else "=1+1"] * 50
    assert made == ([] if form in ("csv", "jsonl", "files") else [f"{tmp_path} 600"])
    assert list(tmp_path.glob(".swath-export*")) == []


@pytest.mark.usefixtures("job")
async def test_options(api: Api) -> None:
    raw = await api.client.get("/jobs/job/export", params={"format": "csv", "raw": "true", "state": "all"})
    rows = list(csv.DictReader(io.StringIO(raw.text, newline="")))
    assert rows[0]["owner.name"] == "=1+1"
    assert [row["_state"] for row in rows[-2:]] == ["success", "failed"]


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("path", "status", "code", "told"),
    [
        ("/jobs/job/export", 422, "validation_error", "format"),
        ("/jobs/job/export?format=xml", 422, "validation_error", "'csv', 'jsonl', 'parquet', 'sqlite' or 'files'"),
        ("/jobs/job/export?format=csv&colour=red", 422, "validation_error", "is not known"),
        ("/jobs/jib/export?format=csv", 404, "job_not_found", "did you mean 'job'"),
        ("/jobs/open/export?format=csv", 409, "results_not_ready", "is pending"),
    ],
)
async def test_mistakes(api: Api, path: str, status: int, code: str, told: str) -> None:
    await load(api.services.store, "open", [("a", {})], Layout.FILES)
    answer = await api.client.get(path)
    error: dict[str, Any] = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert told in error["message"]
    partial = await api.client.get("/jobs/open/export?format=jsonl&partial=true")
    assert (partial.status_code, partial.content) == (200, b"")


@pytest.mark.usefixtures("job")
async def test_damage_before_the_first_byte_is_told(api: Api) -> None:
    for pack in [path async for path in api.services.storage.keys("job", "packs/")]:
        await api.services.storage.remove("job", pack)
    answer = await api.client.get("/jobs/job/export", params={"format": "csv"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")


@pytest.mark.usefixtures("job")
async def test_only_a_few_are_made_at_once_and_places_come_back(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "EXPORT_WAIT_SECONDS", 0.2)
    gate, entered, survey = asyncio.Event(), asyncio.Semaphore(0), Export._survey

    async def waits(self: Export) -> Any:
        entered.release()
        await gate.wait()
        return await survey(self)

    monkeypatch.setattr(Export, "_survey", waits)

    async def ask() -> int:
        return (await api.client.get("/jobs/job/export", params={"format": "csv"})).status_code

    held = [asyncio.create_task(ask()) for _ in range(downloads.MAX_EXPORTS)]
    for _ in held:
        await entered.acquire()
    assert await ask() == 429
    gate.set()
    assert await asyncio.gather(*held) == [200] * downloads.MAX_EXPORTS
    assert await ask() == 200

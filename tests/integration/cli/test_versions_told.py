"""R6, R8: what `swath jobs versions`, `use` and `item` say of versions that lack something."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swath import Pages, scraper
from swath.bootstrap.services import Services, open_services
from swath.domain.errors import BadInput
from swath.domain.storage_keys import Layout
from swath.entrypoints.cli.jobs.show import show_item
from swath.entrypoints.cli.jobs.versions import print_diff, show_versions, use_job_version
from swath.entrypoints.cli.run import print_current_version, run_job
from swath.entrypoints.cli.run_args import RunArgs
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.results.versions.diff import Diff, DiffExample, FieldDiff, read_diff
from swath.pipeline.results.versions.lifecycle import VersionRequest, begin_version, load_version
from swath.settings import Settings, load_settings
from tests.unit.pipeline.results.reextracting import V2, Parcels, make_version, scraped

pytestmark = pytest.mark.req("R6", "C2")

ITEMS: list[dict[str, Any]] = [{"n": 1}, {"n": 2}]


@scraper("parcels", version="3")
class Worse(Parcels):
    """Cannot read the second page."""

    def extract(self, pages: Pages) -> Any:
        if "2" in pages.main.css("h1")[0].text():
            raise ValueError("a bug")
        return {"owner": pages.main.css("b")[0].text()}


@scraper("parcels", version="4")
class Worst(Parcels):
    """Cannot read any page."""

    def extract(self, pages: Pages) -> Any:
        raise ValueError("a bug")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings({"SWATH_DATA": str(tmp_path)})


async def versions_told(settings: Settings, capsys: pytest.CaptureFixture[str]) -> str:
    await show_versions(settings, "job", None, as_json=False)
    return capsys.readouterr().out


async def no_diff(settings: Settings, number: int) -> str:
    with pytest.raises(BadInput) as refused:
        await show_versions(settings, "job", number, as_json=False)
    return str(refused.value)


async def begun(services: Services) -> None:
    await scraped(services.store, services.storage, Layout.FILES, ITEMS)
    await make_version(services.store, services.storage, Worse())
    running = await begin_version(services.store, 0.0, "job", VersionRequest(scraper=V2()))
    await load_version(services.store, running, lambda _: None)


async def test_a_diff_is_offered_where_there_is_one(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_services(settings) as services:
        await begun(services)
        assert "jobs versions job --diff 2\n" in await versions_told(settings, capsys)
        assert "version 3 of job 'job': it is pending" in await no_diff(settings, 3)
        assert "version 1 of job 'job': it is the first" in await no_diff(settings, 1)
        await services.store.delete("job.v2")
        assert await Remover(services.store, services.storage, services.clock, "r").run_once() == "job.v2"
        assert "version 2 of job 'job': it is not there any more" in await no_diff(settings, 2)
        assert "--diff" not in await versions_told(settings, capsys)


@pytest.mark.req("R8")
async def test_what_readers_of_a_version_will_miss_is_told_when_it_is_chosen(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_services(settings) as services:
        await scraped(services.store, services.storage, Layout.FILES, ITEMS)
        await make_version(services.store, services.storage, Worse())
    await use_job_version(settings, "job", 2, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "readers of job job get version 2 from now on",
        "1 item had a record and has none now (internal): p2",
    ]
    await show_item(settings, "job", "p2", None, as_json=False)
    out = capsys.readouterr().out
    (record,) = [line for line in out.splitlines() if line.startswith("record:")]
    assert "version 2, by parcels 3, generation 1, proxy none: failed, internal: " in record
    assert "a bug" in record
    await show_item(settings, "job", "p2", None, as_json=True)
    evidence = json.loads(capsys.readouterr().out)["evidence"]
    assert (evidence["state"], evidence["failure"]["kind"], evidence["version"]) == ("failed", "internal", 2)
    await show_item(settings, "job.v2", "p1", None, as_json=False)
    assert "items/p1/html.html.gz of job job\n" in capsys.readouterr().out


async def test_a_version_without_records_is_not_recommended(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_services(settings) as services:
        store, storage = services.store, services.storage
        await scraped(store, storage, Layout.FILES, ITEMS)
        worst, worse = [await make_version(store, storage, made()) for made in (Worst, Worse)]
        job = await store.status("job")
        print_current_version(job, worst, await read_diff(storage, "job.v2"))
        assert capsys.readouterr().out == "it has no records, so readers still get version 1\n"
        print_current_version(job, worse, await read_diff(storage, "job.v3"))
        told = capsys.readouterr().out
        assert told.startswith("it lacks records, so readers still get version 1; to use it: ")
        await make_version(store, storage, V2())
        await store.set_current("job", 1)
    await run_job(settings, RunArgs(job_id="job.v4"))
    assert "\nreaders still get version 1; to use it: swath jobs use job --version 4\n" in capsys.readouterr().out


@pytest.mark.req("R6")
def test_of_very_many_fields_that_changed_only_some_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    examples = {"changed": [DiffExample("a", "x", "y")]}
    fields = {f"f{n}": FieldDiff(changed=1, examples=examples) for n in range(25)}
    print_diff(Diff(job_id="job", version=2, former_version=1, items=1, fields=fields | {"z": FieldDiff(same=1)}))
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told if "changed: a:" in line] == [f"f{n}" for n in range(20)]
    assert told[-1] == "  examples of 5 more fields: swath jobs versions job --diff 2 --json"

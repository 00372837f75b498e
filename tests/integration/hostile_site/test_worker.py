"""A real worker on the embedded back end meets the hostile site: each item ends as the table says."""

import asyncio
from pathlib import Path

import pytest

from harness.fakes.hostile_site import BEHAVIOURS, Behaviour, HostileSite, Listening
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import open_services
from swath.bootstrap.workers import make_worker
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.item import Item, ItemRecord
from swath.domain.job import Job
from swath.domain.transitions import ItemState
from swath.pipeline.results.verify.verifier import verify
from swath.ports.job_store import ItemBatch
from swath.settings import Settings

pytestmark = pytest.mark.req("Z6", "H2", "H3")

SCRAPER = """
from swath import HttpScraper, Input, scraper

class In(Input):
    url: str
    filename: str = ""

@scraper("hostile", version="1")
class Hostile(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        if item.filename:
            await web.download(item.url, item.filename)
            return {}
        page = await web.get(item.url)
        page.css_first("h1")
        return page
"""
# What must end by a timeout ends soon; nothing else may end by one, however busy the machine is.
SHORT = {"connect_seconds": 0.5, "request_seconds": 1.0, "item_seconds": 60}
LONG_PATIENCE = {"connect_seconds": 60.0, "request_seconds": 120.0, "item_seconds": 240.0}
POLICY = {
    "retries": {"max_retries": 0},
    "throttling": {"max_concurrent_workers": 8},
    "circuit_breaker": {"min_requests": 100_000},
}
NO_LIMITS = "default: {rate: {tokens: 10000}, concurrency: 100, breaker: {window: 1000, failures: 1000}}"
# A worker does not know the authority of the site, so only what needs none can be told apart; and 32 MB each, in a
# process that also serves them, take longer than the rest together.
LONG = {"large", "endless-body", "endless-chunks"}
MET = [one for one in BEHAVIOURS.values() if (one.door in {Listening.PLAIN, Listening.BARE} and one.name not in LONG)]
NAMES = [
    "../../above",
    "/etc/above",
    "..",
    "a/../../b",
    "NUL",
    "a\\..\\b",
    ".hidden",
    "x" * 300,
    "metadata.json",
    "\u202egnp",
]


async def worked(
    folder: Path, site: HostileSite, inputs: list[dict[str, str]], timeouts: dict[str, float]
) -> list[ItemRecord]:
    """The items of a job that one worker has done, counted and verified."""
    folder.mkdir(exist_ok=True)
    (folder / "scraper.py").write_text(SCRAPER)
    (folder / "sites.yaml").write_text(NO_LIMITS)
    settings = Settings(
        data=folder / "data", sites=folder / "sites.yaml", allow_private=tuple(site.places), grace_seconds=2.0
    )
    job = Job(
        job_id="j",
        scraper_id="hostile",
        scraper_source=str(folder / "scraper.py"),
        policy=ExecutionPolicy.model_validate(POLICY | {"timeouts": timeouts}),
    )
    async with open_services(settings) as services:
        await services.store.submit(job)
        items = tuple(Item(number, f"item-{number}", input_) for number, input_ in enumerate(inputs, 1))
        await services.store.load("j", ItemBatch(0, 1, len(items), "d", items))
        await services.store.seal("j", 1)
        stop = asyncio.Event()
        async with make_worker(services, make_registry(settings)) as worker, asyncio.timeout(240):
            task = asyncio.create_task(worker.run(stop))
            while not (await services.store.status("j")).state.terminal:
                assert not task.done(), "the worker died"
                await asyncio.sleep(0.02)
            stop.set()
            await task
        report = await verify(services.store, services.storage, "j")
        assert report.ok, report.problems
        return await services.store.items("j")


def ends_as_told(one: Behaviour, record: ItemRecord) -> bool:
    if record.state is ItemState.FAILED:
        return record.failure is not None and record.failure.kind in one.kinds
    return record.state is ItemState.SUCCESS and not one.kinds


async def test_every_item_ends_as_the_table_says_and_the_good_ones_among_them_succeed(tmp_path: Path) -> None:
    async with HostileSite() as site:
        fine = {"url": site.fine(MET[0])}
        slow = [one for one in MET if FailureKind.TIMEOUT in one.kinds]
        quick = [one for one in MET if FailureKind.TIMEOUT not in one.kinds]
        late = await worked(tmp_path / "slow", site, [{"url": site.address(one)} for one in slow], SHORT)
        inputs = [input_ for one in quick for input_ in ({"url": site.address(one)}, fine)]
        mixed = await worked(tmp_path / "quick", site, inputs, LONG_PATIENCE)
        assert site.canary_hits == 0
    assert len(MET) > 100
    ended = zip(slow + quick, late + mixed[::2], strict=True)
    wrong = {one.name: record.failure or record.state for one, record in ended if not ends_as_told(one, record)}
    assert wrong == {}
    assert {record.state for record in mixed[1::2]} == {ItemState.SUCCESS}


async def test_downloads_stay_inside_their_folder_whatever_they_are_called(tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    async with HostileSite() as site:
        url = site.address(BEHAVIOURS["download-above"])
        records = await worked(tmp_path, site, [{"url": url, "filename": name} for name in NAMES], LONG_PATIENCE)
    assert {record.state for record in records} == {ItemState.SUCCESS}
    results = tmp_path / "data" / "results"
    made = {path for path in set(tmp_path.rglob("*")) - before if path.is_file() and path.read_bytes() == b"%PDF-1.4"}
    assert len(made) == len(NAMES)
    for path in made:
        assert path.resolve().is_relative_to(results.resolve())

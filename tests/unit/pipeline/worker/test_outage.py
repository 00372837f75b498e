"""Z9: the store locked and the disk really full while a job runs: it is said, nothing is lost, it goes on by itself."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from swath.backends.sqlite import database
from swath.backends.sqlite.store.store import SqliteStore
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, open_services
from swath.bootstrap.workers import make_worker
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import Item
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.transitions import JobState
from swath.pipeline.results.verify.verifier import verify
from swath.ports.job_store import ItemBatch
from swath.settings import Settings
from tests.support.bounds import HANGING_SECONDS

ITEMS = 300
TOLD_SECONDS = GOES_ON_SECONDS = HANGING_SECONDS  # `make chaos-aws ARGS=--outages` prints how long it really takes

SCRAPER = """
import asyncio
from swath import HttpScraper, Page, WebPage, scraper

@scraper("steady", version="1")
class Steady(HttpScraper):
    async def fetch(self, item, web):
        await asyncio.sleep(0.01)
        return WebPage(Page(name="html", url="http://site.test/", status=200, body=bytes(3_000)))

    def extract(self, pages):
        return {"text": "x" * 3_000}
"""


class Job300:
    """A job of some seconds in a folder, and a worker that runs it while the test makes trouble."""

    def __init__(self, services: Services, scraper: Path) -> None:
        self.services = services
        self.scraper = scraper

    async def load(self) -> None:
        policy = ExecutionPolicy.model_validate({"throttling": {"max_concurrent_workers": 4}})
        store = self.services.store
        await store.submit(Job(job_id="j", scraper_id="steady", scraper_source=str(self.scraper), policy=policy))
        items = tuple(Item(n, str(n), {}) for n in range(1, ITEMS + 1))
        await store.load("j", ItemBatch(0, 1, ITEMS, "d", items))
        await store.seal("j", 1)

    async def until(self, told: Callable[[JobStatus], bool], seconds: float) -> float:
        loop = asyncio.get_running_loop()
        since = loop.time()
        async with asyncio.timeout(seconds):
            while not told(await self.services.store.status("j")):
                await asyncio.sleep(0.01)
        return loop.time() - since


def _settings(folder: Path) -> Settings:
    return Settings(data=folder / "data", lease_seconds=0.6, heartbeat_seconds=0.2, grace_seconds=2.0)


@pytest.fixture
def scraper(tmp_path: Path) -> Path:
    path = tmp_path / "steady_scraper.py"
    path.write_text(SCRAPER)
    return path


@pytest.mark.req("Z9", "Z1")
async def test_a_locked_store_is_waited_for(tmp_path: Path, scraper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.2)  # so that locked for longer than that is not long
    async with open_services(_settings(tmp_path)) as services:
        job = Job300(services, scraper)
        await job.load()
        assert isinstance(services.store, SqliteStore)
        assert services.store._db._write_connection is not None
        services.store._db._write_connection.execute("PRAGMA busy_timeout = 200")
        stop = asyncio.Event()
        async with make_worker(services, make_registry(services.settings)) as worker:
            working = asyncio.create_task(worker.run(stop))
            await job.until(lambda status: status.counts.success > 20, 10)
            with closing(sqlite3.connect(services.store._db.path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                await job.until(lambda status: status.waiting_for is WaitingFor.STORE, TOLD_SECONDS)
                assert (await services.store.status("j")).state is JobState.RUNNING
                await asyncio.sleep(0.7)  # longer than the leases last
                stood = (await services.store.status("j")).counts.success
                other.execute("ROLLBACK")
            await job.until(lambda status: status.counts.success > stood, GOES_ON_SECONDS)
            await job.until(lambda status: status.state.terminal, 20)
            assert (await services.store.status("j")).waiting_for is None
            stop.set()
            await working
        await _all_is_there(services)


async def _all_is_there(services: Services) -> None:
    status = await services.store.status("j")
    assert (status.state, status.counts.success) == (JobState.COMPLETED, ITEMS)
    report = await verify(services.store, services.storage, "j")
    assert report.ok, report.problems
    for item in await services.store.items("j"):
        assert (item.tries.crashes, item.suspect) == (0, False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def _fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass
    return filler


@pytest.mark.req("Z9", "Z1", "Z2")
@pytest.mark.parametrize("done", [20, ITEMS], ids=["while items run", "while it ends"])
async def test_a_full_disk_is_waited_for(small_disk: Path, scraper: Path, done: int) -> None:
    async with open_services(_settings(small_disk)) as services:
        job = Job300(services, scraper)
        await job.load()
        stop = asyncio.Event()
        async with make_worker(services, make_registry(services.settings)) as worker:
            working = asyncio.create_task(worker.run(stop))
            await job.until(lambda status: status.counts.success >= done, 20)
            filler = _fill(small_disk)
            if not (await services.store.status("j")).state.terminal:  # else it was quicker than the disk was filled
                await job.until(lambda status: status.waiting_for is WaitingFor.DISK, TOLD_SECONDS)
                assert (await services.store.status("j")).state is JobState.RUNNING
                await asyncio.sleep(0.7)  # longer than the leases last
            stood = (await services.store.status("j")).counts.success
            filler.unlink()
            if stood < ITEMS:
                await job.until(lambda status: status.counts.success > stood, GOES_ON_SECONDS)
            await job.until(lambda status: status.state.terminal, GOES_ON_SECONDS)
            assert (await services.store.status("j")).waiting_for is None
            stop.set()
            await working
        await _all_is_there(services)

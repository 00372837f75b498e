"""A finisher in a process of its own that stops at a named point, and the others that go on without it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

import pytest

from harness import armed_cli
from swath.backends.clock import SystemClock
from swath.bootstrap.services import open_services
from swath.domain.item import RetrySelection
from swath.domain.result_versions import GENERATION_LABEL, SCRAPER_VERSION_LABEL, VERSION_LABEL, version_job_id
from swath.domain.storage_keys import Layout
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.results.versions.lifecycle import VersionEnd
from swath.pipeline.worker.rescue import Rescuer
from swath.ports.result_storage import ResultStorage
from swath.settings import load_settings
from tests.contract.suites.builders import Store
from tests.support import warm
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState
from tests.unit.pipeline.making import FAILED, Made, end_lease, load, page

__all__ = [
    "EVERYTHING",
    "ITEMS",
    "LateFinisher",
    "all_files",
    "delete",
    "end",
    "make_second_generation",
    "make_version",
    "near_clock",
    "run_again",
]

LEASE_SECONDS: Final = 60.0  # nothing runs out by itself while a busy machine is slow
PATIENCE_SECONDS: Final = 60.0
PART_ITEMS: Final = 2
EVERYTHING: Final = RetrySelection(since=0.0)
ITEMS: Final = {
    f"item/{number}": Made(how=FAILED)
    if number % 4 == 0
    else Made(data={"number": number}, pages=(page("html", b"<p>%d</p>" % number * 200),))
    for number in range(1, 13)
}


def near_clock() -> FakeClock:
    """Stands still, and shows about the same as the clock of a process."""
    real = SystemClock()
    return FakeClock(now=real.now(), boot=real.boot())


class LateFinisher:
    """A real process. `environment` names the back end, the point, and how the build is broken, if it is."""

    def __init__(self, environment: Mapping[str, str], *, deletes: bool = False) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
        act = _delete_job if deletes else _end_job
        self._process: ForkServerProcess = warm.SERVER.Process(
            target=act, args=({**kept, "SWATH_LEASE_SECONDS": str(LEASE_SECONDS), **environment},)
        )
        self._process.start()

    async def frozen(self) -> None:
        """Waits until it has stopped."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (state := self._state()) != "T":
            assert state is not None, "it ended, and never came to the point"
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    async def killed(self) -> None:
        """Waits until it has died at the point."""
        await asyncio.to_thread(self._process.join, PATIENCE_SECONDS)
        assert self._process.exitcode == armed_cli.KILLED

    async def wake(self) -> None:
        """Lets it go on to its end."""
        os.kill(self._process.pid or 0, signal.SIGCONT)
        await asyncio.to_thread(self._process.join, PATIENCE_SECONDS)
        assert self._process.exitcode == 0

    def close(self) -> None:
        """Also when a test fails."""
        self._process.kill()
        self._process.join()

    def _state(self) -> str | None:
        try:
            return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return None


def _end_job(environment: dict[str, str]) -> None:
    _arm(environment)
    asyncio.run(_run_finisher())


def _delete_job(environment: dict[str, str]) -> None:
    _arm(environment)
    asyncio.run(_run_remover())


def _arm(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    armed_cli.arm(os.environ)


async def _run_remover() -> None:
    async with open_services(load_settings(os.environ)) as services:
        await Remover(services.store, services.storage, services.clock, "late").run_once()


async def _run_finisher() -> None:
    async with open_services(load_settings(os.environ)) as services:
        store, storage = services.store, services.storage
        on_version = VersionEnd(store, storage)
        finisher = Finisher(store, store, storage, services.clock, "late", part_items=PART_ITEMS, on_version=on_version)
        await finisher.run_once()


async def run_again(store: Store, storage: ResultStorage, job_id: str = "job") -> None:
    """Ends all items that are waiting."""
    while (lease := await store.claim("worker", job_id)) is not None:
        await end_lease(store, storage, lease, ITEMS)


async def end(store: Store, storage: ResultStorage, clock: FakeClock) -> None:
    """Ends the job, after whoever had the right has lost it."""
    rescuer = Rescuer(store, storage, MemorySiteState(clock), clock, "other")
    on_version = VersionEnd(store, storage)
    finisher = Finisher(store, store, storage, clock, "other", part_items=PART_ITEMS, on_version=on_version)
    for _ in range(20):
        await rescuer.run_once()
        if await finisher.run_once() is not None:
            return
        clock.advance(LEASE_SECONDS / 2)
    pytest.fail("nobody can end the job")


async def delete(store: Store, storage: ResultStorage, clock: FakeClock) -> None:
    """Deletes the job, after whoever had the right has lost it."""
    rescuer = Rescuer(store, storage, MemorySiteState(clock), clock, "other")
    for _ in range(20):
        await rescuer.run_once()
        if await Remover(store, storage, clock, "other").run_once() is not None:
            return
        clock.advance(LEASE_SECONDS / 2)
    pytest.fail("nobody can delete the job")


async def make_second_generation(
    store: Store, storage: ResultStorage, clock: FakeClock, layout: Layout = Layout.FILES
) -> None:
    """A job of a second generation that only needs to be ended. It was cancelled, so that its first files are to be
    removed and one of its lists is empty now; and a dead worker has left a room behind."""
    await load(store, list(ITEMS), "job", layout)
    await run_again(store, storage)
    await end(store, storage, clock)
    await store.retry("job", EVERYTHING)
    await store.cancel("job")
    await storage.open_lease("job", 1_000_000)


async def make_version(store: Store, storage: ResultStorage, clock: FakeClock) -> str:
    """A version of a job's results that only needs to be ended; answers with the id of its job."""
    await load(store, list(ITEMS), "job", Layout.FILES)
    await run_again(store, storage)
    await end(store, storage, clock)
    number = await store.add_version("job")
    version = version_job_id("job", number)
    labels = {VERSION_LABEL: str(number), GENERATION_LABEL: "1", SCRAPER_VERSION_LABEL: "2"}
    await load(store, list(ITEMS), version, Layout.WARC, extracts="job", labels=labels)
    await run_again(store, storage, version)
    return version


async def all_files(storage: ResultStorage, job_id: str = "job") -> dict[str, bytes]:
    """All that is listed, with its bytes."""
    return {key: await storage.get(job_id, key) async for key in storage.keys(job_id)}

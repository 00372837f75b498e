"""Jobs end, and go, one after the other without a rest in between: a burst of small ones holds nobody up (J4, J5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import pytest

from swath import HttpScraper, Input, WebSession
from swath import scraper as declare
from swath.backends.clock import SystemClock
from swath.domain.lease import Lease
from swath.domain.transitions import JobState
from tests.contract.suites.builders import new_job, ready
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.worker.bare_worker import worker_of

JOBS = 12
SELDOM_SECONDS = 3_600.0


class In(Input):
    n: int


@declare("unasked", version="1")
class Unasked(HttpScraper):
    Input = In

    async def fetch(self, item: In, web: WebSession) -> None:
        raise AssertionError("these jobs have no items")


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
async def store(clock: SystemClock) -> MemoryStore:
    """Some jobs that are to be ended."""
    store = MemoryStore(clock, 30.0)
    for number in range(JOBS):
        await store.submit(new_job(f"job-{number}"))
        await store.cancel(f"job-{number}")
    return store


@asynccontextmanager
async def working(store: MemoryStore, clock: SystemClock) -> AsyncIterator[None]:
    """A worker that looks once, and then when it has a reason to."""
    stop = asyncio.Event()
    worker = worker_of(store, clock, Unasked(), housekeeping_seconds=SELDOM_SECONDS, removal_seconds=SELDOM_SECONDS)
    task = asyncio.create_task(worker.run(stop))
    async with asyncio.timeout(60):
        yield
    stop.set()
    await task


async def until(reached: Callable[[], Awaitable[bool]]) -> None:
    while not await reached():
        await asyncio.sleep(0.01)


@pytest.mark.req("J4", "J5", "N1")
async def test_many_jobs_end_in_one_go_and_are_deleted_in_another(store: MemoryStore, clock: SystemClock) -> None:
    async def ended() -> bool:
        return all(job.state is JobState.CANCELLED for job in await store.jobs(None, 100))

    async def gone() -> bool:
        return not await store.jobs(None, 100)

    async with working(store, clock):
        await until(ended)
    for number in range(JOBS):
        await store.delete(f"job-{number}")
    async with working(store, clock):
        await until(gone)


class Counting(MemoryStore):
    """Knows how often it was asked for work, and for a job to end."""

    claims = endings = 0

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        lease = await super().claim(worker_id, job_id, without)
        self.claims += lease is not None
        return lease

    async def claim_ending(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        self.endings += 1
        return await super().claim_ending(worker_id, job_id, without)


class Parcel(Input):
    parcel: str


@declare("brief", version="1")
class Brief(HttpScraper):
    """Finds nothing, soon."""

    Input = Parcel

    async def fetch(self, item: Parcel, web: WebSession) -> None:
        await asyncio.sleep(0.005)


@pytest.mark.req("J4")
async def test_nobody_asks_whether_a_job_is_done_of_which_it_has_items(clock: SystemClock) -> None:
    store, stop = Counting(clock, 30.0), asyncio.Event()
    await ready(store, "j", 300, limit=4)
    worker = worker_of(store, clock, Brief(), housekeeping_seconds=SELDOM_SECONDS)
    working = asyncio.create_task(worker.run(stop))
    async with asyncio.timeout(60):
        while not (await store.status("j")).state.terminal:
            await asyncio.sleep(0.01)
    stop.set()
    await working
    assert store.claims >= 6
    assert store.endings <= store.claims // 2, "once to begin with, and once when nothing was left"

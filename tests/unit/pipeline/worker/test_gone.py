"""The store is taken away for good while a worker runs items: it says so in single lines and leaves nothing running."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import pytest

from swath import HttpScraper, Input, WebSession
from swath import scraper as declare
from swath.backends.clock import SystemClock
from swath.domain.errors import UserError
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import EndedItem, HandedBackItem, Item
from swath.domain.job import Job
from swath.domain.lease import Lease, SlotGrant, SlotReport
from swath.ports.job_store import ItemBatch
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.worker.bare_worker import worker_of


class Goes(MemoryStore):
    """Raises `trouble` from the moment on that there is one."""

    trouble: Exception | None = None

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        if isinstance(self.trouble, UserError):
            raise self.trouble
        return await super().claim(worker_id, job_id, without)

    async def finish(
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        if self.trouble is not None:
            raise self.trouble
        return await super().finish(lease, ended, handed_back, report)


class In(Input):
    n: int


@declare("endless", version="1")
class Endless(HttpScraper):
    """Two items never end, the third does at once."""

    Input = In

    def __init__(self) -> None:
        self.running = 0

    async def fetch(self, item: In, web: WebSession) -> None:
        self.running += 1
        try:
            await asyncio.sleep(3_600 if item.n < 3 else 0.3)
        finally:
            self.running -= 1


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


async def loaded(clock: SystemClock) -> Goes:
    store = Goes(clock, 30.0)
    policy = ExecutionPolicy.model_validate({"throttling": {"max_concurrent_workers": 3}})
    await store.submit(Job(job_id="j", scraper_id="endless", policy=policy))
    await store.load("j", ItemBatch(0, 1, 3, "d", tuple(Item(n, str(n), {"n": n}) for n in (1, 2, 3))))
    await store.seal("j", 1)
    return store


@pytest.mark.req("Z9")
async def test_a_store_that_is_gone_is_told_in_one_line_a_lease(
    clock: SystemClock, caplog: pytest.LogCaptureFixture
) -> None:
    store, scraper, before = await loaded(clock), Endless(), asyncio.all_tasks()
    working = asyncio.create_task(worker_of(store, clock, scraper).run(asyncio.Event()))
    async with asyncio.timeout(60):
        while scraper.running < 3:
            await asyncio.sleep(0.01)
        store.trouble = UserError("there is no table")
        with pytest.raises(UserError, match="no table"):
            await working
        while scraper.running:
            await asyncio.sleep(0.01)
    told = [record for record in caplog.records if "broke off" in record.message]
    assert [record.message.partition(": ")[2] for record in told] == ["there is no table"]
    assert not any(record.exc_info for record in caplog.records)
    assert asyncio.all_tasks() <= before


@pytest.mark.req("Z9")
async def test_a_bug_is_told_with_its_traceback_and_the_items_of_the_lease_end(
    clock: SystemClock, caplog: pytest.LogCaptureFixture
) -> None:
    store, scraper, stop = await loaded(clock), Endless(), asyncio.Event()
    store.trouble = ZeroDivisionError()
    working = asyncio.create_task(worker_of(store, clock, scraper).run(stop))
    async with asyncio.timeout(60):
        while not any("broke off" in record.message and record.exc_info for record in caplog.records):
            await asyncio.sleep(0.01)
        while scraper.running:
            await asyncio.sleep(0.01)
        stop.set()
        await working

"""Storage that is slow: what was fetched and is not stored yet does not fill the memory of its worker (Z8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from swath import HttpScraper, Input, Page, WebPage, WebSession
from swath import scraper as declare
from swath.backends.clock import SystemClock
from swath.domain.result import Artifact
from swath.pipeline.worker.outcome_buffer import MAX_BUFFERED_BYTES
from swath.ports.result_storage import StagedItem
from tests.contract.suites.builders import ready
from tests.support.memory.results import MemoryResults
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.worker.bare_worker import worker_of

PAGE_BYTES = 4 * 1024 * 1024
BODY = bytes(PAGE_BYTES)
ITEMS = 100
LIMIT = 1  # makes for small leases, which end before much lies in each of them


class In(Input):
    parcel: str


@declare("large", version="1")
class Large(HttpScraper):
    """Counts its pages, all of which are one body, so that the test itself needs no memory."""

    Input = In
    fetched = 0

    async def fetch(self, item: In, web: WebSession) -> WebPage:
        Large.fetched += 1
        return WebPage(Page(name="html", url="http://site.test/", status=200, body=BODY))

    def extract(self, pages: object) -> dict[str, str]:
        return {}


@pytest.mark.req("Z8", "Z9", "Z10")
async def test_no_more_is_fetched_while_storage_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, stage = asyncio.Event(), MemoryResults.stage

    async def slow(
        self: MemoryResults, job_id: str, fence: int, items: Sequence[StagedItem]
    ) -> list[tuple[Artifact, ...]]:
        await gate.wait()
        return await stage(self, job_id, fence, items)

    monkeypatch.setattr(MemoryResults, "stage", slow)
    Large.fetched = 0
    clock = SystemClock()
    store = MemoryStore(clock, 30.0)
    await ready(store, items=ITEMS, limit=LIMIT)
    stop = asyncio.Event()
    working = asyncio.create_task(worker_of(store, clock, Large(), busy_seconds=0.01).run(stop))
    async with asyncio.timeout(60):
        while Large.fetched * PAGE_BYTES < MAX_BUFFERED_BYTES:
            await asyncio.sleep(0.01)
        for _ in range(100):  # it asks for more work some fifty times in this time
            await asyncio.sleep(0.01)
            assert Large.fetched * PAGE_BYTES <= 2 * MAX_BUFFERED_BYTES
        before = Large.fetched
        gate.set()
        while Large.fetched == before:
            await asyncio.sleep(0.01)
        stop.set()
        await working

"""B1, B6: items of a browser job start where a seat is free, and never more of them; the rest is left to others."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from swath import BrowserScraper, Input, scraper
from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Item
from swath.domain.job import Job, JobStatus
from swath.fetch.browser.request import BrowserRequest
from swath.fetch.http.messages import Request
from swath.fetch.http.page.attempt_output import AttemptOutput
from swath.observability.counters import FIGURES
from swath.ports.job_store import ItemBatch
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.worker.bare_worker import worker_of


class In(Input):
    url: str = "http://a.example/"


@scraper("seated", version="1")
class Seated(BrowserScraper):
    """Takes a moment."""

    Input = In

    async def fetch(self, item: In, browser: Any, /) -> None:
        await asyncio.sleep(0.02)


class Seats:
    """Two seats. Each is free only some time after its item has ended, as when a page is slow to close."""

    def __init__(self, broken: int = 0, late: float = 0.0) -> None:
        self.seats = 2
        self.broken = broken
        self.late = late
        self.bytes = 0
        self.reserved: set[int] = set()
        self.inside = self.most = self.visits = 0
        self.sites: list[Sequence[str]] = []
        self.on_free: Callable[[], None] = lambda: None

    def __call__(self, on_free: Callable[[], None]) -> Seats:
        self.on_free = on_free
        return self

    @property
    def free(self) -> int:
        return self.seats - self.inside - len(self.reserved)

    def pick(self, sites: Sequence[str]) -> tuple[int, int] | None:
        if self.free <= 0:
            return None
        self.sites.append(sites)
        self.visits += 1
        self.reserved.add(self.visits)
        return len(sites) - 1, self.visits  # the last one, so that the order is seen to be its own

    def give_back(self, ticket: int) -> None:
        self.reserved.discard(ticket)

    @asynccontextmanager
    async def visit(self, ticket: int, visit: BrowserRequest) -> AsyncIterator[AttemptOutput]:
        self.reserved.remove(ticket)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            if ticket <= self.broken:
                raise Failed(Failure.of(FailureKind.BROWSER_CRASH, "the browser has gone"))
            collected = AttemptOutput()
            collected.bytes = self.bytes
            visit.gate.leave(await visit.gate.enter(Request(url="http://a.example/")), None, None)
            yield collected
        finally:
            asyncio.get_running_loop().call_later(self.late, self._left)

    def _left(self) -> None:
        self.inside -= 1
        self.on_free()


async def _run(seats: Seats, items: int = 12) -> JobStatus:
    clock = SystemClock()
    store = MemoryStore(clock)
    policy = ExecutionPolicy.model_validate(
        {"throttling": {"max_concurrent_workers": 8}, "retries": {"base_delay_seconds": 0.01}}
    )
    await store.submit(Job(job_id="j", scraper_id="seated", policy=policy))
    rows = tuple(Item(n, str(n), {"url": f"http://{'ab'[n % 2]}.example/{n}"}) for n in range(1, items + 1))
    await store.load("j", ItemBatch(0, 1, items, "d", rows))
    await store.seal("j", 1)
    stop = asyncio.Event()
    running = asyncio.create_task(worker_of(store, clock, Seated(), seats).run(stop))
    try:
        async with asyncio.timeout(60):
            while not (status := await store.status("j")).state.terminal:
                await asyncio.sleep(0.02)
    finally:
        stop.set()
        await asyncio.wait_for(running, 60)
    return status


@pytest.mark.req("B1", "B6", "S3")
@pytest.mark.parametrize("late", [0.0, 0.05], ids=["at once", "later than its item"])
async def test_no_more_items_run_than_there_are_seats(late: float) -> None:
    seats = Seats(late=late)
    status = await _run(seats)
    assert status.counts.success == 12
    assert seats.most == 2
    assert seats.visits == 12
    assert not seats.reserved
    assert {"a.example", "b.example"} == {site for sites in seats.sites for site in sites}


@pytest.mark.req("O2")
async def test_bytes_of_browsers_are_counted_for_their_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FIGURES, "received_bytes", defaultdict(int))
    seats = Seats()
    seats.bytes = 1_000
    await _run(seats, items=3)
    assert FIGURES.received_bytes == {"default": 3_000}


@pytest.mark.req("B1", "H2")
async def test_a_browser_that_dies_costs_its_item_no_try(tmp_path: object) -> None:
    seats = Seats(broken=5)
    status = await _run(seats)
    assert status.counts.success == 12
    assert seats.visits == 17
    assert not seats.reserved


@pytest.mark.req("B1")
async def test_a_worker_without_browsers_leaves_the_job_to_others(caplog: pytest.LogCaptureFixture) -> None:
    clock = SystemClock()
    store = MemoryStore(clock)
    await store.submit(Job(job_id="j", scraper_id="seated"))
    await store.load("j", ItemBatch(0, 1, 1, "d", (Item(1, "1", {}),)))
    await store.seal("j", 1)
    stop = asyncio.Event()
    running = asyncio.create_task(worker_of(store, clock, Seated()).run(stop))
    async with asyncio.timeout(60):
        while "is left to other workers" not in caplog.text:
            await asyncio.sleep(0.02)
    stop.set()
    await asyncio.wait_for(running, 60)
    assert (await store.status("j")).counts.pending == 1

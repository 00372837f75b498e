"""A site that is left alone: its items wait, its job is not claimed, and after three failed probes it is given up."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from swath.backends.polling_queue import PollingQueue
from swath.domain.circuit_breaker import CircuitState
from swath.domain.errors import SiteUnavailable
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import Item
from swath.domain.job import Job, JobStatus, StopReason
from swath.domain.transitions import ItemState, JobState
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.messages import Request, Response
from swath.fetch.http.page.page import WebPage
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.worker.admission import JobHolds
from swath.pipeline.worker.parts import WorkerOptions, WorkerParts
from swath.pipeline.worker.worker import Worker
from swath.ports.job_store import ItemBatch
from swath.sdk import models
from swath.sdk.declaration import scraper as declare
from swath.sdk.scraper import HttpScraper
from tests.support.clock import FakeClock
from tests.support.memory.results import MemoryResults
from tests.support.memory.site_state import MemorySiteState
from tests.support.memory.store import MemoryStore
from tests.support.network import open_network

SITE, HEALTHY = "county.example", "healthy.example"


@declare("visit", version="1", sites=[SITE])
class Visit(HttpScraper):
    """One request for every item."""

    class Input(models.Input):
        host: str

    async def fetch(self, item: Any, web: WebSession) -> WebPage:
        return await web.get(f"http://{item.host}/")


class Broken:
    """A site that answers with one status, and counts."""

    def __init__(self) -> None:
        self.status = 500
        self.requests = 0

    async def send(self, request: Request) -> Response:
        self.requests += 1
        await asyncio.sleep(0)
        status = 200 if HEALTHY in request.url else self.status
        return Response(url=request.url, status=status, body=b"<p>here</p>")

    async def close(self) -> None:
        pass


class Room:
    """One worker on one job that needs one site."""

    def __init__(self, items: int = 40, **policy: Any) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock, lease_seconds=1e9)
        self.site = Broken()
        self.book = MemorySiteState(self.clock)
        self.network = open_network(
            self.site, self.clock, self.book, breaker={"window": 10, "failures": 5, "reopen_seconds": 120}
        )
        self.items = items
        self.policy = ExecutionPolicy.model_validate(
            {
                "retries": {"max_retries": 0},
                "circuit_breaker": {"min_requests": 1_000, "consecutive_failures": 1_000},
                **policy,
            }
        )

    async def load(self, sites: tuple[str, ...] = (SITE,), healthy_from: int = 1_000) -> None:
        """Items from that number on are at another site, which is well."""
        job = Job(job_id="j", scraper_id="visit", sites=sites, policy=self.policy)
        await self.store.submit(job)
        rows = tuple(
            Item(n, str(n), {"host": HEALTHY if n >= healthy_from else SITE}) for n in range(1, self.items + 1)
        )
        await self.store.load("j", ItemBatch(0, 1, self.items, "d", rows))
        await self.store.seal("j", 1)

    async def work(self, until: Callable[[JobStatus], bool], step_seconds: float = 1.0) -> JobStatus:
        """Lets the time run on until the job looks as it should."""
        storage = MemoryResults()
        registry: Any = type("Registry", (), {"get": lambda *_: Visit()})()
        worker = Worker(
            WorkerParts(
                book=self.store,
                queue=PollingQueue(self.clock),
                storage=storage,
                sites=self.book,
                clock=self.clock,
                registry=registry,
                network=self.network,
                finisher=Finisher(self.store, self.store, storage, self.clock, "w"),
                remover=Remover(self.store, storage, self.clock, "w"),
            ),
            WorkerOptions(worker_id="w", grace_seconds=2.0, report_seconds=0.05, housekeeping_seconds=0.02),
        )
        stop = asyncio.Event()
        working = asyncio.create_task(worker.run(stop))
        try:
            async with asyncio.timeout(60):
                while not until(status := await self.store.status("j")):
                    await asyncio.sleep(0.01)
                    self.clock.advance(step_seconds)
        finally:
            stop.set()
            await working
        return status


@pytest.fixture
async def room() -> Room:
    made = Room()
    await made.load()
    return made


def is_open(room: Room) -> bool:
    return room.book.glance(SITE).state is not CircuitState.CLOSED


@pytest.mark.req("D3")
async def test_items_of_a_site_whose_circuit_is_open_wait_without_burning_tries(room: Room) -> None:
    await room.work(lambda _: is_open(room), step_seconds=0.0)
    await room.work(lambda status: status.counts.queued + status.counts.in_progress == 0, step_seconds=0.0)
    reached = room.site.requests
    assert 5 <= reached <= 5 + 8, "what was under way when it opened, and nothing else"
    waiting = [item for item in await room.store.items("j") if item.state is ItemState.PENDING]
    assert len(waiting) == 40 - reached
    held = [item for item in waiting if item.not_before is not None]
    assert held, "they wait for the site, with a time"
    assert all(item.attempts == () for item in waiting)
    assert (await room.store.status("j")).circuit_opened is None


@pytest.mark.req("D3")
async def test_the_job_goes_on_when_a_probe_succeeds(room: Room) -> None:
    await room.work(lambda _: is_open(room), step_seconds=0.0)
    room.site.status = 200
    status = await room.work(lambda status: status.state.terminal, step_seconds=5.0)
    assert status.state is JobState.PARTIALLY_COMPLETED
    assert status.counts.failed + status.counts.success == 40
    assert status.counts.failed <= 13
    assert not is_open(room)


@pytest.mark.req("D3", "J4")
async def test_three_failed_probes_in_a_row_open_the_circuit_of_a_job_with_no_other_site(room: Room) -> None:
    status = await room.work(lambda status: status.stopping is not None or status.state.terminal, step_seconds=5.0)
    assert status.stopping is StopReason.CIRCUIT_OPEN
    assert status.circuit_opened == f"site {SITE} failed 3 probes in a row"
    assert room.site.requests <= 13 + 3, "after it opened nothing but the probes was sent"


@pytest.mark.req("D3")
async def test_a_job_that_names_no_site_is_given_up_too_when_nothing_else_is_left() -> None:
    room = Room(items=12)
    await room.load(sites=())
    status = await room.work(lambda status: status.stopping is not None or status.state.terminal, step_seconds=5.0)
    assert status.stopping is StopReason.CIRCUIT_OPEN
    assert status.circuit_opened is not None
    assert "probes in a row" in status.circuit_opened


@pytest.mark.req("D3")
async def test_items_of_another_site_further_down_the_list_run_on() -> None:
    room = Room(items=300)
    await room.load(sites=(), healthy_from=251)
    status = await room.work(lambda status: status.counts.success == 50, step_seconds=1.0)
    assert status.counts.success == 50
    assert is_open(room)


@pytest.mark.req("D3")
async def test_only_a_job_that_says_it_needs_no_other_site_is_held_as_a_whole() -> None:
    room = Room()
    holds = JobHolds(room.store, room.network, room.clock)
    two = Job(job_id="two", scraper_id="x", sites=(SITE, "other.example"))
    one = Job(job_id="one", scraper_id="x", sites=(f"http://www.{SITE}/start", SITE))
    held = SiteUnavailable(SITE, "its circuit is open", 60.0)
    waits = [holds.hold(two, seq, held) for seq in range(200)]
    assert not any(hold.whole_job for hold in waits)
    assert waits[0].wait_seconds < waits[-1].wait_seconds <= 600, "the more wait, the longer each"
    assert holds.hold(one, 1, held) == (60.0, True)
    assert holds.jobs == {"one"}
    room.clock.advance(61)
    assert holds.jobs == set()

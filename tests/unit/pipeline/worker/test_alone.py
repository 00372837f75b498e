"""S6: an item suspected of having killed a worker runs with nothing beside it, once its begin is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from swath import HttpScraper, Input, WebSession
from swath import scraper as declare
from swath.backends.clock import SystemClock
from swath.backends.polling_queue import PollingQueue
from swath.domain.errors import Failed
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import EndedItem, HandedBackItem, Item
from swath.domain.job import Job, JobStatus
from swath.domain.lease import Lease, SlotGrant, SlotReport
from swath.domain.transitions import JobState
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.worker.parts import WorkerOptions, WorkerParts
from swath.pipeline.worker.worker import Worker
from swath.ports.job_store import ItemBatch
from tests.support.memory.results import MemoryResults
from tests.support.memory.site_state import MemorySiteState
from tests.support.memory.store import MemoryStore
from tests.support.network import open_network

LIMIT = 4


class Watched(MemoryStore):
    """Notes what every commit said had begun, and how many claims were made."""

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock, lease_seconds=5.0)
        self.begun: list[tuple[int, ...]] = []
        self.handed: list[Lease] = []

    async def finish(
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        self.begun.append(report.begun)
        return await super().finish(lease, ended, handed_back, report)

    async def claim(self, *args: Any, **kwargs: Any) -> Lease | None:
        lease = await super().claim(*args, **kwargs)
        if lease is not None:
            self.handed.append(lease)
        return lease


class In(Input):
    n: int
    sleep: float = 0.0
    fails: int = 0


@declare("watched", version="1")
class Scraper(HttpScraper):
    """Notes who runs beside whom."""

    Input = In

    def __init__(self, store: Watched) -> None:
        self.store = store
        self.running: set[int] = set()
        self.beside: dict[int, set[int]] = {}
        self.order: list[int] = []
        self.known_before: dict[int, bool] = {}

    async def fetch(self, item: In, web: WebSession) -> None:
        self.order.append(item.n)
        self.known_before[item.n] = bool(self.store.begun) and item.n in self.store.begun[-1]
        for other in self.running:
            self.beside.setdefault(other, set()).add(item.n)
        self.beside.setdefault(item.n, set()).update(self.running)
        self.running.add(item.n)
        try:
            await asyncio.sleep(item.sleep)
        finally:
            self.running.remove(item.n)
        if self.order.count(item.n) <= item.fails:
            raise Failed(Failure.of(FailureKind.SERVER_ERROR, "as asked"))


class Bench:
    """A store in which some items are suspects, and a worker that takes them up."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.store = Watched(self.clock)
        self.storage = MemoryResults()
        self.scraper = Scraper(self.store)

    async def load(self, inputs: list[dict[str, Any]], job_id: str = "j", first: int = 1) -> None:
        policy = {
            "throttling": {"max_concurrent_workers": LIMIT},
            "retries": {"base_delay_seconds": 0.3},
            "circuit_breaker": {"min_requests": 1_000},
        }
        job = Job(job_id=job_id, scraper_id="watched", policy=ExecutionPolicy.model_validate(policy))
        await self.store.submit(job)
        items = tuple(Item(n, str(n), {"n": n, **given}) for n, given in enumerate(inputs, first))
        await self.store.load(job_id, ItemBatch(0, first, len(items), "d", items))
        await self.store.seal(job_id, 1)

    async def die_with(self, running: int, job_id: str = "j") -> None:
        """A worker dies while it runs the first so many items."""
        lease = await self.store.claim("dead", job_id)
        assert lease is not None
        for item in lease.items[:running]:
            assert self.store.begin(lease, item.seq)
        self.store.kill("dead")
        for rescued in await self.store.rescue("other"):
            await self.store.release("other", rescued.fence)
        self.store.handed.clear()

    async def work(self, until: Callable[[JobStatus], bool] = lambda status: status.state.terminal) -> JobStatus:
        registry: Any = SimpleNamespace(get=lambda *_: self.scraper)
        transport: Any = None
        worker = Worker(
            WorkerParts(
                book=self.store,
                queue=PollingQueue(self.clock),
                storage=self.storage,
                clock=self.clock,
                registry=registry,
                sites=MemorySiteState(self.clock),
                network=open_network(transport, self.clock),
                finisher=Finisher(self.store, self.store, self.storage, self.clock, "w"),
                remover=Remover(self.store, self.storage, self.clock, "w"),
            ),
            WorkerOptions(worker_id="w", grace_seconds=2.0, report_seconds=0.1, housekeeping_seconds=0.02),
        )
        stop = asyncio.Event()
        working = asyncio.create_task(worker.run(stop))
        async with asyncio.timeout(60):
            while not until(await self.store.status("j")):
                await asyncio.sleep(0.005)
        stop.set()
        await working
        return await self.store.status("j")


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.req("S6")
async def test_suspects_run_with_nothing_beside_them_and_the_others_as_ever(bench: Bench) -> None:
    await bench.load([{"sleep": 0.02}] * 12)
    await bench.die_with(3)
    status = await bench.work()
    assert status.state is JobState.COMPLETED
    assert all(bench.scraper.beside[n] == set() for n in (1, 2, 3))
    assert all(bench.scraper.known_before[n] for n in (1, 2, 3))  # it was committed before they ran
    assert max(len(bench.scraper.beside[n]) for n in range(4, 13)) >= LIMIT - 1
    assert [item.tries.crashes for item in await bench.store.items("j")] == [0] * 12


@pytest.mark.req("S6")
async def test_several_suspects_follow_each_other_before_others_start_again(bench: Bench) -> None:
    await bench.load([{"sleep": 0.005}] * 20)
    await bench.die_with(4)
    await bench.work()
    assert sorted(bench.scraper.order[:4]) == [1, 2, 3, 4]
    assert [lease.alone for lease in bench.store.handed[:5]] == [True] * 4 + [False]


@pytest.mark.req("S6")
async def test_suspects_wait_for_what_runs_and_hold_everything_else_back_until_the_last_of_them(bench: Bench) -> None:
    await bench.load([{"sleep": 0.03}] * 160)  # the first lease has 80
    working = asyncio.create_task(bench.work())
    while len(bench.scraper.running) < LIMIT:
        await asyncio.sleep(0.001)
    await bench.load([{}] * 3, job_id="suspects", first=501)
    await bench.die_with(3, "suspects")
    begun = len(bench.scraper.order)
    status = await working
    assert status.state is JobState.COMPLETED
    assert all(bench.scraper.beside[n] == set() for n in (501, 502, 503))
    at = [bench.scraper.order.index(n) for n in (501, 502, 503)]
    assert sorted(at) == list(range(min(at), min(at) + 3))  # one after the other, with nobody in between
    assert min(at) <= begun + 40  # as soon as what ran was done, not when the others had nothing left


@pytest.mark.req("S6")
async def test_a_suspect_that_fails_and_is_to_be_tried_again_goes_back_to_the_others(bench: Bench) -> None:
    await bench.load([{"fails": 1}, {"sleep": 0.01}, {"sleep": 0.01}])
    await bench.die_with(1)
    status = await bench.work()
    assert status.counts.success == 3
    record = await bench.store.item("j", "1")
    assert (len(record.attempts), record.tries.own, record.suspect) == (2, 2, False)
    assert bench.scraper.order == [1, 2, 3, 1]  # nobody waited for its retry


@pytest.mark.req("S6", "J5")
async def test_a_suspect_of_a_job_that_stops_goes_back_and_keeps_nobody_from_working(bench: Bench) -> None:
    await bench.load([{}] * 6)
    await bench.die_with(2)
    await bench.store.cancel("j")
    status = await bench.work()
    assert (status.state, status.counts.cancelled) == (JobState.CANCELLED, 6)
    assert bench.scraper.order == []


@pytest.mark.req("S6", "W2")
async def test_a_worker_that_is_told_to_stop_while_a_suspect_waits_leaves_in_good_order(bench: Bench) -> None:
    await bench.load([{"sleep": 0.3}] * 6)
    await bench.die_with(2)
    status = await bench.work(until=lambda _: bool(bench.scraper.running))
    assert status.counts.success == 1
    assert (status.counts.pending, status.counts.in_progress) == (5, 0)
    assert bench.store._shelves.leases == {}

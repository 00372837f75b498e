"""A worker where asking is dear: it waits to be told, and goes on without the queue when that is gone (Z9)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from swath import HttpScraper, Input, WebSession
from swath import scraper as declare
from swath.backends.clock import SystemClock
from swath.domain.errors import StoreUnavailable
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import Item
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.lease import Lease, RescuedLease
from swath.domain.transitions import JobState
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.worker import idle as rest_module
from swath.pipeline.worker.parts import WorkerOptions, WorkerParts
from swath.pipeline.worker.sweeper import Sweeper, announce
from swath.pipeline.worker.worker import Worker
from swath.ports.job_store import ItemBatch
from swath.ports.work_queue import WorkHint
from tests.support.bounds import HANGING_SECONDS
from tests.support.memory.leader import MemoryLead, MemoryLeader
from tests.support.memory.queue import MemoryHints, MemoryQueue
from tests.support.memory.results import MemoryResults
from tests.support.memory.site_state import MemorySiteState
from tests.support.memory.store import MemoryStore
from tests.support.network import open_network

LEASE_SECONDS = 2.0


class Counted(MemoryStore):
    """Counts what it is asked."""

    def __init__(self, clock: SystemClock) -> None:
        super().__init__(clock, LEASE_SECONDS)
        self.asked: Counter[str] = Counter()

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        self.asked["claim"] += 1
        return await super().claim(worker_id, job_id, without)

    async def claim_ending(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        self.asked["ending"] += 1
        return await super().claim_ending(worker_id, job_id, without)

    async def claim_deletion(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        self.asked["deletion"] += 1
        return await super().claim_deletion(worker_id, job_id, without)

    async def rescue(self, worker_id: str) -> list[RescuedLease]:
        self.asked["rescue"] += 1
        return await super().rescue(worker_id)


class In(Input):
    sleep: float = 0.0


@declare("told", version="1")
class Scraper(HttpScraper):
    """Sleeps as long as it is told."""

    Input = In

    async def fetch(self, item: In, web: WebSession) -> None:
        await asyncio.sleep(item.sleep)


class Fleet:
    """A store and a queue, and workers that come and go."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.store = Counted(self.clock)
        self.hints = MemoryHints(self.clock, LEASE_SECONDS)
        self.lead = MemoryLead()
        self.queue = MemoryQueue(self.hints)
        self.storage = MemoryResults()

    async def order(self, items: int = 3, job_id: str = "j", *, sleep: float = 0.0, told: bool = True) -> None:
        policy = ExecutionPolicy.model_validate({"throttling": {"max_concurrent_workers": 2}})
        await self.store.submit(Job(job_id=job_id, scraper_id="told", policy=policy))
        rows = tuple(Item(n, str(n), {"sleep": sleep}) for n in range(1, items + 1))
        await self.store.load(job_id, ItemBatch(0, 1, items, "d", rows))
        status = await self.store.seal(job_id, 1)
        if told:
            await announce(self.queue, self.clock, status)

    @asynccontextmanager
    async def working(self, worker_id: str = "w", *, sweep: bool = False, **options: Any) -> AsyncIterator[None]:
        """A worker; the queue does not hold up its end."""
        registry: Any = SimpleNamespace(get=lambda *_: Scraper())
        transport: Any = None
        queue = MemoryQueue(self.hints)
        leader = MemoryLeader(self.lead, self.clock, worker_id, LEASE_SECONDS)
        worker = Worker(
            WorkerParts(
                book=self.store,
                queue=queue,
                storage=self.storage,
                clock=self.clock,
                registry=registry,
                sites=MemorySiteState(self.clock),
                network=open_network(transport, self.clock),
                finisher=Finisher(self.store, self.store, self.storage, self.clock, worker_id),
                remover=Remover(self.store, self.storage, self.clock, worker_id),
                sweeper=Sweeper(self.store, queue, leader, self.clock) if sweep else None,
            ),
            WorkerOptions(
                worker_id=worker_id,
                heartbeat_seconds=0.3,
                report_seconds=0.2,
                **{"sweep_seconds": 0.2, "spare_seconds": 300.0, "grace_seconds": 5.0, **options},
            ),
        )
        stop = asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        try:
            yield
        finally:
            stop.set()
            await asyncio.wait_for(running, HANGING_SECONDS)  # or the queue held up the end
            await queue.close()

    async def until(self, true: Callable[[JobStatus], bool], seconds: float = 120.0, job_id: str = "j") -> float:
        begun = time.monotonic()
        async with asyncio.timeout(seconds):
            while not true(await self.store.status(job_id)):
                await asyncio.sleep(0.01)
        return time.monotonic() - begun


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


async def _settled_in(fleet: Fleet) -> None:
    """The worker has looked around, found nothing and waits at the queue."""
    for _ in range(100):  # one that leads never rests
        before = fleet.store.asked.total()
        await asyncio.sleep(0.3)
        if before and fleet.store.asked.total() == before:
            break
    fleet.store.asked.clear()


async def _until_true(told: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANGING_SECONDS):
        while not told():
            await asyncio.sleep(0.02)


@pytest.mark.req("S3", "W1")
async def test_a_new_job_starts_long_before_the_queue_is_asked_again(fleet: Fleet) -> None:
    async with fleet.working():
        await _settled_in(fleet)
        await fleet.order()
        await fleet.until(lambda status: status.state is JobState.COMPLETED)


@pytest.mark.req("Q3")
async def test_an_idle_worker_leaves_the_store_alone(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryQueue, "patience_seconds", 600.0)  # its first rest is a tenth of that
    fleet.lead.worker_id, fleet.lead.until = "leader", fleet.clock.boot() + 600
    async with fleet.working(sweep=True, worker_id="other"):
        await _settled_in(fleet)
        await asyncio.sleep(1.5)
        assert fleet.store.asked.total() == 0


@pytest.mark.req("W1", "Z1")
async def test_the_leader_of_an_idle_fleet_looks_after_everything(fleet: Fleet) -> None:
    async with fleet.working(sweep=True, housekeeping_seconds=0.1, removal_seconds=0.1):
        await _until_true(lambda: fleet.lead.worker_id == "w")
        await _until_true(lambda: all(fleet.store.asked[what] >= 3 for what in ("rescue", "ending", "deletion")))


@pytest.mark.req("Q5")
async def test_a_job_of_which_nobody_was_told_is_found_by_the_sweeper(fleet: Fleet) -> None:
    async with fleet.working(sweep=True):
        await _settled_in(fleet)
        await fleet.order(told=False)
        await fleet.until(lambda status: status.state is JobState.COMPLETED)


@pytest.mark.req("Z1", "W1")
async def test_the_hint_of_a_dead_worker_wakes_one_that_rescues(fleet: Fleet) -> None:
    await fleet.order(items=2)
    lease = await fleet.store.claim("dead")
    assert lease is not None
    hint = await MemoryQueue(fleet.hints).wait(0)
    assert hint is not None
    while (more := await MemoryQueue(fleet.hints).wait(0)) is not None:
        assert more.job_id == "j"
    async with fleet.working(
        sweep=True, housekeeping_seconds=300.0, sweep_seconds=300.0
    ):  # only a hint wakes it in time
        took = await fleet.until(lambda status: status.state is JobState.COMPLETED, 120.0)
        assert took > LEASE_SECONDS / 2


@pytest.mark.req("Q5")
async def test_hints_are_kept_while_their_job_is_worked_on_and_used_up_then(fleet: Fleet) -> None:
    async with fleet.working():
        await _settled_in(fleet)
        await fleet.order(items=4, sleep=2.0)
        await asyncio.sleep(1.5 * LEASE_SECONDS - 0.5)
        assert (await fleet.store.status("j")).counts.remaining > 0
        held = [given for given in fleet.hints.hints if given.receipt is not None]
        assert held
        assert all(given.visible_at > fleet.clock.boot() for given in held)
        await fleet.until(lambda status: status.state is JobState.COMPLETED)
        async with asyncio.timeout(60):
            while fleet.hints.hints:
                await asyncio.sleep(0.05)


@pytest.mark.req("S3")
async def test_a_busy_worker_with_room_takes_up_another_job_by_itself(fleet: Fleet) -> None:
    async with fleet.working(busy_seconds=0.3, grace_seconds=0.1):
        await fleet.order(items=2, sleep=600.0)
        await fleet.until(lambda status: status.counts.queued + status.counts.in_progress == 2)
        await asyncio.sleep(0.5)  # and rests as long as it ever does
        taken = len(fleet.hints.hints)
        await fleet.order(items=1, job_id="next", told=False)
        await fleet.until(lambda status: status.counts.success == 1, job_id="next")
        assert (await fleet.store.status("j")).counts.success == 0, "nothing had to end first"
        assert len(fleet.hints.hints) == taken  # and it did not need the queue for that


@pytest.mark.req("W1", "S3")
async def test_who_works_for_one_job_takes_no_hints_and_does_not_lead(fleet: Fleet) -> None:
    async with fleet.working(sweep=True, job_id="mine"):
        await fleet.order(items=2, job_id="other")
        await asyncio.sleep(1.0)
        assert len(fleet.hints.hints) == 2
        assert all(given.receipt is None for given in fleet.hints.hints)
        assert fleet.lead.worker_id == ""
        await fleet.order(items=2, job_id="mine", told=False)
        await fleet.until(lambda status: status.state is JobState.COMPLETED, job_id="mine")


@pytest.mark.req("Z9")
async def test_without_its_queue_a_worker_says_so_and_asks_the_store(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_module, "WITHOUT_QUEUE_SECONDS", 0.3)
    fleet.hints.gone = True
    async with fleet.working():
        await fleet.order(told=False)
        await fleet.until(lambda status: status.state is JobState.COMPLETED)
        await fleet.order(items=1, job_id="second", told=False)
        await fleet.until(lambda status: status.waiting_for is WaitingFor.QUEUE, job_id="second")
        await fleet.until(lambda status: status.state is JobState.COMPLETED, job_id="second")
        fleet.hints.gone = False
        await fleet.store.submit(Job(job_id="third", scraper_id="told"))
        await fleet.until(lambda status: status.waiting_for is None, job_id="third")


@pytest.mark.req("W3", "Z9")
async def test_a_queue_that_never_answers_holds_nobody_up(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(self: MemoryQueue, *args: object) -> WorkHint | None:
        await asyncio.sleep(3_600)
        raise StoreUnavailable("too late", WaitingFor.QUEUE)

    for method in ("wait", "keep", "settle", "waiting", "announce"):
        monkeypatch.setattr(MemoryQueue, method, hangs)
    monkeypatch.setattr(MemoryQueue, "patience_seconds", 0.5)
    async with fleet.working(sweep=True):
        await asyncio.sleep(0.3)
        await fleet.order(told=False)
        await fleet.until(lambda status: status.state is JobState.COMPLETED)


@pytest.mark.req("Q5", "W2")
async def test_what_a_stopping_worker_hands_back_is_told_to_others(fleet: Fleet) -> None:
    async with fleet.working("first"):
        await _settled_in(fleet)
        await fleet.order(items=40, sleep=0.3)
        await fleet.until(lambda status: status.counts.success > 0)
    async with fleet.working("second", busy_seconds=0.2):
        await fleet.until(lambda status: status.counts.success > 6)

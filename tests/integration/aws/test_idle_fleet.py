"""What a fleet on AWS costs that has nothing to do, and how soon it has something to do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from swath import HttpScraper, Input, WebSession
from swath import scraper as declare
from swath.backends.aws.backend import AwsBackend, AwsNames, open_aws_backend
from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.provisioning import QueueNames, drop_queue, drop_table, make_queues, make_table
from swath.backends.clock import SystemClock
from swath.domain.item import Item
from swath.domain.job import Job
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.worker.parts import WorkerOptions, WorkerParts
from swath.pipeline.worker.sweeper import Sweeper, announce
from swath.pipeline.worker.worker import Worker
from swath.ports.job_store import ItemBatch
from tests.support.memory.results import MemoryResults
from tests.support.network import open_network

LEASE_SECONDS = 30.0
MEASURED_SECONDS = 10.0
TRIES = 5


class In(Input):
    """Nothing is asked for."""


@declare("idle", version="1")
class Scraper(HttpScraper):
    """Does nothing, at once."""

    Input = In

    async def fetch(self, item: In, web: WebSession) -> None:
        """Fetches nothing."""


@pytest_asyncio.fixture
async def names(clients: AwsClients, aws_name: str) -> AsyncIterator[AwsNames]:
    await make_table(clients, aws_name)
    await make_queues(clients, QueueNames.of(aws_name), LEASE_SECONDS)
    yield AwsNames(table=aws_name, queue=aws_name)
    for name in QueueNames.of(aws_name).all:
        await drop_queue(clients, name)
    await drop_table(clients, aws_name)


@asynccontextmanager
async def _working(names: AwsNames, folder: Path, worker_id: str, storage: MemoryResults) -> AsyncIterator[AwsBackend]:
    """A worker as bootstrap.py sets it for AWS."""
    clock, registry, transport = SystemClock(), SimpleNamespace(get=lambda *_: Scraper()), None
    anything: Any = (registry, transport)
    async with open_aws_backend(names, folder, clock, LEASE_SECONDS) as fleet:
        store = fleet.store
        worker = Worker(
            WorkerParts(
                book=store,
                queue=fleet.queue,
                storage=storage,
                clock=clock,
                registry=anything[0],
                sites=fleet.sites,
                network=open_network(anything[1], clock),
                finisher=Finisher(store, store, storage, clock, worker_id),
                remover=Remover(store, storage, clock, worker_id),
                sweeper=Sweeper(store, fleet.queue, fleet.leader(worker_id), clock),
            ),
            WorkerOptions(
                worker_id=worker_id,
                heartbeat_seconds=10.0,
                housekeeping_seconds=2.0,
                spare_seconds=LEASE_SECONDS / 2,
                group_seconds=0.5,
                busy_seconds=1.0,
            ),
        )
        stop = asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        try:
            yield fleet
        finally:
            stop.set()
            await asyncio.wait_for(running, 60)


def _requests(fleet: AwsBackend) -> Counter[str]:
    return sum((Counter(meter.requests) for meter in fleet.meters), Counter())


@pytest.mark.req("Q3", "W1")
async def test_an_idle_fleet_costs_next_to_nothing_and_wakes_at_once(names: AwsNames, tmp_path: Path) -> None:
    storage = MemoryResults()
    async with (
        _working(names, tmp_path / "a", "leader", storage) as leader,
        _working(names, tmp_path / "b", "spare", storage) as spare,
    ):
        for _ in range(TRIES):  # on a busy machine it takes them longer to look around and find nothing
            before = [_requests(fleet) for fleet in (leader, spare)]
            await asyncio.sleep(MEASURED_SECONDS)
            used = [_requests(fleet) - known for fleet, known in zip((leader, spare), before, strict=True)]
            a_minute = sorted(counted.total() * 60 / MEASURED_SECONDS for counted in used)
            # Six at the queue, and now and then a look at the store; one of the fleet looks after everything.
            if a_minute[0] <= 42 and a_minute[1] <= 180:
                break
        else:
            pytest.fail(f"{a_minute} requests a minute: {used}")

        status = await _ordered(leader)
        await announce(leader.queue, SystemClock(), status)
        async with asyncio.timeout(60):
            while not (await leader.store.status("j")).state.terminal:
                await asyncio.sleep(0.1)
        assert (await leader.store.status("j")).counts.success == 3


async def _ordered(fleet: AwsBackend) -> Any:
    await fleet.store.submit(Job(job_id="j", scraper_id="idle"))
    items = tuple(Item(n, str(n), {}) for n in (1, 2, 3))
    await fleet.store.load("j", ItemBatch(0, 1, 3, "d", items))
    return await fleet.store.seal("j", 1)

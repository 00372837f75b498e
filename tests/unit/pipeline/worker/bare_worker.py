"""A worker with as little around it as there can be: no network, no other processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from swath.backends.clock import SystemClock
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.finisher import Finisher
from swath.pipeline.worker.parts import WorkerOptions, WorkerParts
from swath.pipeline.worker.worker import Worker
from swath.sdk.scraper import Scraper
from tests.support.memory.queue import MemoryHints, MemoryQueue
from tests.support.memory.results import MemoryResults
from tests.support.memory.site_state import MemorySiteState
from tests.support.memory.store import MemoryStore
from tests.support.network import open_network


def worker_of(
    store: MemoryStore, clock: SystemClock, scraper: Scraper, browsers: Any = None, **options: float
) -> Worker:
    """Works on a store in memory, with one scraper for all jobs."""
    registry: Any = SimpleNamespace(get=lambda *_: scraper)
    transport: Any = None
    storage = MemoryResults()
    parts = WorkerParts(
        book=store,
        queue=MemoryQueue(MemoryHints(clock, 30.0)),
        storage=storage,
        clock=clock,
        registry=registry,
        sites=MemorySiteState(clock),
        network=open_network(transport, clock),
        finisher=Finisher(store, store, storage, clock, "w"),
        remover=Remover(store, storage, clock, "w"),
        sweeper=None,
        browsers=browsers,
    )
    quick = {"heartbeat_seconds": 0.3, "report_seconds": 0.2, "grace_seconds": 5.0}
    return Worker(parts, msgspec.convert({"worker_id": "w", **quick, **options}, WorkerOptions))

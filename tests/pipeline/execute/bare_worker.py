"""A worker with as little around it as there can be: no network, no other processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from swath.backends.clock import SystemClock
from swath.backends.memory.queue import MemoryHints, MemoryQueue
from swath.backends.memory.results import MemoryResults
from swath.backends.memory.site_book import MemorySiteBook
from swath.backends.memory.store import MemoryStore
from swath.kit.scraper import Scraper
from swath.pipeline.execute.parts import Parts, WorkerOptions
from swath.pipeline.execute.worker import Worker
from swath.pipeline.finish.deletion import Remover
from swath.pipeline.finish.ending import Finisher
from swath.testing.network import open_network


def worker_of(
    store: MemoryStore, clock: SystemClock, scraper: Scraper, browsers: Any = None, **options: float
) -> Worker:
    """Works on a store in memory, with one scraper for all jobs."""
    registry: Any = SimpleNamespace(get=lambda *_: scraper)
    transport: Any = None
    storage = MemoryResults()
    parts = Parts(
        book=store,
        queue=MemoryQueue(MemoryHints(clock, 30.0)),
        storage=storage,
        clock=clock,
        registry=registry,
        sites=MemorySiteBook(clock),
        network=open_network(transport, clock),
        finisher=Finisher(store, store, storage, clock, "w"),
        remover=Remover(store, storage, clock, "w"),
        sweeper=None,
        browsers=browsers,
    )
    quick = {"heartbeat_seconds": 0.3, "report_seconds": 0.2, "grace_seconds": 5.0}
    return Worker(parts, msgspec.convert({"worker_id": "w", **quick, **options}, WorkerOptions))

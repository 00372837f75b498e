"""How much work the store does for a claim and for a finish, counted in steps of SQLite's machine, along a whole job.

Drains a copy of a loaded store through the lease book alone: no scraper, no files, no waiting for the disk. What counts
is whether a step costs more in a large store, or late in a job, than in a small one.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from harness.soak.job import SoakJob
from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.item import Attempt, EndedItem, SuccessOutcome, TryCounts
from swath.domain.lease import Lease, SlotReport
from swath.domain.transitions import ItemState

__all__ = ["measure"]

T = TypeVar("T")

POINTS: Final = 5  # along the job, where leases are counted
LEASES_AT_A_POINT: Final = 5
WORKER: Final = "soak-counter"


@dataclass
class _Steps:
    """Steps per lease claimed and per item finished, at each point."""

    claim: list[float] = field(default_factory=list)
    finish: list[float] = field(default_factory=list)


class _Counter:
    """Counts the steps of one connection while it is on."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._steps = 0

    def _step(self) -> None:
        self._steps += 1

    async def of(self, work: Awaitable[T]) -> tuple[T, int]:
        self._steps = 0
        self._db.set_progress_handler(self._step, 1)
        try:
            return await work, self._steps
        finally:
            self._db.set_progress_handler(None, 1)


async def measure(job: SoakJob) -> dict[str, Any]:
    """Steps at several points of the job, and items per second between them."""
    folder = job.folder / "store-work"
    folder.mkdir()
    shutil.copy(job.database, folder / "swath.db")
    store = SqliteStore.open(folder, SystemClock())
    db = store._db._write_connection  # noqa: SLF001 nobody else needs to look into the machine
    assert db is not None
    db.execute("PRAGMA synchronous = OFF")
    counter, steps, done, counted_seconds = _Counter(db), _Steps(), 0, 0.0
    began = time.perf_counter()
    while True:
        if done < (len(steps.claim) + 0.5) * job.items / POINTS:
            lease = await store.claim(WORKER)
            if lease is None:
                break
            done += await _finish(store, lease)
        else:
            paused = time.perf_counter()
            done += await _count_leases(store, counter, steps)
            counted_seconds += time.perf_counter() - paused
    seconds = time.perf_counter() - began - counted_seconds
    await store.close()
    shutil.rmtree(folder)
    return {"claim_steps": steps.claim, "finish_steps": steps.finish, "items_per_second": done / seconds}


async def _count_leases(store: SqliteStore, counter: _Counter, steps: _Steps) -> int:
    claims, finishes, items = 0, 0, 0
    for _ in range(LEASES_AT_A_POINT):
        lease, claimed = await counter.of(store.claim(WORKER))
        if lease is None:
            break
        finished, counted = await counter.of(_finish(store, lease))
        claims, finishes, items = claims + claimed, finishes + counted, items + finished
    # A lease is smaller near the end of a job, so that claims are compared by the item too.
    steps.claim.append(claims / max(items, 1))
    steps.finish.append(finishes / max(items, 1))
    return items


async def _finish(store: SqliteStore, lease: Lease) -> int:
    ended = [
        EndedItem(
            seq=item.seq,
            state=ItemState.SUCCESS,
            finding=SuccessOutcome.FOUND,
            attempts=(Attempt(0.0, 1.0, WORKER),),
            tries=TryCounts(own=1),
        )
        for item in lease.items
    ]
    await store.finish(lease, ended, (), SlotReport(ceiling=lease.slots, demand=0))
    await store.release(lease.worker_id, lease.fence)
    return len(ended)

"""Times the requests that people and programs make while a job runs, on a large job and on a small one."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

from harness.api_load.loading import JOB_PATH
from harness.served_controller import answered, serving
from harness.soak.job import item_id_of
from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, EndedItem, SuccessOutcome, TryCounts
from swath.domain.lease import SlotReport
from swath.domain.transitions import ItemState

__all__ = ["FAILS_EVERY", "Timed", "end_items", "measure_latency"]

WORKER: Final = "load-ender"
FAILS_EVERY: Final = 10
PAGE: Final = 100
UNJUDGED: Final = "a state that no item is in (looks at 20,000 items at most)"

Question = Callable[[int, random.Random], str]


_ITEMS: Final = f"{JOB_PATH}/items"
QUESTIONS: Final[dict[str, Question]] = {
    "status": lambda _, __: f"{JOB_PATH}/status",
    "first page": lambda _, __: f"{_ITEMS}?limit={PAGE}",
    "deep page": lambda items, chance: f"{_ITEMS}?limit={PAGE}&cursor={int(chance.uniform(0.8, 0.95) * items)}",
    "failed, first page": lambda _, __: f"{_ITEMS}?state=failed&limit={PAGE}",
    "failed, deep page": lambda items, _: f"{_ITEMS}?state=failed&limit={PAGE}&cursor={items // 2}",
    "one item": lambda items, chance: f"{_ITEMS}/{item_id_of(chance.randrange(items))}",
    UNJUDGED: lambda _, __: f"{_ITEMS}?state=cancelled&limit={PAGE}",
}


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What one question took, in milliseconds, asked of both."""

    question: str
    judged: bool
    small_p50: float
    small_p95: float
    large_p50: float
    large_p95: float


def end_items(data: Path, items: int) -> None:
    """Ends every item of the job but one: a job without any is wound up, and that would be measured, too."""
    asyncio.run(_end_items(data, items - 1))


async def _end_items(data: Path, items: int) -> None:
    store, ended = SqliteStore.open(data, SystemClock()), 0
    try:
        while ended < items and (lease := await store.claim(WORKER)) is not None:
            ends = [_end(item.seq) for item in lease.items[: items - ended]]
            await store.finish(lease, ends, (), SlotReport(ceiling=lease.slots, demand=0))
            await store.release(lease.worker_id, lease.fence)
            ended += len(ends)
    finally:
        await store.close()
    if ended < items:
        raise SystemExit(f"only {ended:,} items were handed out: see {data}")


def _end(seq: int) -> EndedItem:
    tries = TryCounts(own=1)
    if seq % FAILS_EVERY:
        attempts = (Attempt(0.0, 1.0, WORKER),)
        return EndedItem(seq=seq, state=ItemState.SUCCESS, finding=SuccessOutcome.FOUND, attempts=attempts, tries=tries)
    failure = Failure(FailureKind.BLOCKED, "the site says no")
    attempts = (Attempt(0.0, 1.0, WORKER, failure),)
    return EndedItem(seq=seq, state=ItemState.FAILED, failure=failure, attempts=attempts, tries=tries)


def measure_latency(small: tuple[Path, int], large: tuple[Path, int], asks: int) -> list[Timed]:
    """Asks each question so many times of both, in turns: what else the machine does meets both alike."""
    with serving(small[0], "--no-worker") as one, serving(large[0], "--no-worker") as other:
        connections = (one.connect(), other.connect())
        timed = [_timed(name, connections, (small[1], large[1]), asks) for name in QUESTIONS]
        for connection in connections:
            connection.close()
        one.stop()
        other.stop()
    return timed


def _timed(name: str, connections: tuple[HTTPConnection, ...], sizes: tuple[int, int], asks: int) -> Timed:
    chance = random.Random(name)  # noqa: S311 the same questions every time
    took_ms: tuple[list[float], list[float]] = ([], [])
    for _ in range(asks):
        for connection, items, times in zip(connections, sizes, took_ms, strict=True):
            path = QUESTIONS[name](items, chance)
            began = time.perf_counter()
            answered(connection, "GET", path, None, {})
            times.append((time.perf_counter() - began) * 1_000)
    (small_p50, small_p95), (large_p50, large_p95) = map(_middle_and_p95, took_ms)
    return Timed(
        question=name,
        judged=name != UNJUDGED,
        small_p50=small_p50,
        small_p95=small_p95,
        large_p50=large_p50,
        large_p95=large_p95,
    )


def _middle_and_p95(times: list[float]) -> tuple[float, float]:
    return statistics.median(times), statistics.quantiles(times, n=20)[-1]

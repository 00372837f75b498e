"""The work that is measured: every change of an embedded store that can be large, one step after the other.

It goes through the store's ports, as the loader, the workers, the finisher and people do. Time is a fake clock's, so
that leases run out when the step that rescues them wants it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from harness.bench.lock_times.meter import HeldLock, Meter
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import EndedItem, Item, RetrySelection
from swath.domain.job import Job
from swath.domain.lease import Lease, SlotReport
from swath.domain.transitions import ItemState, JobState
from swath.ports.job_store import ItemBatch
from tests.support.clock import FakeClock

__all__ = ["Plan", "measure"]

LEASE_SECONDS: Final = 15.0
_BATCH_ROWS: Final = 10_000  # as the loader makes them
_BATCH_BYTES: Final = 4 << 20
_COMMIT_ITEMS: Final = 200  # most ends that a worker tells at once
_GROUP: Final = 5_000  # what the finisher and the remover ask for at once
_PAD: Final = "x" * 800
_CALM: Final = {"min_requests": 100_000, "consecutive_failures": 100_000}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is. `items` are retried; `others` fill the store and are cancelled, about 1 KiB each."""

    items: int
    others: int
    large_inputs: int
    leases: int
    durable: bool = True  # whether to wait for the disk; a test that looks at no time need not


async def measure(folder: Path, plan: Plan) -> tuple[list[HeldLock], int]:
    """Does all of it in a new store in the folder. Answers with every time the lock was held, and the file's size when
    the first job is deleted."""
    clock = FakeClock()
    store = SqliteStore.open(folder, clock, LEASE_SECONDS)
    meter = Meter()
    meter.watch(store, durable=plan.durable)
    try:
        work = _Work(store, clock, plan)
        size = 0
        for step, do in work.steps().items():
            if step.startswith("delete") and not size:
                size = (folder / "swath.db").stat().st_size
            meter.step = step
            await do()
        return meter.held, size
    finally:
        await store.close()


class _Work:
    def __init__(self, store: SqliteStore, clock: FakeClock, plan: Plan) -> None:
        self._store = store
        self._clock = clock
        self._plan = plan

    def steps(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """In their order."""
        plan = self._plan
        return {
            f"load {plan.others:,} items, ids in no order": self._load_others,
            f"load {plan.large_inputs} items of 1 MB": self._load_large,
            f"claim {plan.large_inputs} items of 1 MB, end half of them": self._run_large,
            f"load {plan.items:,} small items": self._load_small,
            f"claim and end {plan.items:,} items": self._run,
            "end the job": self._end,
            f"retry of {plan.items:,} items": self._retry,
            f"claim {plan.leases} leases": self._lose,
            f"rescue of {plan.leases} leases": self._rescue,
            f"cancel {plan.items:,} reopened items": self._cancel_reopened,
            f"cancel {plan.others:,} items": self._cancel_others,
            "delete a job of one item": self._delete_one,
            f"delete the job of {plan.items:,} items": self._delete_small,
            f"delete the job of {plan.others:,} items": self._delete_others,
            f"delete the job of {plan.large_inputs} items of 1 MB": self._delete_large,
        }

    async def _load_others(self) -> None:
        numbers = list(range(1, self._plan.others + 1))
        random.Random(28).shuffle(numbers)  # noqa: S311 the same at every run
        await self._load("others", (Item(row, f"{n:012}", {"n": n, "pad": _PAD}) for row, n in enumerate(numbers, 1)))
        await self._load("one", iter([Item(1, "1", {"n": 1})]))

    async def _load_large(self) -> None:
        pad = "x" * 1_000_000
        await self._load("large", (Item(n, str(n), {"pad": pad}) for n in range(1, self._plan.large_inputs + 1)))

    async def _run_large(self) -> None:
        """All are claimed before the first ends, as by several workers at once; half of them go back."""
        leases: list[Lease] = []
        while (lease := await self._store.claim(f"worker-{len(leases) % 8}", "large")) is not None:
            leases.append(lease)
        for lease in leases:
            ends = [_success(item.seq) for item in lease.items if item.seq % 2]
            await self._store.finish(lease, ends, [], SlotReport(ceiling=lease.slots, demand=0))
            await self._store.release(lease.worker_id, lease.fence)

    async def _load_small(self) -> None:
        await self._load("small", (Item(n, str(n), {"n": n}) for n in range(1, self._plan.items + 1)))

    async def _load(self, job_id: str, items: Iterator[Item]) -> None:
        policy = ExecutionPolicy.model_validate(
            {"throttling": {"max_concurrent_workers": 64}, "circuit_breaker": _CALM}
        )
        await self._store.submit(Job(job_id=job_id, scraper_id="example-mock", policy=policy))
        batches = 0
        for batch in _batches(items):
            await self._store.load(job_id, batch)
            batches += 1
        await self._store.seal(job_id, batches)

    async def _run(self) -> None:
        for job_id in ("small", "one"):
            while (lease := await self._store.claim("worker", job_id)) is not None:
                await self._finish(lease)

    async def _finish(self, lease: Lease) -> None:
        ends = [_failed(item.seq) if item.seq % 2 else _success(item.seq) for item in lease.items]
        for at in range(0, len(ends), _COMMIT_ITEMS):
            await self._store.finish(
                lease, ends[at : at + _COMMIT_ITEMS], [], SlotReport(ceiling=lease.slots, demand=0)
            )
        await self._store.release(lease.worker_id, lease.fence)

    async def _end(self) -> None:
        for job_id in ("small", "one"):
            await self._sweep_and_end(job_id, JobState.COMPLETED)

    async def _sweep_and_end(self, job_id: str, state: JobState) -> None:
        right = await self._store.claim_ending("worker", job_id)
        if right is None:
            raise RuntimeError(f"job {job_id} cannot be ended")
        while right.stopping and await self._store.sweep(right, _GROUP):
            pass
        await self._store.end(right, state, {"parts": 0})

    async def _retry(self) -> None:
        await self._store.retry("small", RetrySelection(since=0.0))

    async def _lose(self) -> None:
        for number in range(self._plan.leases):
            await self._store.claim(f"lost-{number % 8}", "small")

    async def _rescue(self) -> None:
        self._clock.advance(10 * LEASE_SECONDS)
        for rescued in await self._store.rescue("worker"):
            await self._store.release("worker", rescued.fence)

    async def _cancel_reopened(self) -> None:
        await self._cancel("small")

    async def _cancel_others(self) -> None:
        for job_id in ("others", "large"):
            await self._cancel(job_id)

    async def _cancel(self, job_id: str) -> None:
        await self._store.cancel(job_id)
        await self._sweep_and_end(job_id, JobState.CANCELLED)

    async def _delete_one(self) -> None:
        await self._delete("one")

    async def _delete_small(self) -> None:
        await self._delete("small")

    async def _delete_others(self) -> None:
        await self._delete("others")

    async def _delete_large(self) -> None:
        await self._delete("large")

    async def _delete(self, job_id: str) -> None:
        await self._store.delete(job_id)
        right = await self._store.claim_deletion("worker", job_id)
        if right is None:
            raise RuntimeError(f"job {job_id} cannot be deleted")
        while await self._store.purge(right, _GROUP):
            pass


def _batches(items: Iterator[Item]) -> Iterator[ItemBatch]:
    """As pipeline/ingest cuts them."""
    some: list[Item] = []
    number = size = 0
    for item in items:
        some.append(item)
        size += len(msgspec.json.encode(item))
        if len(some) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield _batch(number, some)
            some, number, size = [], number + 1, 0
    if some:
        yield _batch(number, some)


def _batch(number: int, items: list[Item]) -> ItemBatch:
    digest = hashlib.sha256(msgspec.json.encode(items)).hexdigest()
    return ItemBatch(number, items[0].seq, len(items), digest, tuple(items))


def _failed(seq: int) -> EndedItem:
    return EndedItem(seq=seq, state=ItemState.FAILED, failure=Failure.of(FailureKind.TIMEOUT, "no answer"))


def _success(seq: int) -> EndedItem:
    return EndedItem(seq=seq, state=ItemState.SUCCESS)

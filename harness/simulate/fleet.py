"""The fleet and its leader: jobs arrive, workers die and are replaced, jobs are rescued and ended, ends are checked."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Final

from harness.simulate.plan import JobPlan
from harness.simulate.worker import FleetWorker
from harness.simulate.world import World
from swath.backends.aws.dynamo.layout import block_of, chunk_of, items_partition
from swath.domain.failure import FailureKind
from swath.domain.item import Item, ItemRecord
from swath.domain.job import JobStatus, final_state
from swath.domain.transitions import ItemState
from swath.pipeline.worker.sweeper import Sweeper
from swath.ports.job_store import ItemBatch
from swath.ports.work_queue import WorkHint

__all__ = ["FleetControl", "check_ends"]

PAGE_ITEMS: Final = 5_000


async def check_ends(world: World, status: JobStatus) -> None:
    """Adds to the problems what does not add up."""
    job_id = status.job.job_id
    truth, problems = world.truth.jobs[job_id], world.truth.problems
    store = world.stores.open_for_all("checker")
    states: Counter[str] = Counter()
    after = seen = 0
    while page := await store.items(job_id, after, PAGE_ITEMS):
        for record in page:
            seen += 1
            states[record.state] += 1
            ends = truth.ends[record.seq]
            by_us = record.state is ItemState.CANCELLED or _is_poison(record)  # swept, or ended by a rescue
            if not record.state.terminal or ends + by_us != 1:
                problems.append(f"{job_id}: item {record.seq} is {record.state} and ended {ends} times")
        after = page[-1].seq
    if seen != truth.plan.items:
        problems.append(f"{job_id} has {seen} items, {truth.plan.items} were ordered")
    counts = status.counts
    if (counts.success, counts.failed, counts.cancelled) != tuple(
        states[s] for s in ("success", "failed", "cancelled")
    ):
        problems.append(f"{job_id} counts {counts}, its rows say {dict(states)}")
    truth.ended_at = world.events.elapsed
    await _forget(world, job_id)


def _is_poison(record: ItemRecord) -> bool:
    return record.failure is not None and record.failure.kind is FailureKind.POISON


async def _forget(world: World, job_id: str) -> None:
    head = await world.stores.heads.look(job_id)
    for block in range(block_of(chunk_of(head.last_seq)) + 1):
        world.stores.table.drop(items_partition(head.number, block))


HOUSEKEEPING_SECONDS: Final = 2.0
SWEEP_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 1.0
REPLACED_SECONDS: Final = (5.0, 30.0)
BATCH_ITEMS: Final = 5_000
SWEPT_ITEMS: Final = 5_000
LEADER: Final = "leader"


class AlwaysLeader:
    """A leader that nobody contests."""

    async def lead(self) -> bool:
        return True

    async def resign(self) -> None:
        """Nobody waits for it."""


class FleetControl:
    """`over` when all jobs have ended."""

    def __init__(self, world: World, on_second: Callable[[World], None] = lambda _: None) -> None:
        self._world = world
        self._on_second = on_second
        self._store = world.stores.open_for_all(LEADER)
        self._sweeper = Sweeper(self._store, world.hints, AlwaysLeader(), world.clock)
        self._workers: list[FleetWorker] = []
        self._started = 0
        self._ended = 0
        self.kills = 0
        self.rescued = 0

    def begin(self) -> None:
        """Plans everything that is known beforehand."""
        events, plan = self._world.events, self._world.plan
        for each in plan.jobs:
            events.after(each.arrives_at, functools.partial(self._arrive, each))
        for _ in range(plan.size.workers):
            events.after(self._world.rng.uniform(0.0, 5.0), self._start_worker)
        for instant in plan.kills:
            events.after(instant, self._kill)
        events.after(HOUSEKEEPING_SECONDS, self._keep_house)
        events.after(SWEEP_SECONDS, self._sweep)
        events.after(LOOK_SECONDS, self._look)

    @property
    def over(self) -> bool:
        """Whether all jobs have ended."""
        return self._ended == len(self._world.plan.jobs)

    async def _arrive(self, each: JobPlan) -> None:
        job_id = each.job.job_id
        await self._store.submit(each.job)
        batches = range(0, each.items, BATCH_ITEMS)
        for number, start in enumerate(batches):
            rows = range(start + 1, min(start + BATCH_ITEMS, each.items) + 1)
            items = tuple(Item(row, f"{job_id}-{row}", {}) for row in rows)
            await self._store.load(job_id, ItemBatch(number, rows[0], len(rows), str(number), items))
        await self._store.seal(job_id, len(batches))
        self._world.arrived.add(job_id)
        await self._world.hints.announce([WorkHint(job_id=job_id)] * min(each.items, each.limit))

    def _start_worker(self) -> None:
        worker = FleetWorker(f"worker-{self._started:05d}", self._world)
        self._started += 1
        self._workers.append(worker)
        worker.start()

    def _kill(self) -> None:
        rng = self._world.rng
        if not self._workers:  # all are dead, or none has started
            self._world.events.after(LOOK_SECONDS, self._kill)
            return
        worker = self._workers.pop(rng.randrange(len(self._workers)))
        worker.die()
        self.kills += 1
        self._world.events.after(rng.uniform(*REPLACED_SECONDS), self._start_worker)

    async def _keep_house(self) -> None:
        for lease in await self._store.rescue(LEADER):
            self.rescued += 1
            await self._store.release(LEADER, lease.fence)
        while (lease_to_end := await self._store.claim_ending(LEADER)) is not None:
            while lease_to_end.stopping and await self._store.sweep(lease_to_end, SWEPT_ITEMS) > SWEPT_ITEMS:
                pass
            status = await self._store.status(lease_to_end.job.job_id)
            state = final_state(status.counts, status.stopping)
            await check_ends(self._world, await self._store.end(lease_to_end, state, {}))
            self._ended += 1
        self._world.events.after(HOUSEKEEPING_SECONDS, self._keep_house)

    async def _sweep(self) -> None:
        await self._sweeper.run_once()
        self._world.events.after(SWEEP_SECONDS, self._sweep)

    def _look(self) -> None:
        self._world.look()
        self._on_second(self._world)
        self._world.events.after(LOOK_SECONDS, self._look)

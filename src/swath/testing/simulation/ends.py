"""Whether every item of a job that has ended ended once: in the rows of the table, in the counters, and by our count.

Called by keeper.py at the end of each job; its rows are forgotten then, so that a million of them fit into memory.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from swath.backends.aws.table.layout import block_of, chunk_of, items_partition
from swath.domain.failure import FailureKind
from swath.domain.item import ItemRecord
from swath.domain.job import JobStatus
from swath.domain.transitions import ItemState
from swath.testing.simulation.world import World

__all__ = ["check_ends"]

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

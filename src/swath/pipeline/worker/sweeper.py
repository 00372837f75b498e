"""Sends hints to idle workers: at once for a job that was just made ready, and periodically for work without a hint.

The leader sweeps for all. A hint wakes its receiver for any job, so hints are counted and not told apart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from swath.domain.errors import SwathError
from swath.domain.fair_scheduling import JobBacklog, is_express
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.ports.clock import Clock
from swath.ports.lease_store import LeaseStore
from swath.ports.work_queue import Leader, WorkHint, WorkQueue

__all__ = ["MAX_HINTS", "Sweeper", "announce"]

MAX_FIRST_HINTS: Final = 10  # what one message to a queue can hold; the sweeper wakes the others
ANNOUNCE_TIMEOUT_SECONDS: Final = 5.0  # that whoever ordered it waits for that

_log = logging.getLogger("swath.announce")


async def announce(queue: WorkQueue, clock: Clock, status: JobStatus) -> None:
    """Tells as many workers as one message reaches, if the job can run. Never fails: the job is in the store."""
    job, counts = status.job, status.counts
    if status.state not in (JobState.PENDING, JobState.RUNNING) or status.stopping or status.deleting:
        return
    wanted = min(counts.pending, job.policy.throttling.max_concurrent_workers, MAX_FIRST_HINTS)
    express = job.on_demand or is_express(job.priority, counts.total)
    hints = [WorkHint(job_id=job.job_id, epoch=int(clock.now()), express=express)] * wanted
    try:
        async with asyncio.timeout(ANNOUNCE_TIMEOUT_SECONDS):
            await queue.announce(hints)
    except (SwathError, TimeoutError) as error:
        _log.warning("workers were not told of job %s, and find it by themselves: %s", job.job_id, error)


MAX_HINTS: Final = 1_000  # on their way at once, whatever there is to do


class Sweeper:
    """One pass is one `run_once`; every worker of a fleet calls it every few seconds."""

    def __init__(self, book: LeaseStore, queue: WorkQueue, leader: Leader, clock: Clock) -> None:
        self._book = book
        self._queue = queue
        self._leader = leader
        self._clock = clock
        self._leads = False
        self._told = 0  # by the last pass

    @property
    def leads(self) -> bool:
        """Whether this process did it for all when it was last asked."""
        return self._leads

    async def run_once(self) -> int:
        """Announces as many hints as there are too few; answers how many. Raises StoreUnavailable."""
        self._leads = await self._leader.lead()
        if not self._leads:
            self._told = 0
            return 0
        wanted = _hints(await self._book.backlog(), int(self._clock.now()))
        # Asked even if nothing is wanted: whether the queue is there should be known before somebody waits at it in
        # vain. And it counts what it was told a moment ago only by and by.
        on_their_way = max(await self._queue.waiting(), self._told)
        missing = wanted[: max(0, len(wanted) - on_their_way)]
        self._told = len(missing)
        if missing:
            await self._queue.announce(missing)
        return len(missing)

    async def resign(self) -> None:
        """This process stops."""
        if self._leads:
            self._leads = False
            await self._leader.resign()


def _hints(waiting: Sequence[JobBacklog], epoch: int) -> list[WorkHint]:
    """One for each worker that could find something to do, the most urgent first, and in turns over the jobs."""
    jobs = sorted(waiting, key=lambda job: (not job.express, -job.priority, job.items))
    hints: list[WorkHint] = []
    more = True
    for turn in range(MAX_HINTS):
        more = False
        for job in jobs:
            if turn < job.wanted and len(hints) < MAX_HINTS:
                hints.append(WorkHint(job_id=job.job_id, epoch=epoch, express=job.express))
                more = True
        if not more:
            break
    return hints

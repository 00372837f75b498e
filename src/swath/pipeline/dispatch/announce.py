"""Announce: lets waiting workers know of a job that was just made ready, so that it starts at once.

Before: a job was sealed, resumed or retried. It is only a courtesy: what is not heard, sweeper.py says again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from swath.domain.backlog import is_express
from swath.domain.errors import SwathError
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.ports.clock import Clock
from swath.ports.work_queue import Hint, WorkQueue

__all__ = ["announce"]

FIRST_HINTS: Final = 10  # what one message to a queue can hold; the sweeper wakes the others
LONGEST_SECONDS: Final = 5.0  # that whoever ordered it waits for that

_log = logging.getLogger("swath.announce")


async def announce(queue: WorkQueue, clock: Clock, status: JobStatus) -> None:
    """Tells as many workers as one message reaches, if the job can run. Never fails: the job is in the store."""
    job, counts = status.job, status.counts
    if status.state not in (JobState.PENDING, JobState.RUNNING) or status.stopping or status.deleting:
        return
    wanted = min(counts.pending, job.policy.throttling.max_concurrent_workers, FIRST_HINTS)
    express = job.on_demand or is_express(job.priority, counts.total)
    hints = [Hint(job_id=job.job_id, epoch=int(clock.now()), express=express)] * wanted
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            await queue.announce(hints)
    except (SwathError, TimeoutError) as error:
        _log.warning("workers were not told of job %s, and find it by themselves: %s", job.job_id, error)

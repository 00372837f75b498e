"""Sweeper: tells idle workers of work that nobody told them of, or whose message was lost. The leader runs it for all.

Before: items that came due, slots that came free, messages that vanished. After: workers that wait at the queue ask
the store. A hint wakes whoever gets it for any job, so hints are counted and not told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swath.domain.backlog import Backlog
from swath.ports.clock import Clock
from swath.ports.leader import Leader
from swath.ports.lease_book import LeaseBook
from swath.ports.work_queue import Hint, WorkQueue

__all__ = ["MOST_HINTS", "Sweeper"]

MOST_HINTS: Final = 1_000  # on their way at once, whatever there is to do


class Sweeper:
    """One pass is one `run_once`; every worker of a fleet calls it every few seconds."""

    def __init__(self, book: LeaseBook, queue: WorkQueue, leader: Leader, clock: Clock) -> None:
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


def _hints(waiting: Sequence[Backlog], epoch: int) -> list[Hint]:
    """One for each worker that could find something to do, the most urgent first, and in turns over the jobs."""
    jobs = sorted(waiting, key=lambda job: (not job.express, -job.priority, job.items))
    hints: list[Hint] = []
    more = True
    for turn in range(MOST_HINTS):
        more = False
        for job in jobs:
            if turn < job.wanted and len(hints) < MOST_HINTS:
                hints.append(Hint(job_id=job.job_id, epoch=epoch, express=job.express))
                more = True
        if not more:
            break
    return hints

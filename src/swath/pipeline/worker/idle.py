"""Waits after an empty claim for a queue hint, a local change, or the poll interval."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from swath.domain.errors import StoreUnavailable
from swath.pipeline.retrying import WaitingStatus
from swath.ports.work_queue import WorkHint, WorkQueue

__all__ = ["IdleWait", "wait_for_first"]

FIRST_WAIT_FRACTION: Final = 0.1  # of the longest rest; each rest in a row is twice as long as the one before
WITHOUT_QUEUE_SECONDS: Final = 2.0  # between questions to the store while the queue does not answer
QUEUE_OVERTIME_SECONDS: Final = 1.0  # more than this beyond its time nobody waits for a queue

_QUEUE: Final = "queue"


class IdleWait:
    """`busy_seconds`: the longest rest of a worker that has leases, and so asks the store by itself before long.

    `told` is set with every hint: one may have come back from a worker that died.
    """

    def __init__(self, queue: WorkQueue, waits: WaitingStatus, busy_seconds: float, told: asyncio.Event) -> None:
        self._queue = queue
        self._waits = waits
        self._busy_seconds = busy_seconds
        self._told = told
        self._rests = 0  # in a row
        self._queue_gone = False
        self._hinted: set[str] = set()
        self._spent: set[str] = set()

    def over(self) -> None:
        """Something was claimed: nobody waits at the queue any more, whether it is back or not."""
        self._rests = 0
        self._waits.over(_QUEUE)

    def spend(self, held: Collection[str]) -> None:
        """Nothing more is to be had: of the jobs that were hinted at, only those `held` are still worked on here."""
        self._spent |= self._hinted.difference(held)
        self._hinted.intersection_update(held)

    async def tend(self) -> None:
        """Gives up the hints that were of no more use, and keeps the others. Raises StoreUnavailable."""
        while self._spent:
            job_id = self._spent.pop()
            if job_id not in self._hinted:
                await self._queue.settle(job_id)
        await self._queue.keep()

    async def take(self, *events: asyncio.Event, busy: bool) -> None:
        """Returns when an event is set, a hint comes, or it is time to ask the store again."""
        longest = self._busy_seconds if busy else self._queue.patience_seconds
        seconds = min(longest, longest * FIRST_WAIT_FRACTION * 2.0 ** min(self._rests, 10))
        self._rests += 1
        # A queue that is asked so often anyway costs nothing, and tells of a scrape that somebody waits for.
        if busy and self._queue.patience_seconds > self._busy_seconds:
            await wait_for_first(*events, seconds=seconds)
        else:
            await self._listen(events, seconds)

    async def _listen(self, events: tuple[asyncio.Event, ...], seconds: float) -> None:
        if self._queue_gone:
            seconds = min(seconds, WITHOUT_QUEUE_SECONDS)
        asked = asyncio.create_task(self._queue.wait(seconds))
        asked.add_done_callback(_consume_result)
        try:
            await wait_for_first(*events, seconds=seconds + QUEUE_OVERTIME_SECONDS, asked=asked)
            if asked.done():
                self._hear(asked.result())
        except StoreUnavailable as error:
            self._queue_gone = True
            self._waits.met(_QUEUE, error)
            await wait_for_first(*events, seconds=min(seconds, WITHOUT_QUEUE_SECONDS))
        finally:
            asked.cancel()

    def _hear(self, hint: WorkHint | None) -> None:
        self._queue_gone = False
        self._waits.over(_QUEUE)
        if hint is not None:
            self._rests = 0
            self._hinted.add(hint.job_id)
            self._told.set()


def _consume_result(asked: asyncio.Task[WorkHint | None]) -> None:
    """So that trouble which comes after nobody waits any more is no bug in the log."""
    if not asked.cancelled():
        asked.exception()


async def wait_for_first(
    *events: asyncio.Event, seconds: float, asked: asyncio.Task[WorkHint | None] | None = None
) -> None:
    """Returns when one of the events is set, what was asked is answered, or the time is over."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    others = set() if asked is None else {asked}
    try:
        await asyncio.wait({*waits, *others}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()

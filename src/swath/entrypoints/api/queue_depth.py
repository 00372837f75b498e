"""QueueDepth: how many tasks wait to be scraped on demand, and whether there is room for more (I3).

Asked before a scrape is ordered. The store knows; between two looks at it this process counts what it has ordered
itself, and nobody is turned away without a fresh look.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from swath.entrypoints.api.errors import ApiError, ErrorCode
from swath.ports.clock import Clock
from swath.ports.lease_book import LeaseBook

__all__ = ["QueueDepth"]

FRESH_SECONDS: Final = 1.0
LEAST_SECONDS: Final = 0.05  # between two looks, however many are turned away
RETRY_AFTER_SECONDS: Final = 5


class QueueDepth:
    """One per controller."""

    def __init__(self) -> None:
        self._known = 0
        self._ordered = 0  # since the store was last asked
        self._coming = 0  # let in, and not ordered yet
        self._read_at = -math.inf
        self._reading = asyncio.Lock()

    @asynccontextmanager
    async def room(self, book: LeaseBook, clock: Clock, tasks: int, limit: int) -> AsyncIterator[None]:
        """There is room for so many tasks, which are ordered inside. Raises ApiError queue_full."""
        if clock.boot() - self._read_at > FRESH_SECONDS:
            await self._read(book, clock, FRESH_SECONDS)
        if self._depth + tasks > limit:
            await self._read(book, clock, LEAST_SECONDS)
        if self._depth + tasks > limit:
            told = f"{self._depth:,} tasks wait already, and no more than {limit:,} may; try again later"
            raise ApiError(ErrorCode.QUEUE_FULL, told, retry_after=RETRY_AFTER_SECONDS)
        self._coming += tasks
        try:
            yield
            self._ordered += tasks
        finally:
            self._coming -= tasks

    @property
    def _depth(self) -> int:
        return self._known + self._ordered + self._coming

    async def _read(self, book: LeaseBook, clock: Clock, older_than: float) -> None:
        """One of those who want to know asks the store; the others find it done."""
        async with self._reading:
            if clock.boot() - self._read_at > older_than:
                ordered = self._ordered  # all of these are among what the store will tell
                backlog = await book.backlog()
                self._known = sum(job.pending for job in backlog if job.on_demand)
                self._ordered -= ordered
                self._read_at = clock.boot()

"""Loads: who adds rows to which job just now, and how many do so at once; Pace: whether a sender keeps others waiting.

Two loads of one job would get into each other's batches, so one waits for the other: mostly a sender that came back
before its broken connection was noticed. And each load holds some batches in memory, so only a few run at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from swath.entrypoints.api.errors import ApiError, ErrorCode

__all__ = ["LEAST_BYTES_PER_SECOND", "Loads", "Pace"]

TURN_SECONDS: Final = 5.0
MOST_AT_ONCE: Final = 4
PLACE_SECONDS: Final = 60.0  # that a sender waits, with its body unread, until another is done
PACE_SECONDS: Final = 30.0  # over which a pace is measured; whoever waits for a place waits longer
LEAST_BYTES_PER_SECOND: Final = 1 << 10


class Loads:
    """One per controller. Loads through two controllers at once are told apart by the store: one gets a conflict."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._waiting = 0

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for a place."""
        return self._waiting > 0

    @asynccontextmanager
    async def turn(self, job_id: str, seconds: float = TURN_SECONDS) -> AsyncIterator[None]:
        """The job is the caller's while the context lasts. Raises ApiError conflict when that takes too long."""
        lock = self._locks.setdefault(job_id, asyncio.Lock())
        self._users[job_id] += 1
        try:
            await _acquired(lock, job_id, seconds)
            try:
                yield
            finally:
                lock.release()
        finally:
            self._users[job_id] -= 1
            if not self._users[job_id]:
                del self._users[job_id], self._locks[job_id]

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One of the few that read at once. Raises ApiError rate_limited when none gets free."""
        self._waiting += 1
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            told = f"{MOST_AT_ONCE} loads are under way here; try again later"
            raise ApiError(ErrorCode.RATE_LIMITED, told, retry_after=PLACE_SECONDS) from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._places.release()


class Pace:
    """How fast a sender sends: only the time counts in which we wait for it, not that in which we hold it up."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._bytes = 0

    def is_slow(self, waited_seconds: float, came_bytes: int) -> bool:
        """Whether it sent too little, told whenever enough time has passed to say so."""
        self._seconds += waited_seconds
        self._bytes += came_bytes
        if self._seconds < PACE_SECONDS:
            return False
        slow = self._bytes < LEAST_BYTES_PER_SECOND * self._seconds
        self._seconds, self._bytes = 0.0, 0
        return slow


async def _acquired(lock: asyncio.Lock, job_id: str, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await lock.acquire()
    except TimeoutError:
        told = f"another load of job {job_id!r} is under way; wait until it is over"
        raise ApiError(ErrorCode.CONFLICT, told, retry_after=seconds) from None

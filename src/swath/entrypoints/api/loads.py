"""Loads: who adds rows to which job just now, and how many do so at once.

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

__all__ = ["Loads"]

TURN_SECONDS: Final = 5.0
MOST_AT_ONCE: Final = 4
PLACE_SECONDS: Final = 60.0  # that a sender waits, with its body unread, until another is done


class Loads:
    """One per controller. Loads through two controllers at once are told apart by the store: one gets a conflict."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()
        self._places = asyncio.Semaphore(MOST_AT_ONCE)

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
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            told = f"{MOST_AT_ONCE} loads are under way here; try again later"
            raise ApiError(ErrorCode.RATE_LIMITED, told, retry_after=PLACE_SECONDS) from None
        try:
            yield
        finally:
            self._places.release()


async def _acquired(lock: asyncio.Lock, job_id: str, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await lock.acquire()
    except TimeoutError:
        told = f"another load of job {job_id!r} is under way; wait until it is over"
        raise ApiError(ErrorCode.CONFLICT, told, retry_after=seconds) from None

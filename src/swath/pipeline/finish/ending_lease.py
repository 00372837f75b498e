"""Renews the right to end or delete a job, which is a lease without items, for as long as the work takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Protocol, TypeVar

from swath.domain.errors import LeaseLost, StoreUnavailable
from swath.domain.job import EndingProgress, EndingStep
from swath.domain.lease import Lease, LeaseDirective
from swath.ports.clock import Clock
from swath.ports.job_endings import JobEndings
from swath.ports.lease_store import LeaseStore

__all__ = ["EndingLease", "EndingStore"]

T = TypeVar("T")


class EndingStore(JobEndings, LeaseStore, Protocol):
    """Rights to end and to delete are claimed in one half, renewed and released in the other."""


class EndingLease:
    """The right as it was claimed just now."""

    def __init__(self, book: EndingStore, clock: Clock, lease: Lease) -> None:
        self._book = book
        self._clock = clock
        self._lease = lease
        self._renewed_at = clock.boot()
        self._progress: EndingProgress | None = None

    def reached(self, step: EndingStep, done: int = 0, total: int = 0) -> None:
        """How far the ending is. Nothing is written now: the next renewal tells it."""
        self._progress = EndingProgress(step, done, total)

    async def keep(self) -> None:
        """Called before each write. Renews after a sixth of the lease, so that a slow batch still ends within a third.

        Raises LeaseLost when somebody else has the right now, so who slept through the loss writes nothing more.
        """
        now = self._clock.boot()
        if now - self._renewed_at >= self._lease.lease_seconds / 6:
            await self._renew()

    async def confirm(self) -> None:
        """Renews now. Raises LeaseLost as `keep` does.

        Called after the room of the lease was made: whoever takes the lease away later finds that room and removes it,
        and with it everything that this process might still want to publish.
        """
        await self._renew()

    async def _renew(self) -> None:
        asked_at = self._clock.boot()
        if await self._extended() is LeaseDirective.LOST:
            raise LeaseLost(f"another worker ends or deletes job {self._lease.job.job_id!r} now")
        self._renewed_at = asked_at

    async def _extended(self) -> LeaseDirective:
        fence = self._lease.fence
        if self._progress is not None:
            return await self._book.renew_ending(self._lease, self._progress)
        return (await self._book.renew(self._lease.worker_id, [fence])).get(fence, LeaseDirective.LOST)

    async def during(self, work: Awaitable[T]) -> T:
        """Renews while the work is done, however long it takes. Raises LeaseLost as `keep` does."""
        working = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({working}, timeout=self._lease.lease_seconds / 6))[0]:
                with suppress(StoreUnavailable):  # the lease has time for another try
                    await self._renew()
            return working.result()
        finally:
            working.cancel()

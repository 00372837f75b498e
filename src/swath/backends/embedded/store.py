"""EmbeddedStore: both halves of the store (JobStore and LeaseBook) on one SQLite file.

This file only joins the parts: what a transaction does is in loading.py, jobs.py, claims.py, finishing.py, leases.py
and endings.py, how it is run in database.py, and who is alive in presence.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from swath.backends.embedded import claims, endings, finishing, jobs, leases, loading
from swath.backends.embedded.database import Database
from swath.backends.embedded.leases import Times
from swath.backends.embedded.presence import Presence
from swath.domain.attempt import Ended, HandedBack
from swath.domain.errors import UserError
from swath.domain.item import ItemRecord
from swath.domain.job import Job, JobStatus
from swath.domain.lease import Directive, Grant, Lease, Report, RescuedLease
from swath.domain.transitions import JobState
from swath.ports.clock import Clock
from swath.ports.job_store import Batch, Loaded

__all__ = ["EmbeddedStore"]


class EmbeddedStore:
    """See ports/job_store.py and ports/lease_book.py for what each method promises."""

    def __init__(self, database: Database, presence: Presence, clock: Clock, lease_seconds: float) -> None:
        self._db = database
        self._presence = presence
        self._clock = clock
        self._lease_seconds = lease_seconds

    @classmethod
    def open(cls, folder: Path, clock: Clock, lease_seconds: float = 15.0) -> EmbeddedStore:
        """Opens the store in a folder, which is made if it is missing."""
        try:
            presence = Presence(folder / "workers")
        except OSError as error:
            raise UserError(
                f"cannot use the folder {folder}: {error.strerror}; choose another with SWATH_DATA"
            ) from error
        return cls(Database(folder / "swath.db"), presence, clock, lease_seconds)

    def _times(self) -> Times:
        return Times(self._clock.now(), self._clock.boot(), self._lease_seconds)

    async def submit(self, job: Job) -> JobStatus:
        return await self._db.write(loading.submit, job)

    async def load(self, job_id: str, batch: Batch) -> Loaded:
        return await self._db.write(loading.load, job_id, batch)

    async def seal(self, job_id: str, batches: int) -> JobStatus:
        return await self._db.write(loading.seal, job_id, batches)

    async def abandon(self, job_id: str) -> None:
        await self._db.write(loading.abandon, job_id)

    async def cancel(self, job_id: str) -> JobStatus:
        return await self._db.write(jobs.cancel, job_id)

    async def status(self, job_id: str) -> JobStatus:
        return await self._db.read(jobs.status, job_id)

    async def jobs(self, after: str | None = None, limit: int = 100) -> list[JobStatus]:
        return await self._db.read(jobs.jobs, after, limit)

    async def items(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[ItemRecord]:
        times = self._times()
        return await self._db.read(jobs.items, job_id, after, limit, times.now - times.boot)

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        times = self._times()
        return await self._db.read(jobs.item, job_id, item_id, times.now - times.boot)

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        self._presence.enter(worker_id)
        return await self._db.write(claims.claim, self._times(), worker_id, job_id, without)

    async def finish(
        self, lease: Lease, ended: Sequence[Ended], handed_back: Sequence[HandedBack], report: Report
    ) -> Grant:
        return await self._db.write(finishing.finish, self._times(), lease, ended, handed_back, report)

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, Directive]:
        return await self._db.write(leases.renew, self._times(), worker_id, fences)

    async def release(self, worker_id: str, fence: int) -> None:
        await self._db.write(leases.release, worker_id, fence)

    async def rescue(self, worker_id: str) -> list[RescuedLease]:
        self._presence.enter(worker_id)
        rescued = await self._db.write(leases.rescue, self._times(), worker_id, self._presence.is_dead)
        for lease in rescued:
            self._presence.forget_if_dead(lease.worker_id)
        return rescued

    async def claim_ending(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        self._presence.enter(worker_id)
        return await self._db.write(endings.claim_ending, self._times(), worker_id, job_id, without)

    async def sweep(self, lease: Lease, limit: int) -> int:
        return await self._db.write(endings.sweep, lease, limit)

    async def end(self, lease: Lease, state: JobState, manifest: Mapping[str, Any]) -> JobStatus:
        return await self._db.write(endings.end, self._times(), lease, state, manifest)

    async def close(self) -> None:
        """Also lets go of this process's presence, so that what it still holds is rescued at once."""
        await self._db.close()
        self._presence.leave()

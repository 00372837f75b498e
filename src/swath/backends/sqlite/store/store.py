"""The SQLite store: joins all parts of the Store port on one file.

What a transaction does is in the modules beside this one; the database runs it.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import msgspec

from swath.backends.clock import boot_id
from swath.backends.local_presence.worker_locks import Presence
from swath.backends.private_files import make_folder
from swath.backends.sqlite.database import Database
from swath.backends.sqlite.sites.site_file import SITES_FILE
from swath.backends.sqlite.store import (
    claims,
    control,
    deletion,
    endings,
    items,
    jobs,
    leases,
    loading,
    outcomes,
    rescue,
    service_keys,
    webhooks,
)
from swath.backends.sqlite.store.leases import LeaseClock
from swath.backends.sqlite.write_lock import LockHolder, lock_holder
from swath.domain.clock_watch import ClockReading
from swath.domain.errors import StoreUnavailable, SwathError, UserError
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.fair_scheduling import JobBacklog
from swath.domain.item import EndedItem, HandedBackItem, ItemFilter, ItemRecord, RetrySelection
from swath.domain.job import EndingProgress, Job, JobStatus, WaitingFor
from swath.domain.lease import Lease, LeaseDirective, RescuedLease, SlotGrant, SlotReport
from swath.domain.service_key import ServiceKey
from swath.domain.transitions import JobState
from swath.domain.webhook import Webhook
from swath.ports.clock import Clock
from swath.ports.job_store import BatchResult, ChangeFeed, ItemBatch, ItemPage, LoadStart

__all__ = ["SqliteServiceStore", "SqliteStore"]


class SqliteServiceStore:
    """See ports/webhook_outbox.py and ports/key_ring.py for what each method promises."""

    _db: Database
    _clock: Clock
    _boot_id: str

    def _reading(self) -> ClockReading:
        return ClockReading(self._boot_id, self._clock.boot(), self._clock.now())

    async def take_webhooks(self, hold_seconds: float, limit: int = 16) -> list[Webhook]:
        now = self._clock.boot()
        if not await self._db.read(webhooks.any_due, now):  # nearly always, and then nobody has to wait for us
            return []
        return await self._db.write(webhooks.take_webhooks, now, hold_seconds, limit)

    async def note_webhook(self, webhook: Webhook) -> bool:
        return await self._db.write_news(
            lambda noted: (webhook.job_id,) if noted else (), webhooks.note_webhook, webhook
        )

    async def webhooks(self, job_id: str) -> list[Webhook]:
        return await self._db.read(webhooks.webhooks, job_id)

    async def add_key(self, key: ServiceKey) -> None:
        await self._db.write(service_keys.add_key, self._reading(), key)

    async def keys(self) -> list[ServiceKey]:
        return await self._db.read(service_keys.keys, self._reading())

    async def expire_keys(self, seen_expired: Collection[str] = ()) -> None:
        reading = self._reading()
        if await self._db.read(service_keys.needs_expiry_update, reading, seen_expired):
            await self._db.write(service_keys.expire_keys, reading, seen_expired)

    async def revoke_key(self, key_id: str) -> ServiceKey:
        return await self._db.write(service_keys.revoke_key, self._reading(), key_id)


P = ParamSpec("P")
T = TypeVar("T")

_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO}
# Both rows are found by number, so that asking before each start costs next to nothing.
_MAY_START: Final = (
    "SELECT 1 FROM leases AS l JOIN jobs AS j ON j.job_no = l.job_no WHERE l.fence = ? AND l.rescued = 0 "
    "AND j.state = 'running' AND j.stopping IS NULL AND j.revision = l.revision"
)


class SqliteStore(SqliteServiceStore):
    """See ports/store.py and the ports that it joins for what each method promises."""

    def __init__(self, database: Database, presence: Presence, clock: Clock, lease_seconds: float) -> None:
        self._db = database
        self._presence = presence
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._boot_id = boot_id()

    @classmethod
    def open(cls, folder: Path, clock: Clock, lease_seconds: float = 15.0, *, must_exist: bool = False) -> SqliteStore:
        """Opens the store in a folder. Both are made if they are missing, unless the store `must_exist`."""
        try:
            make_folder(folder)
        except OSError as error:
            raise UserError(
                f"cannot use the folder {folder}: {error.strerror}; choose another with SWATH_DATA"
            ) from error
        return cls(
            Database(folder / "swath.db", must_exist=must_exist), Presence(folder / "workers"), clock, lease_seconds
        )

    def _times(self) -> LeaseClock:
        return LeaseClock(self._clock.now(), self._clock.boot(), self._lease_seconds, self._boot_id)

    def _enter(self, worker_id: str) -> None:
        try:
            self._presence.enter(worker_id)
        except OSError as error:
            if error.errno in _NO_ROOM:
                told = f"cannot write beside the store {self._db.path}: {error.strerror}"
                raise StoreUnavailable(told, WaitingFor.DISK) from error
            raise UserError(str(self._presence.trouble_after(error))) from error

    async def _change(
        self, job_id: str, change: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """One commit, which changes this job."""
        return await self._db.write_news(lambda _: (job_id,), change, *args, **kwargs)

    async def submit(self, job: Job) -> JobStatus:
        return await self._change(job.job_id, loading.submit, self._clock.boot(), job)

    async def order(self, job: Job, batch: ItemBatch) -> JobStatus:
        return await loading.order_in_pieces(self._db, self._clock.boot(), job, batch)

    async def begin_load(self, job_id: str, key: str) -> LoadStart:
        return await self._change(job_id, loading.begin_load, job_id, key)

    async def load(self, job_id: str, batch: ItemBatch) -> BatchResult:
        return await loading.load_in_pieces(self._db, job_id, batch)

    async def seal(self, job_id: str, batches: int) -> JobStatus:
        return await loading.seal_in_pieces(self._db, self._clock.boot(), job_id, batches)

    async def abandon(self, job_id: str) -> None:
        await loading.abandon_in_pieces(self._db, job_id)

    async def status(self, job_id: str) -> JobStatus:
        status = await self._db.read(jobs.status, self._clock.boot(), job_id, self._presence.waiting_for)
        return _with_holder(status, self._holder())

    async def jobs(
        self, after: str | None = None, limit: int = 100, *, states: Collection[JobState] = (), on_demand: bool = True
    ) -> list[JobStatus]:
        listing = jobs.JobListing(after, limit, frozenset(states), on_demand)
        found = await self._db.read(jobs.jobs, self._clock.boot(), listing, self._presence.waiting_for)
        holder = self._holder()
        return [_with_holder(status, holder) for status in found]

    def _holder(self) -> LockHolder | None:
        """The process that keeps all others from writing to one of the files: a stopped one, if there is one."""
        path = self._db.path
        found = [holder for file in (path, path.with_name(SITES_FILE)) if (holder := lock_holder(file)) is not None]
        return next((holder for holder in found if holder.stopped), found[0] if found else None)

    async def held_by(self) -> str | None:
        holder = self._holder()
        return str(holder) if holder is not None and holder.stopped else None

    async def items(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[ItemRecord]:
        times = self._times()
        return await self._db.read(items.items, job_id, after, limit, times.now - times.boot)

    async def find_items(self, job_id: str, wanted: ItemFilter, after: int = 0, limit: int = 100) -> ItemPage:
        times = self._times()
        return await self._db.read(items.find_items, job_id, wanted, after, limit, times.now - times.boot)

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        times = self._times()
        return await self._db.read(items.item, job_id, item_id, times.now - times.boot)

    def news(self) -> ChangeFeed:
        return self._db.bulletin.listen()

    async def pause(self, job_id: str) -> JobStatus:
        return await self._change(job_id, control.pause, self._clock.boot(), job_id)

    async def resume(self, job_id: str) -> JobStatus:
        return await self._change(job_id, control.resume, self._clock.boot(), job_id)

    async def cancel(self, job_id: str) -> JobStatus:
        return await self._change(job_id, control.cancel, self._clock.boot(), job_id)

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        return await self._change(job_id, control.change_policy, self._clock.boot(), job_id, policy, expected)

    async def retry(self, job_id: str, selection: RetrySelection) -> JobStatus:
        return await control.retry(self._db, self._clock.boot(), job_id, selection)

    async def delete(self, job_id: str) -> JobStatus:
        return await self._change(job_id, control.delete, self._clock.boot(), job_id)

    async def add_version(self, job_id: str) -> int:
        return await self._change(job_id, control.add_version, job_id)

    async def set_current(self, job_id: str, version: int, *, under: Lease | None = None) -> JobStatus:
        return await self._change(job_id, control.set_current, self._clock.boot(), job_id, version, under)

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        self._enter(worker_id)
        return await self._db.write_news(_job_of, claims.claim, self._times(), worker_id, job_id, without)

    async def backlog(self) -> list[JobBacklog]:
        return await self._db.read(claims.backlog, self._times())

    def begin(self, lease: Lease, *seqs: int) -> bool:
        if not self._db.glance(_MAY_START, (lease.fence,)):
            return False
        self._presence.begin(lease.worker_id, lease.fence, *seqs)
        return True

    def leave(self, lease: Lease, *seqs: int) -> None:
        self._presence.finish(lease.worker_id, lease.fence, *seqs)

    def tell_waiting(self, worker_id: str, what: WaitingFor | None) -> None:
        self._presence.tell_waiting(worker_id, what)

    async def finish(
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        return await self._change(lease.job.job_id, outcomes.finish, self._times(), lease, ended, handed_back, report)

    async def open_circuit(self, job_id: str, why: str, most_left: int | None = None) -> None:
        await self._change(job_id, outcomes.open_circuit, job_id, why, most_left)

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, LeaseDirective]:
        return await self._db.write(leases.renew, self._times(), worker_id, fences)

    async def release(self, worker_id: str, fence: int) -> None:
        await self._db.write_news(lambda name: () if name is None else (name,), leases.release, worker_id, fence)

    async def rescue(self, worker_id: str) -> list[RescuedLease]:
        self._enter(worker_id)
        dead = set(self._presence.dead())  # who dies later keeps its file, and what it says, until the next time
        rescued: list[RescuedLease] = []
        while True:
            found, more = await self._db.write_news(
                lambda answer: {lease.job_id for lease in answer[0]},
                rescue.rescue,
                self._times(),
                worker_id,
                lambda worker: worker in dead or self._presence.is_dead(worker),
                self._presence.running,
            )
            rescued += found
            if not more:
                break
        for worker in dead:
            self._presence.forget(worker)
        return rescued

    async def claim_ending(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        self._enter(worker_id)
        return await self._db.write_news(_job_of, endings.claim_ending, self._times(), worker_id, job_id, without)

    async def renew_ending(self, lease: Lease, progress: EndingProgress) -> LeaseDirective:
        return await self._change(lease.job.job_id, endings.renew_ending, self._times(), lease, progress)

    async def sweep(self, lease: Lease, limit: int) -> int:
        return await self._change(lease.job.job_id, endings.sweep, self._times(), lease, limit)

    async def end(
        self, lease: Lease, state: JobState, manifest: Mapping[str, Any], webhook: Webhook | None = None
    ) -> JobStatus:
        return await self._change(lease.job.job_id, endings.end, self._times(), lease, state, manifest, webhook)

    async def claim_deletion(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        self._enter(worker_id)
        return await self._db.write_news(_job_of, deletion.claim_deletion, self._times(), worker_id, job_id, without)

    async def purge(self, lease: Lease, limit: int) -> int:
        while (left := await self._change(lease.job.job_id, deletion.purge, lease, limit)) is None:
            pass
        if not left:
            await self._db.scrub()
        return left

    async def close(self) -> None:
        """Also lets go of this process's presence, so that what it still holds is rescued at once."""
        with_leases = await self._with_leases()
        await self._db.close()
        self._presence.leave(with_leases)

    async def _with_leases(self) -> Collection[str]:
        """Workers of this process that have leases, or may have."""
        if not self._presence.workers:
            return ()
        try:
            return await self._db.read(leases.workers_with_leases)
        except SwathError:
            return self._presence.workers


def _with_holder(status: JobStatus, holder: LockHolder | None) -> JobStatus:
    """A holder that is stopped holds up every job, also while nobody is there to wait for it."""
    if holder is None or status.state.terminal:
        return status
    if not holder.stopped and status.waiting_for is not WaitingFor.STORE:
        return status
    waiting_for = status.waiting_for or WaitingFor.STORE
    return msgspec.structs.replace(status, waiting_for=waiting_for, held_by=str(holder))


def _job_of(lease: Lease | None) -> Collection[str]:
    return () if lease is None else (lease.job.job_id,)

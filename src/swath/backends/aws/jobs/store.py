"""AwsStore: all parts of the store (ports/store.py) on one DynamoDB table; those that only controllers use: serving.py.

This file only joins the parts and crosses the bridge: what a change does is in ordering.py, loading.py, jobs.py,
items.py, search.py, control.py, generations.py, claims.py, due.py, finishing.py, leases.py, rescue.py, endings.py and
deletion.py, how it is made in heads.py, and who is alive on this host in backends/host.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from swath.backends.aws.calls.bridge import Bridge
from swath.backends.aws.calls.client import AwsClients
from swath.backends.aws.calls.time import SharedTime
from swath.backends.aws.jobs import (
    claims,
    control,
    deletion,
    due,
    endings,
    finishing,
    generations,
    items,
    jobs,
    leases,
    loading,
    ordering,
    rescue,
    search,
)
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.jobs.serving import AwsServing
from swath.backends.aws.table.table import Table
from swath.backends.host.presence import Presence
from swath.domain.attempt import Ended, HandedBack
from swath.domain.backlog import Backlog
from swath.domain.ending import EndingProgress
from swath.domain.errors import StoreUnavailable, UserError
from swath.domain.item import ItemFilter, ItemRecord
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.lease import Directive, Grant, Lease, Report, RescuedLease
from swath.domain.policy import ExecutionPolicy
from swath.domain.selection import Selection
from swath.domain.transitions import JobState
from swath.domain.webhook import Webhook
from swath.ports.clock import Clock
from swath.ports.job_store import Batch, ItemPage, Loaded, LoadStart

__all__ = ["LOOK_SECONDS", "AwsStore"]

LOOK_SECONDS: Final = 0.5
_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO}


class AwsStore(AwsServing):
    """See ports/ (job_store.py, job_control.py, lease_book.py, endings.py) for what each method promises.

    Several processes on any number of hosts may use one table, each with a store of its own.
    """

    def __init__(self, bridge: Bridge, ledger: Ledger) -> None:
        super().__init__(bridge, ledger)
        self._presence = ledger.presence

    @classmethod
    def open(
        cls,
        bridge: Bridge,
        clients: AwsClients,
        table_name: str,
        data: Path,
        clock: Clock,
        lease_seconds: float = 30.0,
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> AwsStore:
        """Opens the store in a table. `data` is a folder of this host, for lock files and what need not be kept.

        A claim without a job may choose among jobs as they were `look_seconds` ago.
        """
        presence = Presence(data / "workers")
        try:
            presence.host  # noqa: B018 makes the folder
        except OSError as error:
            raise UserError(str(presence.trouble_after(error))) from error
        ledger = Ledger(Table(clients, table_name), SharedTime(clock), clock, presence, lease_seconds, data / "tmp")
        ledger.look_seconds = look_seconds
        return cls(bridge, ledger)

    def _enter(self, worker_id: str) -> None:
        try:
            self._presence.enter(worker_id)
        except OSError as error:
            if error.errno in _NO_ROOM:
                told = f"cannot write a lock file for worker {worker_id!r}: {error.strerror}"
                raise StoreUnavailable(told, WaitingFor.DISK) from error
            raise UserError(str(self._presence.trouble_after(error))) from error

    async def submit(self, job: Job) -> JobStatus:
        return await self._run(ordering.submit, job)

    async def order(self, job: Job, batch: Batch) -> JobStatus:
        return await self._run(ordering.order, job, batch)

    async def begin_load(self, job_id: str, key: str) -> LoadStart:
        return await self._run(loading.begin_load, job_id, key)

    async def load(self, job_id: str, batch: Batch) -> Loaded:
        return await self._run(loading.load, job_id, batch)

    async def seal(self, job_id: str, batches: int) -> JobStatus:
        return await self._run(loading.seal, job_id, batches)

    async def abandon(self, job_id: str) -> None:
        await self._run(loading.abandon, job_id)

    async def status(self, job_id: str) -> JobStatus:
        return await self._run(jobs.status, job_id)

    async def jobs(
        self, after: str | None = None, limit: int = 100, *, states: Collection[JobState] = (), on_demand: bool = True
    ) -> list[JobStatus]:
        return await self._run(jobs.jobs, after, limit, states, on_demand)

    async def held_by(self) -> str | None:
        """Nobody can: the table locks nothing."""
        return None

    async def items(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[ItemRecord]:
        return await self._run(items.items, job_id, after, limit)

    async def find_items(self, job_id: str, wanted: ItemFilter, after: int = 0, limit: int = 100) -> ItemPage:
        return await self._run(search.find_items, job_id, wanted, after, limit)

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        return await self._run(items.item, job_id, item_id)

    async def pause(self, job_id: str) -> JobStatus:
        return await self._run(control.pause, job_id)

    async def resume(self, job_id: str) -> JobStatus:
        return await self._run(control.resume, job_id)

    async def cancel(self, job_id: str) -> JobStatus:
        return await self._run(control.cancel, job_id)

    async def change_policy(
        self, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None = None
    ) -> JobStatus:
        return await self._run(control.change_policy, job_id, policy, expected)

    async def retry(self, job_id: str, selection: Selection) -> JobStatus:
        return await self._run(generations.retry, job_id, selection)

    async def delete(self, job_id: str) -> JobStatus:
        return await self._run(control.delete, job_id)

    async def add_version(self, job_id: str) -> int:
        return await self._run(control.add_version, job_id)

    async def set_current(self, job_id: str, version: int, *, under: Lease | None = None) -> JobStatus:
        return await self._run(control.set_current, job_id, version, under)

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        self._enter(worker_id)
        return await self._run(claims.claim, worker_id, job_id, without)

    async def backlog(self) -> list[Backlog]:
        return await self._run(due.backlog)

    def begin(self, lease: Lease, *seqs: int) -> bool:
        """As of the last word from the table: of a change that another process made this one hears a little later."""
        standing = self._ledger.heads.standing(lease.job.job_id)
        if standing is None or lease.fence not in standing.fences:
            return False
        if not standing.may_start or standing.revision != lease.revision:
            return False
        self._presence.begin(lease.worker_id, lease.fence, *seqs)
        return True

    def leave(self, lease: Lease, *seqs: int) -> None:
        self._presence.finish(lease.worker_id, lease.fence, *seqs)

    def tell_waiting(self, worker_id: str, what: WaitingFor | None) -> None:
        """Also in the table, where other hosts see it, as soon as that can be written."""
        self._presence.tell_waiting(worker_id, what)
        if self._ledger.waits.get(worker_id) is not what:
            self._ledger.waits[worker_id] = what
            self._bridge.post(lambda: leases.tell_waiting(self._ledger, worker_id))

    async def finish(
        self, lease: Lease, ended: Sequence[Ended], handed_back: Sequence[HandedBack], report: Report
    ) -> Grant:
        return await self._run(finishing.finish, lease, ended, handed_back, report)

    async def open_circuit(self, job_id: str, why: str, most_left: int | None = None) -> None:
        await self._run(control.open_circuit, job_id, why, most_left)

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, Directive]:
        return await self._run(leases.renew, worker_id, fences)

    async def release(self, worker_id: str, fence: int) -> None:
        await self._run(leases.release, worker_id, fence)

    async def rescue(self, worker_id: str) -> list[RescuedLease]:
        self._enter(worker_id)
        return await self._run(rescue.rescue, worker_id)

    async def claim_ending(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        self._enter(worker_id)
        return await self._run(endings.claim_ending, worker_id, job_id, without)

    async def renew_ending(self, lease: Lease, progress: EndingProgress) -> Directive:
        return await self._run(endings.renew_ending, lease, progress)

    async def sweep(self, lease: Lease, limit: int) -> int:
        return await self._run(endings.sweep, lease, limit)

    async def end(
        self, lease: Lease, state: JobState, manifest: Mapping[str, Any], webhook: Webhook | None = None
    ) -> JobStatus:
        return await self._run(endings.end, lease, state, manifest, webhook)

    async def claim_deletion(
        self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()
    ) -> Lease | None:
        self._enter(worker_id)
        return await self._run(deletion.claim_deletion, worker_id, job_id, without)

    async def purge(self, lease: Lease, limit: int) -> int:
        return await self._run(deletion.purge, lease, limit)

    async def close(self) -> None:
        """Also lets go of this process's presence, so that what it still holds is rescued at once. The bridge and the
        clients stay open: whoever made them closes them."""
        if not self._closed:
            self._closed = True
            self._ledger.ids.close()
            self._presence.leave(self._presence.workers if self._ledger.jobs_of_fences else ())

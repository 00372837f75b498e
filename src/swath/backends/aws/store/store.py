"""The AWS store: joins all parts of the Store port on one DynamoDB table, and crosses over to the AWS thread.

What a change does is in the modules beside this one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.shared_clock import SharedClock
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.store import (
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
from swath.backends.aws.store.store_context import StoreContext
from swath.backends.change_feed import PollingChangeFeed
from swath.backends.local_presence.worker_locks import Presence
from swath.domain.errors import StoreUnavailable, UserError
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.fair_scheduling import JobBacklog
from swath.domain.item import EndedItem, HandedBackItem, ItemFilter, ItemRecord, RetrySelection
from swath.domain.job import EndingProgress, Job, JobStatus, WaitingFor
from swath.domain.lease import Lease, LeaseDirective, RescuedLease, SlotGrant, SlotReport
from swath.domain.service_key import ServiceKey
from swath.domain.transitions import JobState
from swath.domain.webhook import Webhook
from swath.ports.clock import Clock
from swath.ports.job_store import BatchResult, ItemBatch, ItemPage, LoadStart

__all__ = ["LOOK_SECONDS", "AwsServiceStore", "AwsStore"]

T = TypeVar("T")


class AwsServiceStore:
    """See ports/ (webhook_outbox.py, key_ring.py, news.py) for what each method promises."""

    def __init__(self, bridge: EventLoopThread, ledger: StoreContext) -> None:
        self._bridge = bridge
        self._ledger = ledger
        self._closed = False

    async def _run(self, call: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed", WaitingFor.STORE)
        return await self._bridge.run(lambda: call(self._ledger, *args))

    async def take_webhooks(self, hold_seconds: float, limit: int = 16) -> list[Webhook]:
        return await self._run(webhooks.take_webhooks, hold_seconds, limit)

    async def note_webhook(self, webhook: Webhook) -> bool:
        return await self._run(webhooks.note_webhook, webhook)

    async def webhooks(self, job_id: str) -> list[Webhook]:
        return await self._run(webhooks.webhooks, job_id)

    async def add_key(self, key: ServiceKey) -> None:
        await self._run(service_keys.add_key, key)

    async def keys(self) -> list[ServiceKey]:
        return await self._run(service_keys.keys)

    async def expire_keys(self, seen_expired: Collection[str] = ()) -> None:
        await self._run(service_keys.expire_keys, seen_expired)

    async def revoke_key(self, key_id: str) -> ServiceKey:
        return await self._run(service_keys.revoke_key, key_id)

    def news(self) -> PollingChangeFeed:
        return PollingChangeFeed(self._ledger.bulletin.listen())


LOOK_SECONDS: Final = 0.5
_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT, errno.EIO}


class AwsStore(AwsServiceStore):
    """See ports/ (job_store.py, job_control.py, lease_book.py, endings.py) for what each method promises.

    Several processes on any number of hosts may use one table, each with a store of its own.
    """

    def __init__(self, bridge: EventLoopThread, ledger: StoreContext) -> None:
        super().__init__(bridge, ledger)
        self._presence = ledger.presence

    @classmethod
    def open(
        cls,
        bridge: EventLoopThread,
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
        ledger = StoreContext(
            Table(clients, table_name), SharedClock(clock), clock, presence, lease_seconds, data / "tmp"
        )
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
        return await self._run(loading.submit, job)

    async def order(self, job: Job, batch: ItemBatch) -> JobStatus:
        return await self._run(loading.order, job, batch)

    async def begin_load(self, job_id: str, key: str) -> LoadStart:
        return await self._run(loading.begin_load, job_id, key)

    async def load(self, job_id: str, batch: ItemBatch) -> BatchResult:
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
        return await self._run(items.find_items, job_id, wanted, after, limit)

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

    async def retry(self, job_id: str, selection: RetrySelection) -> JobStatus:
        return await self._run(control.retry, job_id, selection)

    async def delete(self, job_id: str) -> JobStatus:
        return await self._run(control.delete, job_id)

    async def add_version(self, job_id: str) -> int:
        return await self._run(control.add_version, job_id)

    async def set_current(self, job_id: str, version: int, *, under: Lease | None = None) -> JobStatus:
        return await self._run(control.set_current, job_id, version, under)

    async def claim(self, worker_id: str, job_id: str | None = None, without: Collection[str] = ()) -> Lease | None:
        self._enter(worker_id)
        return await self._run(claims.claim, worker_id, job_id, without)

    async def backlog(self) -> list[JobBacklog]:
        return await self._run(claims.backlog)

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
        self, lease: Lease, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem], report: SlotReport
    ) -> SlotGrant:
        return await self._run(outcomes.finish, lease, ended, handed_back, report)

    async def open_circuit(self, job_id: str, why: str, most_left: int | None = None) -> None:
        await self._run(control.open_circuit, job_id, why, most_left)

    async def renew(self, worker_id: str, fences: Collection[int]) -> Mapping[int, LeaseDirective]:
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

    async def renew_ending(self, lease: Lease, progress: EndingProgress) -> LeaseDirective:
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

"""The AWS store's own code over a table in this process's memory, one store for each simulated worker."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.rows import ABSENT, ANY, Delete, Key, Put, Row
from swath.backends.aws.client.shared_clock import SharedClock
from swath.backends.aws.dynamo.table import LAST, Table
from swath.backends.aws.store.job_row import HeldLease, JobRow, LeasePurpose, WaitingCounts, WorkerShare
from swath.backends.aws.store.job_rows import Decide, JobRows, StartPermission
from swath.backends.aws.store.store import LOOK_SECONDS, AwsStore
from swath.backends.aws.store.store_context import StoreContext
from swath.backends.local_presence.worker_locks import Presence
from swath.domain.errors import UnknownName
from swath.domain.job import WaitingFor
from swath.domain.lease import admits_another_worker
from swath.ports.clock import Clock

__all__ = ["JobSnapshot", "MemoryJobRows", "MemoryTable", "Stores", "WorkerJobRows"]


class _Partition:
    """Rows of one `p`, and their keys in order."""

    __slots__ = ("order", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, tuple[bytes, int]] = {}
        self.order: list[str] = []


class MemoryTable(Table):
    """What a method does it does at once, and nothing comes between."""

    def __init__(self) -> None:
        self.name = "memory"
        self._partitions: dict[str, _Partition] = {}
        self._numbers: dict[Key, dict[str, int]] = {}

    def row(self, key: Key) -> Row | None:
        """One row, at once."""
        partition = self._partitions.get(key.p)
        stored = None if partition is None else partition.rows.get(key.s)
        return None if stored is None else Row(key, *stored)

    def drop(self, p: str) -> None:
        """Forgets a partition."""
        self._partitions.pop(p, None)

    async def get(self, *keys: Key) -> dict[Key, Row]:
        return {key: row for key in keys if (row := self.row(key)) is not None}

    async def query(
        self, p: str, first: str = "", last: str = LAST, *, reverse: bool = False, limit: int | None = None
    ) -> AsyncIterator[Row]:
        partition = self._partitions.get(p)
        if partition is None or first > last:
            return
        order = partition.order
        found = order[bisect_left(order, first) : bisect_right(order, last)]
        if reverse:
            found.reverse()
        for s in found[:limit]:
            stored = partition.rows.get(s)
            if stored is not None:
                yield Row(Key(p, s), *stored)

    async def commit(self, *changes: Put | Delete) -> bool:
        if not all(self._holds(change) for change in changes):
            return False
        for change in changes:
            self._make(change)
        return True

    async def write_many(self, changes: Sequence[Put | Delete]) -> None:
        for change in changes:
            self._make(change)

    async def add(self, key: Key, **amounts: int) -> dict[str, int]:
        numbers = self._numbers.setdefault(key, {})
        for name, amount in amounts.items():
            numbers[name] = numbers.get(name, 0) + amount
        return {name: numbers[name] for name in amounts}

    def _holds(self, change: Put | Delete) -> bool:
        if isinstance(change, Delete) or change.expected is ANY:
            return True
        row = self.row(change.key)
        return row is None if change.expected == ABSENT else row is not None and row.version == change.expected

    def _make(self, change: Put | Delete) -> None:
        partition = self._partitions.setdefault(change.key.p, _Partition())
        s = change.key.s
        if isinstance(change, Put):
            if s not in partition.rows:
                insort(partition.order, s)
            partition.rows[s] = change.body, change.version
        elif partition.rows.pop(s, None) is not None:
            del partition.order[bisect_left(partition.order, s)]


T = TypeVar("T")


class JobSnapshot(NamedTuple):
    """A job as it was when somebody looked. `workers` can use slots of it, and have `slots` together.

    Of the head there is what a claim looks at; it has no leases.
    """

    head: JobRow
    workers: int
    slots: int


class MemoryJobRows(JobRows):
    """Changes are made one after the other at one instant each, so nobody ever comes second.

    `on_open` is called with a job whose circuit has just opened.
    """

    def __init__(self, table: MemoryTable, on_open: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(table, lambda _: False, lambda _: None)
        self._rows = table
        self._on_open = on_open
        self._heads: dict[str, JobRow] = {}
        self._looks: dict[str, JobSnapshot] = {}
        self._known_standing: dict[str, StartPermission] = {}

    @property
    def rows(self) -> MemoryTable:
        """Where all else is written."""
        return self._rows

    def standing(self, job_id: str) -> StartPermission | None:
        head = self._heads.get(job_id)
        if head is None:
            return None
        known = self._known_standing.get(job_id)
        if known is None:
            fences = frozenset(lease.fence for lease in head.leases if lease.runs)
            known = self._known_standing[job_id] = StartPermission(head.may_start, head.revision, fences)
        return known

    async def find(self, job_id: str) -> JobRow | None:
        return self._heads.get(job_id)

    async def look(self, job_id: str) -> JobRow:
        if job_id not in self._heads:
            raise UnknownName.of("job", job_id, list(self._heads), "nobody ordered it")
        return self._heads[job_id]

    async def look_at(self, numbers: Collection[int]) -> list[JobRow]:
        wanted = set(numbers)
        return sorted((head for head in self._heads.values() if head.number in wanted), key=lambda head: head.number)

    async def change(self, job_id: str, decide: Decide[T], *, just_read: bool = False) -> T:  # noqa: ARG002
        """No change of the store touches its head before it is sure to write it, so no copy has to be made."""
        head = await self.look(job_id)
        closed = head.circuit.opened is None
        change = await decide(head)
        if closed and head.circuit.opened is not None:
            self._on_open(job_id)
        if change.writes:
            self._looks.pop(job_id, None)
            self._known_standing.pop(job_id, None)
            await self._rows.commit(*change.rows)
        return change.answer

    async def create(self, head: JobRow, rows: Sequence[Put | Delete], *, reserved: bool = False) -> bool:  # noqa: ARG002
        self._heads[head.job_id] = head
        return await self._rows.commit(*rows)

    def seen(self) -> list[JobSnapshot]:
        """All jobs that have not ended, as they are now: later changes do not show in it."""
        found = []
        for job_id, head in self._heads.items():
            if head.is_active:
                seen = self._looks.get(job_id)
                if seen is None:
                    seen = self._looks[job_id] = _seen(head)
                found.append(seen)
        return found


class WorkerJobRows(JobRows):
    """The same heads, as one worker knows them: how a job stands it hears with its own changes and looks only."""

    def __init__(self, heads: MemoryJobRows) -> None:
        super().__init__(heads.rows, lambda _: False, lambda _: None)
        self._all = heads
        self._heard: dict[str, StartPermission | None] = {}

    def standing(self, job_id: str) -> StartPermission | None:
        return self._heard.get(job_id)

    def hear(self) -> None:
        """The worker has looked at all jobs."""
        for job_id in self._heard:
            self._heard[job_id] = self._all.standing(job_id)

    async def find(self, job_id: str) -> JobRow | None:
        return await self._all.find(job_id)

    async def look(self, job_id: str) -> JobRow:
        return await self._all.look(job_id)

    async def look_at(self, numbers: Collection[int]) -> list[JobRow]:
        return await self._all.look_at(numbers)

    async def change(self, job_id: str, decide: Decide[T], *, just_read: bool = False) -> T:  # noqa: ARG002
        answer = await self._all.change(job_id, decide)
        self._heard[job_id] = self._all.standing(job_id)
        return answer


def _seen(head: JobRow) -> JobSnapshot:
    shares = {worker: WorkerShare(share.slots, share.demand) for worker, share in head.shares.items()}
    waiting = {bucket: WaitingCounts(each.suspects, each.begun, each.untried) for bucket, each in head.waiting.items()}
    still = msgspec.structs.replace(head, shares=shares, waiting=waiting, leases=[])
    workers = sum(share.demand > 0 for share in shares.values())
    return JobSnapshot(still, workers, sum(share.slots for share in shares.values()))


LEASE_SECONDS: Final = 30.0


class DirectBridge(EventLoopThread):
    """A bridge of no length: the caller's loop does the work."""

    def __init__(self) -> None:
        """Starts no thread."""

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await make()


class RemotePresence(Presence):
    """Every worker is on a machine of its own: of a death the others learn by silence only."""

    def __init__(self, host: str) -> None:
        super().__init__(Path())
        self._host = host

    @property
    def host(self) -> str:
        return self._host

    def enter(self, worker_id: str) -> None:
        """Nobody looks for a file."""

    def knows(self, worker_id: str) -> bool:  # noqa: ARG002 of nobody
        return False

    def running(self, worker_id: str) -> Collection[tuple[int, int]]:  # noqa: ARG002 of nobody
        return frozenset()

    def dead(self) -> list[str]:
        return []

    def is_dead(self, worker_id: str) -> bool:  # noqa: ARG002 of nobody
        return False

    def waiting_for(self) -> WaitingFor | None:
        return None


class WorkerStoreContext(StoreContext):
    """What one process remembers of the table. It sees jobs as they were at its last look."""

    def __init__(self, stores: Stores, host: str) -> None:
        super().__init__(stores.table, stores.time, stores.clock, RemotePresence(host), LEASE_SECONDS, stores.folder)
        self.heads = self._known = WorkerJobRows(stores.heads)
        self.look_seconds = LOOK_SECONDS
        self._stores = stores
        self._worker_id = host
        self._seen_at = float("-inf")
        self._ready: list[JobRow] = []

    async def active_lately(self) -> list[JobRow]:
        """Without jobs of which this worker could get nothing: a claim drops them anyway, after a longer look."""
        now = self._stores.clock.boot()
        if now - self._seen_at >= self.look_seconds:
            self._ready = self._stores.ready(self._worker_id)
            self._seen_at = now
            self._known.hear()
        return self._ready

    def changed(self) -> None:
        self._seen_at = float("-inf")

    def new_lease(self, head: JobRow, worker_id: str, right: LeasePurpose, fence: int) -> HeldLease:
        """What a process has changed itself it knows at its next claim."""
        self.changed()
        return super().new_lease(head, worker_id, right, fence)


class Stores:
    """Makes one for each worker, over one table. `limits` are those of the jobs, by id; `on_open`: see MemoryHeads."""

    def __init__(
        self, clock: Clock, folder: Path, limits: dict[str, int], on_open: Callable[[str], None] = lambda _: None
    ) -> None:
        self.clock = clock
        self.folder = folder
        self.table = MemoryTable()
        self.heads = MemoryJobRows(self.table, on_open)
        self.time = SharedClock(clock)
        self._limits = limits
        self._bridge = DirectBridge()
        self._shared = StoreContext(self.table, self.time, clock, RemotePresence("all"), LEASE_SECONDS, folder)

    def open(self, worker_id: str) -> AwsStore:
        """A worker's store, as a process of its own would have it."""
        return self._joined(WorkerStoreContext(self, worker_id))

    def open_for_all(self, name: str) -> AwsStore:
        """The store of somebody who looks after everything, and sees all of it as it is."""
        ledger = StoreContext(self.table, self.time, self.clock, RemotePresence(name), LEASE_SECONDS, self.folder)
        ledger.heads = self.heads
        return self._joined(ledger)

    def _joined(self, ledger: StoreContext) -> AwsStore:
        """What never changes is there once for all."""
        ledger.orders, ledger.chunks, ledger.ids = self._shared.orders, self._shared.chunks, self._shared.ids
        return AwsStore(self._bridge, ledger)

    def ready(self, worker_id: str) -> list[JobRow]:
        """Jobs of which this worker might be handed something."""
        return [
            seen.head
            for seen in self.heads.seen()
            if seen.head.may_start
            and (seen.head.fresh_left or seen.head.waiting)
            and (
                admits_another_worker(self._limits[seen.head.job_id], seen.workers, seen.slots)
                or worker_id in seen.head.shares
            )
        ]

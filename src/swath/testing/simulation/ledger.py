"""Stores for workers that all live in this process: the AWS store's own code, each as if it had a process of its own.

What would cost a thread, a lock file or a megabyte for each of a thousand workers is replaced; what decides is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from swath.backends.aws.calls.bridge import Bridge
from swath.backends.aws.calls.time import SharedTime
from swath.backends.aws.jobs.head import Head, HeldLease, Right
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.jobs.store import LOOK_SECONDS, AwsStore
from swath.backends.host.presence import Presence
from swath.domain.job import WaitingFor
from swath.domain.lease import has_room
from swath.ports.clock import Clock
from swath.testing.simulation.heads import MemoryHeads, WorkerHeads
from swath.testing.simulation.table import MemoryTable

__all__ = ["Stores"]

T = TypeVar("T")

LEASE_SECONDS: Final = 30.0


class InPlace(Bridge):
    """A bridge of no length: the caller's loop does the work."""

    def __init__(self) -> None:
        """Starts no thread."""

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await make()


class Elsewhere(Presence):
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


class WorkerLedger(Ledger):
    """What one process remembers of the table. It sees jobs as they were at its last look."""

    def __init__(self, stores: Stores, host: str) -> None:
        super().__init__(stores.table, stores.time, stores.clock, Elsewhere(host), LEASE_SECONDS, stores.folder)
        self.heads = self._known = WorkerHeads(stores.heads)
        self.look_seconds = LOOK_SECONDS
        self._stores = stores
        self._worker_id = host
        self._seen_at = float("-inf")
        self._ready: list[Head] = []

    async def active_lately(self) -> list[Head]:
        """Without jobs of which this worker could get nothing: a claim drops them anyway, after a longer look."""
        now = self._stores.clock.boot()
        if now - self._seen_at >= self.look_seconds:
            self._ready = self._stores.ready(self._worker_id)
            self._seen_at = now
            self._known.hear()
        return self._ready

    def changed(self) -> None:
        self._seen_at = float("-inf")

    def new_lease(self, head: Head, worker_id: str, right: Right, fence: int) -> HeldLease:
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
        self.heads = MemoryHeads(self.table, on_open)
        self.time = SharedTime(clock)
        self._limits = limits
        self._bridge = InPlace()
        self._shared = Ledger(self.table, self.time, clock, Elsewhere("all"), LEASE_SECONDS, folder)

    def open(self, worker_id: str) -> AwsStore:
        """A worker's store, as a process of its own would have it."""
        return self._joined(WorkerLedger(self, worker_id))

    def open_for_all(self, name: str) -> AwsStore:
        """The store of somebody who looks after everything, and sees all of it as it is."""
        ledger = Ledger(self.table, self.time, self.clock, Elsewhere(name), LEASE_SECONDS, self.folder)
        ledger.heads = self.heads
        return self._joined(ledger)

    def _joined(self, ledger: Ledger) -> AwsStore:
        """What never changes is there once for all."""
        ledger.orders, ledger.chunks, ledger.ids = self._shared.orders, self._shared.chunks, self._shared.ids
        return AwsStore(self._bridge, ledger)

    def ready(self, worker_id: str) -> list[Head]:
        """Jobs of which this worker might be handed something."""
        return [
            seen.head
            for seen in self.heads.seen()
            if seen.head.may_start
            and (seen.head.fresh_left or seen.head.waiting)
            and (has_room(self._limits[seen.head.job_id], seen.workers, seen.slots) or worker_id in seen.head.shares)
        ]

"""What all parts of the AWS store share: table, caches, clocks, fences, and how long each lease has been silent.

Hosts have no clock in common, so no time that another host wrote is compared with a time of this one: it is only
seen
whether it changes. A process that has just started needs the length of a lease before it calls any lease silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from swath.backends.aws.client.rows import Key
from swath.backends.aws.client.shared_clock import SharedClock
from swath.backends.aws.dynamo.layout import ACTIVE, COUNTERS
from swath.backends.aws.dynamo.table import FORMAT_KEY, Table
from swath.backends.aws.store.item_chunks import ItemChunks
from swath.backends.aws.store.item_ids import ItemIdIndexes
from swath.backends.aws.store.job_row import HeldLease, JobRow, LeasePurpose
from swath.backends.aws.store.job_rows import JobRows
from swath.backends.aws.store.job_specs import JobSpecs
from swath.backends.change_feed import ChangeBroadcaster
from swath.backends.clock import boot_id
from swath.backends.local_presence.worker_locks import Presence
from swath.domain.clock_watch import ClockReading
from swath.domain.errors import LeaseLost
from swath.domain.job import Job, WaitingFor
from swath.domain.lease import Lease, LeaseDirective
from swath.ports.clock import Clock

__all__ = ["GrantedFence", "LeaseClock", "SilenceTracker", "StoreContext", "directive_for", "require_lease"]


class _LeaseSignature(NamedTuple):
    """What a renewal or a rescue changes."""

    heard_at: float
    worker: str
    rescued: bool


class _SeenSignature(NamedTuple):
    """The last sign of a lease, and when it was first seen, on the boot clock."""

    sign: _LeaseSignature
    at: float


class SilenceTracker:
    """Of all leases that this process has looked at and that are still there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, dict[int, _SeenSignature]] = {}  # by job and fence

    def see(self, head: JobRow) -> None:
        """Notes what has changed since the last look at this job."""
        before, now = self._seen.pop(head.number, {}), self._clock.boot()
        seen = {}
        for lease in head.leases:
            sign, known = _LeaseSignature(lease.heard_at, lease.worker, lease.rescued), before.get(lease.fence)
            seen[lease.fence] = known if known is not None and known.sign == sign else _SeenSignature(sign, now)
        if seen:
            self._seen[head.number] = seen

    def see_all(self, heads: Iterable[JobRow]) -> None:
        """The same for every job that has not ended; others are forgotten."""
        former, self._seen = self._seen, {}
        for head in heads:
            if head.number in former:
                self._seen[head.number] = former[head.number]
            self.see(head)

    def silent_seconds(self, head: JobRow, lease: HeldLease) -> float:
        """Since when the lease looks as it does now; 0 for one that was not seen before."""
        seen = self._seen.get(head.number, {}).get(lease.fence)
        return 0.0 if seen is None else self._clock.boot() - seen.at


_ACTIVE_BATCH: Final = 500


class LeaseClock(NamedTuple):
    """One reading: Unix seconds for people, shared time for all that is measured, and how long a lease lasts."""

    now: float
    shared: float
    lease_seconds: float


class GrantedFence(NamedTuple):
    """A fence that no lease had before, and how many leases of items were granted in all, this one included."""

    fence: int
    granted: int


class StoreContext:
    """The table, and what this process remembers of it. `look_seconds`: a claim without a job may choose by heads
    that were read so long ago; the job it chooses is always looked at as it is now."""

    def __init__(
        self, table: Table, time: SharedClock, clock: Clock, presence: Presence, lease_seconds: float, folder: Path
    ) -> None:
        self.table = table
        self.presence = presence
        self.bulletin = ChangeBroadcaster()
        self.heads = JobRows(table, presence.holds, self.tell)
        self.orders = JobSpecs(table)
        self.chunks = ItemChunks(table)
        self.ids = ItemIdIndexes(table, self.chunks, folder)
        self.jobs_of_fences: dict[int, str] = {}
        self.doubts: dict[int, dict[int, bool]] = {}  # by fence: what commits without an answer were about
        self.webhooks_due: dict[Key, float] = {}  # by their rows: when they are due, on the boot clock (outbox.py)
        self.waits: dict[str, WaitingFor | None] = {}  # by worker of this process: what it waits for
        self.signs = SilenceTracker(clock)
        self.look_seconds = 0.0
        self.time = time
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._boot_id = boot_id()
        self._looked: tuple[float, list[JobRow]] | None = None

    def times(self) -> LeaseClock:
        """The present instant."""
        return LeaseClock(self._clock.now(), self.time.now(), self._lease_seconds)

    def clock_reading(self) -> ClockReading:
        """Both clocks of this host, for those who compare them."""
        return ClockReading(self._boot_id, self._clock.boot(), self._clock.now())

    async def active(self) -> list[JobRow]:
        """All jobs that have not ended or are being deleted, as they are now, the oldest first."""
        numbers = [int(row.key.s) async for row in self.table.query(ACTIVE) if row.key != FORMAT_KEY]
        heads: list[JobRow] = []
        for start in range(0, len(numbers), _ACTIVE_BATCH):
            heads += await self.heads.look_at(numbers[start : start + _ACTIVE_BATCH])
        self.signs.see_all(heads)
        self.time.catch_up(max((head.written_at for head in heads), default=0.0))
        self._looked = asyncio.get_running_loop().time(), heads
        return heads

    async def active_lately(self) -> list[JobRow]:
        """The same, or as it was not longer ago than `look_seconds`, but for what this process itself has changed."""
        if self._looked is not None:
            looked_at, heads = self._looked
            if asyncio.get_running_loop().time() - looked_at < self.look_seconds:
                return [self.heads.newest(head) for head in heads]
        return await self.active()

    def changed(self) -> None:
        """This process has made something that others may have to do with: what was seen lately is void."""
        self._looked = None

    def tell(self, job_id: str) -> None:
        """This process has changed a job, or may have."""
        self.bulletin.tell((job_id,))

    async def granted(self) -> int:
        """How many leases of items were granted in all so far."""  # an addition of nothing answers with the number
        counters = await self.table.add(COUNTERS, granted=0)
        return counters["granted"]

    async def grant(self, *, items: bool) -> GrantedFence:
        """Counts a lease and gives it its fence."""
        counters = await self.table.add(COUNTERS, fences=1, granted=int(items))
        return GrantedFence(counters["fences"], counters["granted"])

    async def new_number(self) -> tuple[int, int]:
        """A number that no job had before, and how many leases of items were granted in all so far."""
        counters = await self.table.add(COUNTERS, numbers=1, granted=0)
        return counters["numbers"], counters["granted"]

    def new_lease(self, head: JobRow, worker_id: str, right: LeasePurpose, fence: int) -> HeldLease:
        """Writes a lease into the head."""
        lease = HeldLease(fence, worker_id, self.presence.host, right, head.revision)
        self.extend(lease)
        head.leases.append(lease)
        self.jobs_of_fences[fence] = head.job_id
        return lease

    def extend(self, lease: HeldLease) -> None:
        """Its worker, of this process, has given a sign of life, and says with it what it waits for."""
        times = self.times()
        lease.heard_at, lease.expires_at = times.shared, times.shared + times.lease_seconds
        lease.waiting = self.waits.get(lease.worker)

    def silent_seconds(self, head: JobRow, lease: HeldLease) -> float:
        """For how long at least the lease has shown no sign of life. Of a lease of this process its own clock knows; of
        any other it is how long this process has seen no change (signs.py)."""
        seen_seconds = self.signs.silent_seconds(head, lease)
        if lease.host == self.presence.host and self.presence.holds(lease.worker):
            return max(seen_seconds, self.times().shared - lease.heard_at)
        return seen_seconds

    def is_silent(self, head: JobRow, lease: HeldLease) -> bool:
        """Whether the lease has shown no sign of life for its whole length."""
        return self.silent_seconds(head, lease) >= self._lease_seconds

    def waiting_for(self, head: JobRow) -> WaitingFor | None:
        """What a worker waits for: any of this host, or one of another host that has a lease of the job.

        Of this host the leases are not asked: what they say is written in the background, and behind the truth."""
        self.signs.see(head)
        here = self.presence.host
        away = (lease for lease in head.leases if lease.host != here and not self.is_silent(head, lease))
        return self.presence.waiting_for() or next((lease.waiting for lease in away if lease.waiting), None)

    def right_as_lease(self, head: JobRow, order: Job, lease: HeldLease, due_since: float | None = None) -> Lease:
        """A right to end or to delete, as its worker gets it."""
        return Lease(
            fence=lease.fence,
            job=order,
            worker_id=lease.worker,
            lease_seconds=self._lease_seconds,
            revision=lease.revision,
            stopping=head.stopping,
            due_since=due_since,
        )

    async def jobs_with(self, fences: Collection[int]) -> dict[int, str]:
        """The jobs of these leases. Of those that this process did not hand out itself all active jobs are asked."""
        found = {fence: self.jobs_of_fences[fence] for fence in fences if fence in self.jobs_of_fences}
        if len(found) < len(set(fences)):
            for head in await self.active():
                found.update({lease.fence: head.job_id for lease in head.leases if lease.fence in fences})
        return found


def require_lease(head: JobRow, lease: Lease, right: LeasePurpose) -> HeldLease:
    """The right that the worker holds. Raises LeaseLost."""
    held = head.lease(lease.fence, right)
    if held is None or held.worker != lease.worker_id:
        raise LeaseLost(f"the right to {right} job {lease.job.job_id!r} was taken away")
    return held


def directive_for(head: JobRow, lease: HeldLease) -> LeaseDirective:
    """What the worker is to do with a lease that it holds."""
    if lease.right is not LeasePurpose.RUN or (head.may_start and head.revision == lease.revision):
        return LeaseDirective.GO_ON
    return LeaseDirective.STOP

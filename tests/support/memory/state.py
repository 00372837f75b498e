"""What the in-memory store keeps of jobs, items and leases, and how they look from outside.

Every public method of the store holds the state open, so it is one commit.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from swath.backends.change_feed import ChangeBroadcaster
from swath.domain.circuit_breaker import JobCircuit, release_allowance
from swath.domain.clock_watch import ClockReading, ClockWatch, observe
from swath.domain.errors import StoreUnavailable, UnknownName
from swath.domain.item import (
    Attempt,
    EarlierEnd,
    EndedItem,
    HandedBackItem,
    Item,
    ItemRecord,
    SuccessOutcome,
    TryCounts,
)
from swath.domain.job import (
    Counts,
    EndingProgress,
    EndingStep,
    Job,
    JobEnding,
    JobStatus,
    StopReason,
    WaitingFor,
    job_ending,
)
from swath.domain.lease import LeasedItem
from swath.domain.service_key import ServiceKey
from swath.domain.throughput import Throughput, average_rate, current_rate, start_measuring
from swath.domain.transitions import ItemState, JobState
from swath.domain.webhook import Webhook
from swath.ports.clock import Clock
from swath.ports.job_store import BatchResult, ItemBatch, LoadStart

__all__ = ["LeasePurpose", "MemoryState", "StoredItem", "StoredJob", "StoredLease", "StoredShare"]


@dataclass(slots=True)
class StoredItem:
    """An item. `fence` is that of the lease which holds it or has ended it, 0 when nobody does.

    `came_back` orders items that were leased before (they go first); `due` is when it may be leased, by the boot clock.
    `past` is its end in this generation, if it has ended, and `earlier` are those before.
    """

    item: Item
    fence: int = 0
    due: float = 0.0
    came_back: bool = False
    tries: TryCounts = field(default_factory=TryCounts)
    attempts: tuple[Attempt, ...] = ()
    suspect: bool = False
    silences: int = 0  # of its workers while it ran alone, since it was last tried
    past: EarlierEnd | None = None
    earlier: tuple[EarlierEnd, ...] = ()

    @property
    def ended(self) -> EndedItem | None:
        """How it has ended in this generation."""
        return None if self.past is None else self.past.end

    @property
    def never_began(self) -> bool:
        """Whether no attempt at it is known."""
        return not self.suspect and not self.attempts and self.tries == TryCounts()

    def leased(self) -> LeasedItem:
        """The item as its next worker gets it."""
        return LeasedItem(self.item.seq, self.item.item_id, self.item.input, self.tries, self.attempts)

    def give_back(self, due: float = 0.0) -> None:
        """Nobody holds it any more."""
        self.fence, self.due, self.came_back = 0, due, True

    def take_progress(self, back: HandedBackItem) -> None:
        """What its worker did to it; a suspect that was tried and killed nobody is none any more."""
        tried = (back.tries, back.attempts) != (self.tries, self.attempts)
        self.suspect = self.suspect and not tried
        self.silences = 0 if tried else self.silences
        self.tries, self.attempts = back.tries, back.attempts

    def begin_again(self) -> None:
        """A new generation: its end becomes one of the earlier ones."""
        assert self.past is not None
        self.earlier += (self.past,)
        self.past, self.fence, self.due, self.came_back = None, 0, 0.0, False
        self.tries, self.attempts, self.suspect, self.silences = TryCounts(), (), False, 0


class LeasePurpose(Enum):
    """What a lease allows its worker."""

    RUN = "run"
    END = "end"
    DELETE = "delete"


@dataclass(slots=True)
class StoredLease:
    """A lease. `worker_id` is who answers for it: its worker, or, once `rescued`, the one that cleans up after it."""

    fence: int
    job_id: str
    worker_id: str
    right: LeasePurpose
    revision: int
    heard_at: float = 0.0
    expires_at: float = 0.0
    seqs: tuple[int, ...] = ()
    alone: bool = False
    running: set[int] = field(default_factory=set)  # begun and not left
    rescued: bool = False
    progress: EndingProgress | None = None  # of the right to end a job


@dataclass(slots=True)
class StoredShare:
    """What a worker with leases of a job has of its concurrency, and what it last reported, over all these leases."""

    slots: int = 0
    demand: int = 0
    queued: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()


@dataclass(slots=True)
class StoredJob:
    """A job with its items by `seq`, its batches in order, and its counters. `first_order` is what was submitted.

    `served` is how many leases had been granted in all when it last got one, or when it became ready to run.
    """

    order: Job
    number: int
    first_order: Job
    revision: int = 0
    state: JobState = JobState.LOADING
    stopping: StopReason | None = None
    deleting: bool = False
    generation: int = 1
    circuit: JobCircuit = field(default_factory=JobCircuit)
    served: int = 0
    shares: dict[str, StoredShare] = field(default_factory=dict)  # by worker
    items: dict[int, StoredItem] = field(default_factory=dict)
    total: int = 0
    seqs: dict[str, int] = field(default_factory=dict)
    batches: list[tuple[ItemBatch, BatchResult]] = field(default_factory=list)
    load_starts: dict[str, LoadStart] = field(default_factory=dict)  # by key
    ending_deaths: int = 0
    ending_due: float = 0.0  # by the boot clock: before then nobody tries to end it
    ended: dict[ItemState, int] = field(default_factory=lambda: dict.fromkeys(ItemState, 0))
    not_found: int = 0
    cost: float = 0.0  # of its ended items, over all generations
    failures: dict[str, int] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    pace: Throughput = field(default_factory=Throughput)
    ran_before: int = 0  # items that were run by earlier generations
    manifest: Mapping[str, Any] | None = None
    webhooks: dict[int, Webhook] = field(default_factory=dict)  # by generation
    versions: int = 1
    current_version: int = 1
    scraper_versions: tuple[str, ...] = ()

    @property
    def limit(self) -> int:
        """Items that may run at once."""
        return self.order.policy.throttling.max_concurrent_workers

    @property
    def rows(self) -> int:
        """Of its source, so far."""
        return sum(batch.rows for batch, _ in self.batches)

    @property
    def remaining(self) -> int:
        """Items that have not ended, by the counters."""
        return self.total - sum(self.ended.values())

    @property
    def may_start(self) -> bool:
        """Whether items of it may be leased and started."""
        return self.state in (JobState.PENDING, JobState.RUNNING) and self.stopping is None and not self.deleting

    def claimable(self, boot: float) -> list[StoredItem]:
        """Items that may be leased now: suspects, then what came back, by the time it was due, then the fresh ones.

        Of those that never began only as many as the circuit has not yet released.
        """
        free = [i for i in self.items.values() if i.past is None and not i.fence and i.due <= boot]
        free.sort(key=lambda i: (not i.suspect, not i.came_back, i.due, i.item.seq))
        most = release_allowance(self.circuit, self.order.policy.circuit_breaker)
        held_back = {i.item.seq for i in [i for i in free if i.never_began][most:]} if most is not None else set()
        return [i for i in free if i.item.seq not in held_back]

    def count(self, end: EndedItem, by: int = 1) -> None:
        """Moves the counters by one ended item, or back."""
        self.ended[end.state] += by
        self.not_found += by if end.finding is SuccessOutcome.NOT_FOUND else 0
        if end.state is ItemState.FAILED and end.failure is not None:
            kind = end.failure.kind.value
            self.failures[kind] = self.failures.get(kind, 0) + by
            if not self.failures[kind]:
                del self.failures[kind]

    def release(self, items: int) -> None:
        """So many items that never began were handed out, or came back if negative."""
        self.circuit = msgspec.structs.replace(self.circuit, released=self.circuit.released + items)

    def close_circuit(self) -> None:
        """A new one, to which all that is held, or has begun and waits, was released."""
        unfinished = [stored for stored in self.items.values() if stored.past is None]
        self.circuit = JobCircuit(released=sum(bool(i.fence) or not i.never_began for i in unfinished))

    def mark(self, boot: float) -> None:
        """Its pace is measured from now on: it has started, or goes on after a break."""
        self.pace = start_measuring(boot)

    @property
    def ran(self) -> int:
        """Items that ended otherwise than by being cancelled, by the counters."""
        return sum(self.ended.values()) - self.ended[ItemState.CANCELLED]

    def items_per_second(self, boot: float) -> float:
        """The present pace; a job that is over has that of its last generation as a whole."""
        if self.state.terminal and self.ended_at is not None:
            return average_rate(self.ran - self.ran_before, self.started_at, self.ended_at)
        return current_rate(self.pace, boot, self.limit)


class MemoryState:
    """All that is stored. Every public method of the store holds them `open`, so it is one commit."""

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        self.clock = clock
        self.lease_seconds = lease_seconds
        self.jobs: dict[str, StoredJob] = {}
        self.leases: dict[int, StoredLease] = {}
        self.granted = 0  # leases of items, over all jobs
        self.waiting: dict[str, WaitingFor] = {}  # what a worker waits for
        self.keys: dict[str, ServiceKey] = {}
        self.key_lives: dict[str, float] = {}  # in seconds of the uptime, for those that expire
        self.watch: ClockWatch | None = None
        self.bulletin = ChangeBroadcaster()
        self._fences = itertools.count(1)
        self._numbers = itertools.count(1)
        self.dead: set[str] = set()
        self.closed = False
        self._lock = threading.Lock()  # the heartbeat comes from another thread
        self._changed: set[str] = set()  # jobs, by the commit under way

    @contextmanager
    def open(self, *job_ids: str) -> Iterator[None]:
        """One caller at a time, who changes these jobs. Raises StoreUnavailable when the store was closed."""
        with self._lock:
            if self.closed:
                raise StoreUnavailable("the store is closed", WaitingFor.STORE)
            self._changed = set(job_ids)
            yield
            changed = self._changed
        self.bulletin.tell(changed)

    def look_at_clocks(self) -> ClockWatch:
        """Compares both clocks once more; a store in memory knows one start of the machine."""
        watch = self.glance_at_clocks()
        if watch.worth_saving_after(self.watch):
            self.watch = watch
        return watch

    def glance_at_clocks(self) -> ClockWatch:
        """The same, and remembers nothing."""
        return observe(self.watch, ClockReading("here", self.clock.boot(), self.clock.now()))

    def touch(self, job_id: str) -> None:
        """The commit under way changes this job too."""
        self._changed.add(job_id)

    def job(self, job_id: str) -> StoredJob:
        """Raises UnknownName."""
        if job_id not in self.jobs:
            raise UnknownName.of("job", job_id, self.jobs, "see `swath jobs list` or GET /jobs")
        return self.jobs[job_id]

    def new_job(self, order: Job) -> StoredJob:
        """Younger than all others."""
        self.jobs[order.job_id] = StoredJob(order, next(self._numbers), order)
        return self.jobs[order.job_id]

    def new_lease(self, worker_id: str, job: StoredJob, right: LeasePurpose) -> StoredLease:
        """Under a fence that no lease had before."""
        fence = next(self._fences)
        self.leases[fence] = StoredLease(fence, job.order.job_id, worker_id, right, job.revision)
        self.extend(self.leases[fence])
        self.touch(job.order.job_id)
        return self.leases[fence]

    def extend(self, lease: StoredLease) -> None:
        """Its worker has given a sign of life."""
        lease.heard_at = self.clock.boot()
        lease.expires_at = lease.heard_at + self.lease_seconds

    def live_lease(self, fence: int, right: LeasePurpose) -> StoredLease | None:
        """The lease of that fence, if it is of that kind and was not taken away."""
        lease = self.leases.get(fence)
        return None if lease is None or lease.rescued or lease.right is not right else lease

    def leases_of(self, job_id: str) -> list[StoredLease]:
        """All leases of a job, the oldest first."""
        return [lease for lease in self.leases.values() if lease.job_id == job_id]

    def end_item(self, job: StoredJob, stored: StoredItem, end: EndedItem, fence: int) -> None:
        """Gives an item its end in this generation, and counts it."""
        stored.past = EarlierEnd(generation=job.generation, ended_at=self.clock.now(), end=end)
        stored.fence = fence
        job.count(end)

    def status(self, job: StoredJob) -> JobStatus:
        """The job as others see it."""
        return JobStatus(
            job=job.order,
            state=job.state,
            generation=job.generation,
            counts=_counts(job),
            failures=dict(sorted(job.failures.items())),
            items_per_second=job.items_per_second(self.clock.boot()),
            started_at=job.started_at,
            ended_at=job.ended_at,
            loaded_rows=job.rows,
            loaded_batches=len(job.batches),
            stopping=job.stopping,
            circuit_opened=job.circuit.opened,
            waiting_for=None if job.state.terminal else self._waiting_for(),
            ending=self._ending(job),
            deleting=job.deleting,
            cost=job.cost,
            manifest=None if job.manifest is None else dict(job.manifest),
            versions=job.versions,
            current_version=job.current_version,
            scraper_versions=job.scraper_versions,
        )

    def _ending(self, job: StoredJob) -> JobEnding | None:
        right = next(
            (x for x in self.leases_of(job.order.job_id) if x.right is LeasePurpose.END and not x.rescued), None
        )
        progress = None if right is None else right.progress or EndingProgress(EndingStep.STARTING)
        return job_ending(progress, job.ending_deaths, job.ending_due - self.clock.boot())

    def _waiting_for(self) -> WaitingFor | None:
        return next((what for worker_id, what in self.waiting.items() if worker_id not in self.dead), None)

    def record(self, job: StoredJob, stored: StoredItem) -> ItemRecord:
        """The item as others see it, but for its earlier ends."""
        if stored.past is None:
            return self._record_of_unfinished(job, stored)
        item, end = stored.item, stored.past.end
        return ItemRecord(
            seq=item.seq,
            item_id=item.item_id,
            input=item.input,
            state=end.state,
            fence=stored.fence,
            finding=end.finding,
            failure=end.failure,
            reason=end.reason,
            attempts=end.attempts,
            artifacts=end.artifacts,
            tries=end.tries,
            scraper_version=end.scraper_version,
            generation=stored.past.generation,
            ended_at=stored.past.ended_at,
        )

    def _record_of_unfinished(self, job: StoredJob, stored: StoredItem) -> ItemRecord:
        item, state = stored.item, ItemState.PENDING
        if stored.fence:  # while it runs, its worker's last report says how far it is
            share = job.shares[self.leases[stored.fence].worker_id]
            state = ItemState.QUEUED if item.seq in share.queued else state
            state = ItemState.IN_PROGRESS if item.seq in share.begun else state
        waits = not stored.fence and stored.due > 0
        return ItemRecord(
            seq=item.seq,
            item_id=item.item_id,
            input=item.input,
            state=state,
            fence=stored.fence,
            attempts=stored.attempts,
            tries=stored.tries,
            not_before=self.clock.now() + stored.due - self.clock.boot() if waits else None,
            suspect=stored.suspect,
        )


def _counts(job: StoredJob) -> Counts:
    queued = sum(len(share.queued) for share in job.shares.values())
    begun = sum(len(share.begun) for share in job.shares.values())
    return Counts(
        pending=job.remaining - queued - begun,
        queued=queued,
        in_progress=begun,
        success=job.ended[ItemState.SUCCESS],
        not_found=job.not_found,
        failed=job.ended[ItemState.FAILED],
        skipped=job.ended[ItemState.SKIPPED],
        cancelled=job.ended[ItemState.CANCELLED],
        total=job.total,
    )

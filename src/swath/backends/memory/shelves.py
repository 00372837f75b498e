"""All that the memory store keeps, and how jobs and items look from outside.

Changed by loading.py (orders and items), control.py (people), claims.py and leases.py (who holds what), finishing.py
(outcomes), endings.py (the last steps of a job) and outbox.py (webhooks and keys).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from swath.backends.bulletin import Bulletin
from swath.backends.memory.records import Right, StoredItem, StoredJob, StoredLease
from swath.domain.attempt import Ended
from swath.domain.clock_watch import ClockReading, ClockWatch, observe
from swath.domain.ending import Ending, EndingProgress, EndingStep, ending_of
from swath.domain.errors import StoreUnavailable, UnknownName
from swath.domain.item import ItemRecord, PastEnd
from swath.domain.job import Counts, Job, JobStatus, WaitingFor
from swath.domain.service_key import ServiceKey
from swath.domain.transitions import ItemState
from swath.ports.clock import Clock

__all__ = ["Shelves"]


class Shelves:
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
        self.bulletin = Bulletin()
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

    def new_lease(self, worker_id: str, job: StoredJob, right: Right) -> StoredLease:
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

    def live_lease(self, fence: int, right: Right) -> StoredLease | None:
        """The lease of that fence, if it is of that kind and was not taken away."""
        lease = self.leases.get(fence)
        return None if lease is None or lease.rescued or lease.right is not right else lease

    def leases_of(self, job_id: str) -> list[StoredLease]:
        """All leases of a job, the oldest first."""
        return [lease for lease in self.leases.values() if lease.job_id == job_id]

    def end_item(self, job: StoredJob, stored: StoredItem, end: Ended, fence: int) -> None:
        """Gives an item its end in this generation, and counts it."""
        stored.past = PastEnd(generation=job.generation, ended_at=self.clock.now(), end=end)
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

    def _ending(self, job: StoredJob) -> Ending | None:
        right = next((x for x in self.leases_of(job.order.job_id) if x.right is Right.END and not x.rescued), None)
        progress = None if right is None else right.progress or EndingProgress(EndingStep.STARTING)
        return ending_of(progress, job.ending_deaths, job.ending_due - self.clock.boot())

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

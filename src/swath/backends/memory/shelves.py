"""All that the memory store keeps, and how jobs and items look from outside.

Changed by jobs.py (orders and items), leases.py (who holds what) and endings.py (the last steps of a job).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from swath.backends.memory.records import StoredItem, StoredJob, StoredLease
from swath.domain.errors import StoreUnavailable, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import Counts, JobStatus
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
        self._fences = itertools.count(1)
        self.dead: set[str] = set()
        self.closed = False
        self._lock = threading.Lock()  # the heartbeat comes from another thread

    @contextmanager
    def open(self) -> Iterator[None]:
        """One caller at a time. Raises StoreUnavailable when the store was closed."""
        with self._lock:
            if self.closed:
                raise StoreUnavailable("the store is closed")
            yield

    def job(self, job_id: str) -> StoredJob:
        """Raises UnknownName."""
        if job_id not in self.jobs:
            raise UnknownName.of("job", job_id, self.jobs, "see `swath jobs list`")
        return self.jobs[job_id]

    def new_lease(self, worker_id: str, job_id: str, *, ending: bool) -> StoredLease:
        """Under a fence that no lease had before."""
        fence = next(self._fences)
        self.leases[fence] = StoredLease(fence, job_id, worker_id, ending, heard_at=0.0, expires_at=0.0)
        self.extend(self.leases[fence])
        return self.leases[fence]

    def extend(self, lease: StoredLease) -> None:
        """Its worker has given a sign of life."""
        lease.heard_at = self.clock.boot()
        lease.expires_at = lease.heard_at + self.lease_seconds

    def live_lease(self, fence: int) -> StoredLease | None:
        """The lease of that fence, unless it was taken away."""
        lease = self.leases.get(fence)
        return None if lease is None or lease.rescued else lease

    def leases_of(self, job_id: str) -> list[StoredLease]:
        """All leases of a job, the oldest first."""
        return [lease for lease in self.leases.values() if lease.job_id == job_id]

    def status(self, job: StoredJob) -> JobStatus:
        """The job as others see it."""
        queued = sum(len(share.queued) for share in job.shares.values())
        begun = sum(len(share.begun) for share in job.shares.values())
        counts = Counts(
            pending=job.remaining - queued - begun,
            queued=queued,
            in_progress=begun,
            success=job.ended[ItemState.SUCCESS],
            not_found=job.not_found,
            failed=job.ended[ItemState.FAILED],
            skipped=job.ended[ItemState.SKIPPED],
            cancelled=job.ended[ItemState.CANCELLED],
            total=len(job.items),
        )
        return JobStatus(
            job=job.order,
            state=job.state,
            counts=counts,
            failures=dict(sorted(job.failures.items())),
            items_per_second=job.items_per_second(self.clock.boot()),
            started_at=job.started_at,
            ended_at=job.ended_at,
            loaded_rows=sum(batch.rows for batch, _ in job.batches),
            cancelling=job.cancelling,
            manifest=None if job.manifest is None else dict(job.manifest),
        )

    def record(self, stored: StoredItem) -> ItemRecord:
        """The item as others see it; while it runs, its worker's last report says how far it is."""
        item, end = stored.item, stored.ended
        if end is None:
            state, known = ItemState.PENDING, stored.leased()
            if stored.fence:
                lease = self.leases[stored.fence]
                share = self.jobs[lease.job_id].shares[lease.worker_id]
                state = ItemState.QUEUED if item.seq in share.queued else state
                state = ItemState.IN_PROGRESS if item.seq in share.begun else state
            waits = not stored.fence and stored.due > 0
            return ItemRecord(
                seq=item.seq,
                item_id=item.item_id,
                input=item.input,
                state=state,
                fence=stored.fence,
                attempts=known.attempts,
                tries=known.tries,
                not_before=self.clock.now() + stored.due - self.clock.boot() if waits else None,
            )
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
        )

"""How a job and its items get into the memory store: whole, or batch by batch. After: jobs.py shows them."""

from __future__ import annotations

from swath.backends.memory.records import StoredItem, StoredJob
from swath.backends.memory.shelves import Shelves
from swath.domain.errors import BadInput, Conflict
from swath.domain.item import Item
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState, check_job
from swath.ports.job_store import Batch, Duplicate, Loaded, LoadStart

__all__ = ["MemoryLoading"]


class MemoryLoading:
    """The part of ports/job_store.py that takes jobs in."""

    _shelves: Shelves

    async def submit(self, job: Job) -> JobStatus:
        with self._shelves.open(job.job_id):
            return self._shelves.status(self._submit(job))

    def _submit(self, job: Job) -> StoredJob:
        stored = self._shelves.jobs.get(job.job_id) or self._shelves.new_job(job)
        if stored.deleting:
            raise Conflict.being_deleted(job.job_id)
        if differences := stored.first_order.differences(job):
            raise Conflict.other_order(job.job_id, differences)
        return stored

    async def order(self, job: Job, batch: Batch) -> JobStatus:
        with self._shelves.open(job.job_id):
            _check_alone(job.job_id, batch)
            stored = self._submit(job)
            self._load(stored, batch)
            return self._seal(stored, 1)

    async def begin_load(self, job_id: str, key: str) -> LoadStart:
        with self._shelves.open(job_id):
            job = self._shelves.job(job_id)
            if key not in job.load_starts:
                _check_open(job)
                job.load_starts[key] = LoadStart(len(job.batches), job.rows)
            return job.load_starts[key]

    async def load(self, job_id: str, batch: Batch) -> Loaded:
        with self._shelves.open(job_id):
            return self._load(self._shelves.job(job_id), batch)

    def _load(self, job: StoredJob, batch: Batch) -> Loaded:
        if batch.number < len(job.batches):
            return _loaded_before(job, batch)
        _check_open(job)
        if batch.number != len(job.batches):
            raise ValueError(f"batch {batch.number} came where {len(job.batches)} was due")
        loaded = _add(job, batch)
        job.batches.append((batch, loaded))
        return loaded

    async def seal(self, job_id: str, batches: int) -> JobStatus:
        with self._shelves.open(job_id):
            return self._seal(self._shelves.job(job_id), batches)

    def _seal(self, job: StoredJob, batches: int) -> JobStatus:
        if len(job.batches) != batches:
            raise _other_length(job, batches)
        if job.deleting:
            raise Conflict.being_deleted(job.order.job_id)
        if job.state is JobState.LOADING:
            if not job.items:
                raise BadInput(f"job {job.order.job_id!r} has no items; give it at least one")
            check_job(job.state, JobState.PENDING)
            job.state, job.served = JobState.PENDING, self._shelves.granted
        return self._shelves.status(job)

    async def abandon(self, job_id: str) -> None:
        with self._shelves.open(job_id):
            job = self._shelves.job(job_id)
            if job.state is not JobState.LOADING:
                raise Conflict(f"job {job_id!r} is {job.state}, not loading")
            for lease in self._shelves.leases_of(job_id):  # the right to end or delete it
                del self._shelves.leases[lease.fence]
            del self._shelves.jobs[job_id]


def _check_alone(job_id: str, batch: Batch) -> None:
    """What a job of one batch cannot be made of; looked at before anything is changed."""
    if batch.number != 0:
        raise ValueError(f"batch {batch.number} came where 0 was due")
    if not batch.items:
        raise BadInput(f"job {job_id!r} has no items; give it at least one")
    first_rows: dict[str, int] = {}
    for item in batch.items:
        if first_rows.setdefault(item.item_id, item.seq) != item.seq:
            raise Conflict.item_twice(item.item_id, first_rows[item.item_id], item.seq)


def _check_open(job: StoredJob) -> None:
    if job.state is not JobState.LOADING or job.stopping or job.deleting:
        raise Conflict(f"job {job.order.job_id!r} is {job.state} or on its way out; nothing can be added to it")


def _add(job: StoredJob, batch: Batch) -> Loaded:
    rows = [item.seq for item in batch.items]
    if len(set(rows)) < len(rows) or any(row in job.items for row in rows):
        raise ValueError(f"batch {batch.number} holds a row that came before")
    duplicates = []
    for item in batch.items:
        first_seq = job.seqs.setdefault(item.item_id, item.seq)
        if first_seq == item.seq:
            job.items[item.seq] = StoredItem(item)
            job.total += 1
        else:
            duplicates.append(Duplicate(item.seq, item.item_id, first_seq))
    return Loaded(len(batch.items) - len(duplicates), tuple(duplicates))


def _loaded_before(job: StoredJob, batch: Batch) -> Loaded:
    before, loaded = job.batches[batch.number]
    if before.digest != batch.digest:
        told, row = _first_difference(before, batch)
        raise Conflict(f"job {job.order.job_id!r} was loaded with other items: {told}", row)
    return loaded


def _other_length(job: StoredJob, batches: int) -> Conflict:
    rows = [batch.rows for batch, _ in job.batches]
    return Conflict.other_length(job.order.job_id, sum(rows), sum(rows[:batches]) if batches < len(rows) else None)


def _first_difference(before: Batch, now: Batch) -> tuple[str, int | None]:
    """Names the first row that is not what it was. Rows that were refused both times cannot be told apart."""
    old, new = ({item.seq: item for item in batch.items} for batch in (before, now))
    end = max(batch.first_row + batch.rows for batch in (before, now))
    for row in range(min(before.first_row, now.first_row), end):
        if old.get(row) != new.get(row):
            return f"row {row} differs: {_told_apart(old.get(row), new.get(row))}", row
    return f"rows {before.first_row} to {before.first_row + before.rows - 1} differ", None


def _told_apart(old: Item | None, new: Item | None) -> str:
    if old is None or new is None:
        return "it was no item before" if old is None else "it is no item now"
    if old.item_id != new.item_id:
        return f"it was item {old.item_id!r} and is {new.item_id!r}"
    return f"item {old.item_id!r} has another input"

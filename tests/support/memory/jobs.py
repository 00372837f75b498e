"""Creates, loads and reads jobs and items of the in-memory store: its JobStore part."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.item import PAGE_BYTES, ByteBudget, Item, ItemFilter, ItemRecord, item_bytes
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState, check_job
from swath.ports.job_store import BatchResult, ChangeFeed, DuplicateItem, ItemBatch, ItemPage, LoadStart
from tests.support.memory.state import MemoryState, StoredItem, StoredJob

__all__ = ["MemoryJobs", "MemoryLoading"]


class MemoryLoading:
    """The part of ports/job_store.py that takes jobs in."""

    _shelves: MemoryState

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

    async def order(self, job: Job, batch: ItemBatch) -> JobStatus:
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

    async def load(self, job_id: str, batch: ItemBatch) -> BatchResult:
        with self._shelves.open(job_id):
            return self._load(self._shelves.job(job_id), batch)

    def _load(self, job: StoredJob, batch: ItemBatch) -> BatchResult:
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


def _check_alone(job_id: str, batch: ItemBatch) -> None:
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


def _add(job: StoredJob, batch: ItemBatch) -> BatchResult:
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
            duplicates.append(DuplicateItem(item.seq, item.item_id, first_seq))
    return BatchResult(len(batch.items) - len(duplicates), tuple(duplicates))


def _loaded_before(job: StoredJob, batch: ItemBatch) -> BatchResult:
    before, loaded = job.batches[batch.number]
    if before.digest != batch.digest:
        told, row = _first_difference(before, batch)
        raise Conflict(f"job {job.order.job_id!r} was loaded with other items: {told}", row)
    return loaded


def _other_length(job: StoredJob, batches: int) -> Conflict:
    rows = [batch.rows for batch, _ in job.batches]
    return Conflict.other_length(job.order.job_id, sum(rows), sum(rows[:batches]) if batches < len(rows) else None)


def _first_difference(before: ItemBatch, now: ItemBatch) -> tuple[str, int | None]:
    """Names the first row that is not what it was. Rows that were refused both times cannot be told apart."""
    old, new = ({item.seq: item for item in batch.items} for batch in (before, now))
    end = max(batch.first_row + batch.rows for batch in (before, now))
    for row in range(min(before.first_row, now.first_row), end):
        if old.get(row) != new.get(row):
            return f"row {row} differs: {_describe_difference(old.get(row), new.get(row))}", row
    return f"rows {before.first_row} to {before.first_row + before.rows - 1} differ", None


def _describe_difference(old: Item | None, new: Item | None) -> str:
    if old is None or new is None:
        return "it was no item before" if old is None else "it is no item now"
    if old.item_id != new.item_id:
        return f"it was item {old.item_id!r} and is {new.item_id!r}"
    return f"item {old.item_id!r} has another input"


class MemoryJobs(MemoryLoading):
    """See ports/job_store.py for what each method promises."""

    async def status(self, job_id: str) -> JobStatus:
        with self._shelves.open():
            return self._shelves.status(self._shelves.job(job_id))

    async def jobs(
        self, after: str | None = None, limit: int = 100, *, states: Collection[JobState] = (), on_demand: bool = True
    ) -> list[JobStatus]:
        with self._shelves.open():
            newest_first = list(reversed(self._shelves.jobs.values()))
            if after is not None:
                newest_first = newest_first[newest_first.index(self._shelves.job(after)) + 1 :]
            fitting = [
                job
                for job in newest_first
                if (not states or job.state in states) and (on_demand or not job.order.on_demand)
            ]
            return [self._shelves.status(job) for job in fitting[:limit]]

    async def held_by(self) -> str | None:
        return None

    async def items(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[ItemRecord]:
        with self._shelves.open():
            return list(ByteBudget(PAGE_BYTES).take(self._records(job_id, after)[:limit], item_bytes))

    def _records(self, job_id: str, after: int) -> list[ItemRecord]:
        job = self._shelves.job(job_id)
        return [self._shelves.record(job, job.items[seq]) for seq in sorted(job.items) if seq > after]

    async def find_items(self, job_id: str, wanted: ItemFilter, after: int = 0, limit: int = 100) -> ItemPage:
        with self._shelves.open():
            records = self._records(job_id, after)
            fitting, portion = [record for record in records if wanted.takes(record)][:limit], ByteBudget(PAGE_BYTES)
            page = list(portion.take(fitting, item_bytes))
            goes_on = portion.full or (len(page) == limit and page[-1].seq < records[-1].seq)
            return ItemPage(page, page[-1].seq if goes_on else None)

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        with self._shelves.open():
            job = self._shelves.job(job_id)
            if item_id not in job.seqs:
                raise UnknownName(f"there is no item {item_id!r} in job {job_id!r}")
            stored = job.items[job.seqs[item_id]]
            return msgspec.structs.replace(self._shelves.record(job, stored), earlier=stored.earlier)

    def news(self) -> ChangeFeed:
        return self._shelves.bulletin.listen()

    async def close(self) -> None:
        self._shelves.closed = True

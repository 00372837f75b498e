"""How a job comes to be in the AWS store: empty, to be loaded (loading.py), or whole, in one commit.

What is too long for a transaction is written first, under the number of a job that nobody sees yet; if whoever does it
dies, deletion.py takes it away after a while. After: claims.py hands the items out.
"""

from __future__ import annotations

from typing import Final

from swath.backends.aws.calls.rows import Delete, Put
from swath.backends.aws.jobs.deletion import remove_rows, reserve
from swath.backends.aws.jobs.head import Head
from swath.backends.aws.jobs.ids import hash_of, id_rows
from swath.backends.aws.jobs.jobs import status_of
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.jobs.loading import batch_row, input_rows, load, mark_of, seal
from swath.backends.aws.jobs.orders import StaleHead, put_order
from swath.backends.aws.table.layout import ACTIVE, CHUNK_ITEMS, DEMAND, GONE, JOBS, listed_key
from swath.domain.errors import BadInput, Conflict, StoreUnavailable
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.transitions import JobState
from swath.ports.job_store import Batch, Loaded

__all__ = ["order", "submit"]

_TRIES: Final = 20
_COMMIT_ROWS: Final = 80  # of items; a transaction has a hundred rows
_COMMIT_BYTES: Final = 3_000_000  # before they are compressed; a transaction has 4 MB


async def submit(ledger: Ledger, job: Job) -> JobStatus:
    """See JobStore.submit."""
    for _ in range(_TRIES):
        head = await ledger.heads.find(job.job_id)
        try:
            if head is not None:
                return await _as_it_stands(ledger, head, job)
        except StaleHead:
            continue
        number, _ = await ledger.new_number()
        head = Head(number, job.job_id, on_demand=job.on_demand)
        if await ledger.heads.create(head, _first_rows(head, job)):
            return await _made(ledger, head, job)
    raise _too_many(job)


async def order(ledger: Ledger, job: Job, batch: Batch) -> JobStatus:
    """See JobStore.order. Two requests, if the id is free: whether it is shows when the job is written."""
    _check(job, batch)
    is_large = len(batch.items) > _COMMIT_ROWS * CHUNK_ITEMS  # too much to be written in vain
    for _ in range(_TRIES):
        found = await ledger.heads.find(job.job_id) if is_large else None
        if found is None:
            made = await _make(ledger, job, batch)
            if made is not None:
                return await _made(ledger, made, job)
            found = await ledger.heads.find(job.job_id)
        try:
            if found is not None:
                return await _ordered_before(ledger, found, job, batch)
        except StaleHead:
            continue
    raise _too_many(job)


def _check(job: Job, batch: Batch) -> None:
    firsts: dict[str, int] = {}
    for item in batch.items:
        first = firsts.setdefault(item.item_id, item.seq)
        if first != item.seq:
            raise Conflict.item_twice(item.item_id, first, item.seq)
    seqs = {item.seq for item in batch.items}
    if batch.number != 0 or len(seqs) < len(batch.items) or min(seqs, default=1) < 1:
        raise ValueError("the batch of an order has number 0, and rows that count from 1 and come once")
    if not seqs:
        raise BadInput(f"job {job.job_id!r} has no items; give it at least one")


async def _make(ledger: Ledger, job: Job, batch: Batch) -> Head | None:
    """The new job, unless its id is taken."""
    number, granted = await ledger.new_number()
    items = len(batch.items)
    head = Head(
        number,
        job.job_id,
        JobState.PENDING,
        served=granted,
        total=items,
        loaded_rows=batch.rows,
        batches=1,
        last_seq=max(batch.first_row + batch.rows - 1, *(item.seq for item in batch.items)),
        fresh_left=items,
        on_demand=job.on_demand,
    )
    rows = input_rows(number, 0, mark_of(batch), batch.items)
    if head.last_seq > CHUNK_ITEMS:  # in one chunk an item is found without
        rows += id_rows(number, 0, mark_of(batch), ((item.seq, hash_of(item.item_id)) for item in batch.items))
    first = [*_first_rows(head, job), batch_row(number, batch, Loaded(items))]
    if len(rows) <= _COMMIT_ROWS and sum(len(row.body) for row in rows) <= _COMMIT_BYTES:
        made = await ledger.heads.create(head, [*first, *rows])
    else:
        made = await _make_large(ledger, head, first, rows)
    if made:
        ledger.chunks.learn(head, mark_of(batch), batch.items)
    return head if made else None


async def _make_large(ledger: Ledger, head: Head, first: list[Put], rows: list[Put]) -> bool:
    await ledger.table.commit(*reserve(head, ledger.times()))
    await ledger.table.write_many(rows)
    unlisted = Delete(listed_key(GONE, head.number))
    if await ledger.heads.create(head, [*first, unlisted], reserved=True):
        return True
    await remove_rows(ledger, head.number, head.last_seq)
    return False


async def _ordered_before(ledger: Ledger, head: Head, job: Job, batch: Batch) -> JobStatus:
    """Somebody has the id. If it is the same order, it may not have come to its end: then it does now."""
    await _as_it_stands(ledger, head, job)
    await load(ledger, job.job_id, batch)
    return await seal(ledger, job.job_id, 1)


def _first_rows(head: Head, job: Job) -> list[Put]:
    listed = (DEMAND if job.on_demand else JOBS, ACTIVE)
    order = put_order(head.number, 0, job, job)
    return [order, *(Put(listed_key(partition, head.number), job.job_id.encode()) for partition in listed)]


async def _made(ledger: Ledger, head: Head, job: Job) -> JobStatus:
    ledger.orders.learn(head.number, job)
    ledger.changed()
    return await status_of(ledger, head)


async def _as_it_stands(ledger: Ledger, head: Head, job: Job) -> JobStatus:
    if head.deleting:
        raise Conflict.being_deleted(job.job_id)
    if differences := (await ledger.orders.first(head)).differences(job):
        raise Conflict.other_order(job.job_id, differences)
    return await status_of(ledger, head)


def _too_many(job: Job) -> StoreUnavailable:
    return StoreUnavailable(f"too many submit job {job.job_id!r} at once", WaitingFor.STORE)

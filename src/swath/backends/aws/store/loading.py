"""Creates jobs and loads their items, batch by batch, or whole in one commit.

Rows of a batch are written first; they count from the commit on that records the batch and moves the job row. A job
that is too long for one transaction is first written under a number that nobody sees yet; if its writer dies, the
rows
are removed after a while.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from swath.backends.aws.client.rows import Delete, Put, decode_body
from swath.backends.aws.dynamo.layout import (
    ACTIVE,
    CHUNK_ITEMS,
    DEMAND,
    GONE,
    JOBS,
    PART_BYTES,
    batch_key,
    chunk_of,
    input_key,
    listed_key,
    load_key,
    split_into_bodies,
)
from swath.backends.aws.store.deletion import remove_job_row, remove_rows, reserve
from swath.backends.aws.store.item_chunks import LoadedBatch
from swath.backends.aws.store.item_ids import hash_item_id, id_rows
from swath.backends.aws.store.job_row import JobRow
from swath.backends.aws.store.job_rows import JobChange, no_change
from swath.backends.aws.store.job_specs import StaleJobRow, put_job_spec
from swath.backends.aws.store.jobs import status_after, status_of
from swath.backends.aws.store.store_context import StoreContext
from swath.domain.errors import BadInput, Conflict, StoreUnavailable
from swath.domain.item import Item
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.transitions import JobState, check_job
from swath.ports.job_store import BatchResult, DuplicateItem, ItemBatch, LoadStart

__all__ = ["abandon", "batch_row", "begin_load", "input_rows", "load", "mark_of", "order", "seal", "submit"]

_ROW_BYTES: Final = 380_000  # compressed; DynamoDB takes 400 KB with keys and all

_encoder: Final = msgspec.msgpack.Encoder()
_start_decoder: Final = msgspec.msgpack.Decoder(LoadStart)


async def begin_load(ledger: StoreContext, job_id: str, key: str) -> LoadStart:
    """See JobStore.begin_load. The head is written with it, so that no batch comes between."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    async def decide(head: JobRow) -> JobChange[LoadStart]:
        at = load_key(head.number, digest)
        row = (await ledger.table.get(at)).get(at)
        if row is not None:
            return no_change(decode_body(_start_decoder, row))
        if head.state is not JobState.LOADING or head.stopping or head.deleting:
            raise Conflict(f"job {job_id!r} is {head.state} or on its way out; nothing can be added to it")
        start = LoadStart(head.batches, head.loaded_rows)
        return JobChange(start, [Put(at, _encoder.encode(start))])

    return await ledger.heads.change(job_id, decide)


async def load(ledger: StoreContext, job_id: str, batch: ItemBatch) -> BatchResult:
    """See JobStore.load."""

    async def decide(head: JobRow) -> JobChange[_AddedBatch]:
        if batch.number < head.batches:
            return no_change(_AddedBatch(await _loaded_before(ledger, head, batch)))
        if head.state is not JobState.LOADING or head.stopping or head.deleting:
            raise Conflict(f"job {job_id!r} is {head.state} or on its way out; nothing can be added to it")
        _check(head, batch)
        return await _add(ledger, head, batch)

    added = await ledger.heads.change(job_id, decide)
    ledger.ids.extend(added.number, batch.number, added.hashes)
    return added.loaded


class _AddedBatch(NamedTuple):
    """What became of a batch; if it is new, its job and what the index of that is to learn."""

    loaded: BatchResult
    number: int = 0
    hashes: Mapping[bytes, int] = {}


def _check(head: JobRow, batch: ItemBatch) -> None:
    if batch.number != head.batches:
        raise ValueError(f"batch {batch.number} came where {head.batches} was due")
    rows = [item.seq for item in batch.items]
    if len(set(rows)) < len(rows) or (rows and min(rows) <= head.last_seq):
        raise ValueError(f"batch {batch.number} holds a row that came before")


async def _add(ledger: StoreContext, head: JobRow, batch: ItemBatch) -> JobChange[_AddedBatch]:
    """Nothing of what is written here counts before the commit that follows."""
    mark = mark_of(batch)
    index = await ledger.ids.of(head)
    firsts: dict[bytes, int] = {}
    fresh: list[Item] = []
    duplicates: list[DuplicateItem] = []
    for item in batch.items:
        hashed = hash_item_id(item.item_id)
        first = index.find(hashed) or firsts.setdefault(hashed, item.seq)  # rows begin at 1
        if first == item.seq:
            fresh.append(item)
        else:
            duplicates.append(DuplicateItem(item.seq, item.item_id, first))
    rows = input_rows(head.number, batch.number, mark, fresh)
    rows += id_rows(head.number, batch.number, mark, ((seq, hashed) for hashed, seq in firsts.items()))
    await ledger.table.write_many(rows)
    head.batches, head.loaded_rows = head.batches + 1, head.loaded_rows + batch.rows
    head.total, head.fresh_left = head.total + len(fresh), head.fresh_left + len(fresh)
    head.last_seq = max([head.last_seq, batch.first_row + batch.rows - 1, *(item.seq for item in fresh)])
    loaded = BatchResult(len(fresh), tuple(duplicates))
    return JobChange(_AddedBatch(loaded, head.number, firsts), [batch_row(head.number, batch, loaded)])


def mark_of(batch: ItemBatch) -> str:
    """Tells the rows of a batch from those of another content under the same number."""
    return hashlib.blake2b(f"{batch.first_row}/{batch.rows}/{batch.digest}".encode(), digest_size=8).hexdigest()


def batch_row(number: int, batch: ItemBatch, loaded: BatchResult) -> Put:
    """Says what became of a batch, and makes its rows true."""
    pairs = [(each.seq, each.first_seq) for each in loaded.duplicates]
    row = LoadedBatch(batch.first_row, batch.rows, batch.digest, mark_of(batch), loaded.added, pairs)
    return Put(batch_key(number, batch.number), _encoder.encode(row))


def input_rows(number: int, batch: int, mark: str, items: Iterable[Item]) -> list[Put]:
    """The inputs of a batch. Raises BadInput for one that no row can hold."""
    chunks: dict[int, list[object]] = {}
    for item in items:
        chunks.setdefault(chunk_of(item.seq), []).append((item.seq, item.item_id, item.input))
    return [
        _fitting(entries, Put(input_key(number, chunk, batch, mark, part), body))
        for chunk, every in chunks.items()
        for part, (entries, body) in enumerate(split_into_bodies(_encoder, every))
    ]


def _fitting(entries: list[object], put: Put) -> Put:
    if len(entries) == 1 and len(put.body) > PART_BYTES:
        size = len(zlib.compress(put.body, 1))
        if size > _ROW_BYTES:
            (entry,) = entries
            seq = entry[0] if isinstance(entry, tuple) else 0
            raise BadInput(
                f"row {seq}: its input has {size:,} bytes when compressed, and DynamoDB stores {_ROW_BYTES:,} at most; "
                "shorten it or take it out of the file (--bad-rows skip does not), or run the job on SQLite"
            )
    return put


async def _loaded_before(ledger: StoreContext, head: JobRow, batch: ItemBatch) -> BatchResult:
    before = await ledger.chunks.batch(head.number, batch.number)
    if before is None:
        raise StaleJobRow
    if before.digest != batch.digest:
        told, row = await _first_difference(ledger, head, before, batch)
        raise Conflict(f"job {head.job_id!r} was loaded with other items: {told}", row)
    ids = {item.seq: item.item_id for item in batch.items}
    return BatchResult(before.added, tuple(DuplicateItem(seq, ids[seq], first) for seq, first in before.duplicates))


async def _first_difference(
    ledger: StoreContext, head: JobRow, before: LoadedBatch, batch: ItemBatch
) -> tuple[str, int | None]:
    """Names the first row that is not what it was. Of a row that was a duplicate only that much is known."""
    rows = range(before.first_row, before.first_row + before.rows)
    known = await ledger.chunks.items(head, rows)
    left_out = dict(before.duplicates)
    given = {item.seq: item for item in batch.items}
    end = max(before.first_row + before.rows, batch.first_row + batch.rows)
    for row in range(min(before.first_row, batch.first_row), end):
        if row in left_out and row in given:
            first = left_out[row]
            firsts = {**known, **await ledger.chunks.items(head, [first])}
            if first in firsts and firsts[first].item_id == given[row].item_id:
                continue
        if known.get(row) != given.get(row):
            return f"row {row} differs", row
    return f"rows {before.first_row} to {before.first_row + before.rows - 1} differ", None


async def seal(ledger: StoreContext, job_id: str, batches: int) -> JobStatus:
    """See JobStore.seal."""

    async def decide(head: JobRow) -> JobChange[JobRow]:
        if head.batches != batches:
            raise Conflict.other_length(job_id, head.loaded_rows, await _rows_of(ledger, head, batches))
        if head.deleting:
            raise Conflict.being_deleted(job_id)
        if head.state is not JobState.LOADING:
            return no_change(head)
        if not head.total:
            raise BadInput(f"job {job_id!r} has no items; give it at least one")
        check_job(head.state, JobState.PENDING)
        head.state, head.served = JobState.PENDING, await ledger.granted()
        return JobChange(head)

    head = await ledger.heads.change(job_id, decide)
    ledger.changed()
    return await status_after(ledger, head)


async def _rows_of(ledger: StoreContext, head: JobRow, batches: int) -> int | None:
    """How many rows the first so many of its batches have; None if it has fewer batches."""
    if batches > head.batches:
        return None
    if batches <= 0:
        return 0
    last = await ledger.chunks.batch(head.number, batches - 1)
    if last is None:
        raise StaleJobRow
    return last.first_row + last.rows - 1


async def abandon(ledger: StoreContext, job_id: str) -> None:
    """See JobStore.abandon. The id is free before the rows are gone."""

    async def decide(head: JobRow) -> JobChange[JobRow]:
        if head.state is not JobState.LOADING:
            raise Conflict(f"job {job_id!r} is {head.state}, not loading")
        return JobChange(head, remove_job_row(head))

    head = await ledger.heads.change(job_id, decide)
    ledger.changed()
    await remove_rows(ledger, head.number, head.last_seq)


_TRIES: Final = 20
_COMMIT_ROWS: Final = 80  # of items; a transaction has a hundred rows
_COMMIT_BYTES: Final = 3_000_000  # before they are compressed; a transaction has 4 MB


async def submit(ledger: StoreContext, job: Job) -> JobStatus:
    """See JobStore.submit."""
    for _ in range(_TRIES):
        head = await ledger.heads.find(job.job_id)
        try:
            if head is not None:
                return await _status_if_same(ledger, head, job)
        except StaleJobRow:
            continue
        number, _ = await ledger.new_number()
        head = JobRow(number, job.job_id, on_demand=job.on_demand)
        if await ledger.heads.create(head, _first_rows(head, job)):
            return await _status_when_made(ledger, head, job)
    raise _too_many(job)


async def order(ledger: StoreContext, job: Job, batch: ItemBatch) -> JobStatus:
    """See JobStore.order. Two requests, if the id is free: whether it is shows when the job is written."""
    _check_order(job, batch)
    is_large = len(batch.items) > _COMMIT_ROWS * CHUNK_ITEMS  # too much to be written in vain
    for _ in range(_TRIES):
        found = await ledger.heads.find(job.job_id) if is_large else None
        if found is None:
            made = await _make(ledger, job, batch)
            if made is not None:
                return await _status_when_made(ledger, made, job)
            found = await ledger.heads.find(job.job_id)
        try:
            if found is not None:
                return await _complete_order(ledger, found, job, batch)
        except StaleJobRow:
            continue
    raise _too_many(job)


def _check_order(job: Job, batch: ItemBatch) -> None:
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


async def _make(ledger: StoreContext, job: Job, batch: ItemBatch) -> JobRow | None:
    """The new job, unless its id is taken."""
    number, granted = await ledger.new_number()
    items = len(batch.items)
    head = JobRow(
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
        rows += id_rows(number, 0, mark_of(batch), ((item.seq, hash_item_id(item.item_id)) for item in batch.items))
    first = [*_first_rows(head, job), batch_row(number, batch, BatchResult(items))]
    if len(rows) <= _COMMIT_ROWS and sum(len(row.body) for row in rows) <= _COMMIT_BYTES:
        made = await ledger.heads.create(head, [*first, *rows])
    else:
        made = await _make_large(ledger, head, first, rows)
    if made:
        ledger.chunks.learn(head, mark_of(batch), batch.items)
    return head if made else None


async def _make_large(ledger: StoreContext, head: JobRow, first: list[Put], rows: list[Put]) -> bool:
    await ledger.table.commit(*reserve(head, ledger.times()))
    await ledger.table.write_many(rows)
    unlisted = Delete(listed_key(GONE, head.number))
    if await ledger.heads.create(head, [*first, unlisted], reserved=True):
        return True
    await remove_rows(ledger, head.number, head.last_seq)
    return False


async def _complete_order(ledger: StoreContext, head: JobRow, job: Job, batch: ItemBatch) -> JobStatus:
    """Somebody has the id. If it is the same order, it may not have come to its end: then it does now."""
    await _status_if_same(ledger, head, job)
    await load(ledger, job.job_id, batch)
    return await seal(ledger, job.job_id, 1)


def _first_rows(head: JobRow, job: Job) -> list[Put]:
    listed = (DEMAND if job.on_demand else JOBS, ACTIVE)
    order = put_job_spec(head.number, 0, job, job)
    return [order, *(Put(listed_key(partition, head.number), job.job_id.encode()) for partition in listed)]


async def _status_when_made(ledger: StoreContext, head: JobRow, job: Job) -> JobStatus:
    ledger.orders.learn(head.number, job)
    ledger.changed()
    return await status_of(ledger, head)


async def _status_if_same(ledger: StoreContext, head: JobRow, job: Job) -> JobStatus:
    if head.deleting:
        raise Conflict.being_deleted(job.job_id)
    if differences := (await ledger.orders.first(head)).differences(job):
        raise Conflict.other_order(job.job_id, differences)
    return await status_of(ledger, head)


def _too_many(job: Job) -> StoreUnavailable:
    return StoreUnavailable(f"too many submit job {job.job_id!r} at once", WaitingFor.STORE)

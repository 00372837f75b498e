"""How a job and its items get into the AWS store, batch by batch.

Rows of a batch are written first; they count from the commit on that writes the batch down and moves the head. Before:
pipeline/accept. After: claims.py hands the items out.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from swath.backends.aws.chunks import LoadedBatch
from swath.backends.aws.deletion import remove_rows, vanishing
from swath.backends.aws.head import Head
from swath.backends.aws.heads import Change, unchanged
from swath.backends.aws.ids import hash_of, id_rows
from swath.backends.aws.jobs import status_after, status_of
from swath.backends.aws.layout import ACTIVE, JOBS, PART_BYTES, batch_key, chunk_of, in_parts, input_key, listed_key
from swath.backends.aws.ledger import Ledger
from swath.backends.aws.orders import StaleHead, put_order
from swath.backends.aws.rows import Put
from swath.domain.errors import BadInput, Conflict, StoreUnavailable
from swath.domain.item import Item
from swath.domain.job import Job, JobStatus, WaitingFor
from swath.domain.transitions import JobState, check_job
from swath.ports.job_store import Batch, Duplicate, Loaded

__all__ = ["abandon", "load", "seal", "submit"]

_TRIES: Final = 20
_ROW_BYTES: Final = 380_000  # compressed; DynamoDB takes 400 KB with keys and all

_encoder: Final = msgspec.msgpack.Encoder()


async def submit(ledger: Ledger, job: Job) -> JobStatus:
    """See JobStore.submit."""
    for _ in range(_TRIES):
        head = await ledger.heads.find(job.job_id)
        try:
            if head is not None:
                return await _as_it_stands(ledger, head, job)
        except StaleHead:
            continue
        head = Head(await ledger.new_number(), job.job_id)
        listed = [Put(listed_key(partition, head.number), job.job_id.encode()) for partition in (JOBS, ACTIVE)]
        if await ledger.heads.create(head, [put_order(head.number, 0, job, job), *listed]):
            ledger.changed()
            return await status_of(ledger, head)
    raise StoreUnavailable(f"too many submit job {job.job_id!r} at once", WaitingFor.STORE)


async def _as_it_stands(ledger: Ledger, head: Head, job: Job) -> JobStatus:
    if head.deleting:
        raise Conflict.being_deleted(job.job_id)
    if not (await ledger.orders.first(head)).same_order(job):
        raise Conflict(f"job {job.job_id!r} exists with another scraper or policy; choose another job id")
    return await status_of(ledger, head)


async def load(ledger: Ledger, job_id: str, batch: Batch) -> Loaded:
    """See JobStore.load."""

    async def decide(head: Head) -> Change[_Added]:
        if batch.number < head.batches:
            return unchanged(_Added(await _loaded_before(ledger, head, batch)))
        if head.state is not JobState.LOADING or head.stopping or head.deleting:
            raise Conflict(f"job {job_id!r} is {head.state} or on its way out; nothing can be added to it")
        _check(head, batch)
        return await _add(ledger, head, batch)

    added = await ledger.heads.change(job_id, decide)
    ledger.ids.extend(added.number, batch.number, added.hashes)
    return added.loaded


class _Added(NamedTuple):
    """What became of a batch; if it is new, its job and what the index of that is to learn."""

    loaded: Loaded
    number: int = 0
    hashes: Mapping[bytes, int] = {}


def _check(head: Head, batch: Batch) -> None:
    if batch.number != head.batches:
        raise ValueError(f"batch {batch.number} came where {head.batches} was due")
    rows = [item.seq for item in batch.items]
    if len(set(rows)) < len(rows) or (rows and min(rows) <= head.last_seq):
        raise ValueError(f"batch {batch.number} holds a row that came before")


async def _add(ledger: Ledger, head: Head, batch: Batch) -> Change[_Added]:
    """Nothing of what is written here counts before the commit that follows."""
    mark = hashlib.blake2b(f"{batch.first_row}/{batch.rows}/{batch.digest}".encode(), digest_size=8).hexdigest()
    index = await ledger.ids.of(head)
    firsts: dict[bytes, int] = {}
    fresh: list[Item] = []
    duplicates: list[Duplicate] = []
    for item in batch.items:
        hashed = hash_of(item.item_id)
        first = index.find(hashed) or firsts.setdefault(hashed, item.seq)  # rows begin at 1
        if first == item.seq:
            fresh.append(item)
        else:
            duplicates.append(Duplicate(item.seq, item.item_id, first))
    rows = [_fitting(entries, put) for entries, put in _input_rows(head.number, batch.number, mark, fresh)]
    rows += id_rows(head.number, batch.number, mark, ((seq, hashed) for hashed, seq in firsts.items()))
    await ledger.table.write_many(rows)
    pairs = [(each.seq, each.first_seq) for each in duplicates]
    row = LoadedBatch(batch.first_row, batch.rows, batch.digest, mark, len(fresh), pairs)
    head.batches, head.loaded_rows = head.batches + 1, head.loaded_rows + batch.rows
    head.total, head.fresh_left = head.total + len(fresh), head.fresh_left + len(fresh)
    head.last_seq = max([head.last_seq, batch.first_row + batch.rows - 1, *(item.seq for item in fresh)])
    loaded = Loaded(len(fresh), tuple(duplicates))
    added = _Added(loaded, head.number, firsts)
    return Change(added, [Put(batch_key(head.number, batch.number), _encoder.encode(row))])


def _input_rows(number: int, batch: int, mark: str, items: Iterable[Item]) -> list[tuple[list[object], Put]]:
    """The rows of a batch, each with the entries that it holds."""
    chunks: dict[int, list[object]] = {}
    for item in items:
        chunks.setdefault(chunk_of(item.seq), []).append((item.seq, item.item_id, item.input))
    return [
        (entries, Put(input_key(number, chunk, batch, mark, part), body))
        for chunk, every in chunks.items()
        for part, (entries, body) in enumerate(in_parts(_encoder, every))
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


async def _loaded_before(ledger: Ledger, head: Head, batch: Batch) -> Loaded:
    before = await ledger.chunks.batch(head.number, batch.number)
    if before is None:
        raise StaleHead
    if before.digest != batch.digest:
        told, row = await _first_difference(ledger, head, before, batch)
        raise Conflict(f"job {head.job_id!r} was loaded with other items: {told}", row)
    ids = {item.seq: item.item_id for item in batch.items}
    return Loaded(before.added, tuple(Duplicate(seq, ids[seq], first) for seq, first in before.duplicates))


async def _first_difference(ledger: Ledger, head: Head, before: LoadedBatch, batch: Batch) -> tuple[str, int | None]:
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


async def seal(ledger: Ledger, job_id: str, batches: int) -> JobStatus:
    """See JobStore.seal."""

    async def decide(head: Head) -> Change[Head]:
        if head.batches != batches:
            raise Conflict.other_length(job_id, head.loaded_rows, await _rows_of(ledger, head, batches))
        if head.deleting:
            raise Conflict.being_deleted(job_id)
        if head.state is not JobState.LOADING:
            return unchanged(head)
        if not head.total:
            raise BadInput(f"job {job_id!r} has no items; give it at least one")
        check_job(head.state, JobState.PENDING)
        head.state, head.served = JobState.PENDING, await ledger.granted()
        return Change(head)

    head = await ledger.heads.change(job_id, decide)
    ledger.changed()
    return await status_after(ledger, head)


async def _rows_of(ledger: Ledger, head: Head, batches: int) -> int | None:
    """How many rows the first so many of its batches have; None if it has fewer batches."""
    if batches > head.batches:
        return None
    if batches <= 0:
        return 0
    last = await ledger.chunks.batch(head.number, batches - 1)
    if last is None:
        raise StaleHead
    return last.first_row + last.rows - 1


async def abandon(ledger: Ledger, job_id: str) -> None:
    """See JobStore.abandon. The id is free before the rows are gone."""

    async def decide(head: Head) -> Change[Head]:
        if head.state is not JobState.LOADING:
            raise Conflict(f"job {job_id!r} is {head.state}, not loading")
        return Change(head, vanishing(head))

    head = await ledger.heads.change(job_id, decide)
    ledger.changed()
    await remove_rows(ledger, head.number, head.last_seq)

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

from swath.backends.aws.calls.rows import Put, decoded
from swath.backends.aws.jobs.chunks import LoadedBatch
from swath.backends.aws.jobs.deletion import remove_rows, vanishing
from swath.backends.aws.jobs.head import Head
from swath.backends.aws.jobs.heads import Change, unchanged
from swath.backends.aws.jobs.ids import hash_of, id_rows
from swath.backends.aws.jobs.jobs import status_after
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.jobs.orders import StaleHead
from swath.backends.aws.table.layout import PART_BYTES, batch_key, chunk_of, in_parts, input_key, load_key
from swath.domain.errors import BadInput, Conflict
from swath.domain.item import Item
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState, check_job
from swath.ports.job_store import Batch, Duplicate, Loaded, LoadStart

__all__ = ["abandon", "batch_row", "begin_load", "input_rows", "load", "mark_of", "seal"]

_ROW_BYTES: Final = 380_000  # compressed; DynamoDB takes 400 KB with keys and all

_encoder: Final = msgspec.msgpack.Encoder()
_start_decoder: Final = msgspec.msgpack.Decoder(LoadStart)


async def begin_load(ledger: Ledger, job_id: str, key: str) -> LoadStart:
    """See JobStore.begin_load. The head is written with it, so that no batch comes between."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    async def decide(head: Head) -> Change[LoadStart]:
        at = load_key(head.number, digest)
        row = (await ledger.table.get(at)).get(at)
        if row is not None:
            return unchanged(decoded(_start_decoder, row))
        if head.state is not JobState.LOADING or head.stopping or head.deleting:
            raise Conflict(f"job {job_id!r} is {head.state} or on its way out; nothing can be added to it")
        start = LoadStart(head.batches, head.loaded_rows)
        return Change(start, [Put(at, _encoder.encode(start))])

    return await ledger.heads.change(job_id, decide)


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
    mark = mark_of(batch)
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
    rows = input_rows(head.number, batch.number, mark, fresh)
    rows += id_rows(head.number, batch.number, mark, ((seq, hashed) for hashed, seq in firsts.items()))
    await ledger.table.write_many(rows)
    head.batches, head.loaded_rows = head.batches + 1, head.loaded_rows + batch.rows
    head.total, head.fresh_left = head.total + len(fresh), head.fresh_left + len(fresh)
    head.last_seq = max([head.last_seq, batch.first_row + batch.rows - 1, *(item.seq for item in fresh)])
    loaded = Loaded(len(fresh), tuple(duplicates))
    return Change(_Added(loaded, head.number, firsts), [batch_row(head.number, batch, loaded)])


def mark_of(batch: Batch) -> str:
    """Tells the rows of a batch from those of another content under the same number."""
    return hashlib.blake2b(f"{batch.first_row}/{batch.rows}/{batch.digest}".encode(), digest_size=8).hexdigest()


def batch_row(number: int, batch: Batch, loaded: Loaded) -> Put:
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

"""Creates jobs and loads their items, batch by batch.

A batch that is too large for one transaction is written in pieces, and the last one makes it count. Until then the
batch is `unfinished`: its items stand behind the last row of the job, where nobody looks. Loading the same batch
again
continues it, since the same rows come to the same; another batch in its place first removes what there is of it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection, Sequence
from enum import Enum, auto
from functools import cache
from itertools import chain
from typing import Final

import msgspec

from swath.backends.sqlite.database import Database
from swath.backends.sqlite.store.deletion import abandon
from swath.backends.sqlite.store.jobs import decode_job, encode_job, job_row, status
from swath.backends.sqlite.transaction_limits import PAGE_BYTES, first_piece, stored_bytes
from swath.domain.errors import BadInput, Conflict
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState, check_job
from swath.observability.crash_points import reach
from swath.ports.job_store import BatchResult, DuplicateItem, ItemBatch, LoadStart

__all__ = [
    "ItemRow",
    "abandon_in_pieces",
    "begin_load",
    "check_may_load",
    "duplicates",
    "insert_rows",
    "item_rows",
    "load",
    "load_in_pieces",
    "loaded_before",
    "order",
    "order_in_pieces",
    "record_batch",
    "seal",
    "seal_in_pieces",
    "submit",
]

ItemRow = tuple[str, int, bytes]
"""Id, number and input of an item."""

_STATEMENT_ROWS: Final = 250

_loaded_decoder = msgspec.json.Decoder(BatchResult)


def submit(db: sqlite3.Connection, boot: float, job: Job) -> JobStatus:
    """See JobStore.submit."""
    found = db.execute("SELECT deleting, ordered FROM jobs WHERE job_id = ?", (job.job_id,)).fetchone()
    if found is None:
        db.execute(
            "INSERT INTO jobs (job_id, spec, ordered, state, priority, concurrency, on_demand) "
            "VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6)",
            (
                job.job_id,
                encode_job(job),
                JobState.LOADING.value,
                job.priority,
                job.policy.throttling.max_concurrent_workers,
                job.on_demand,
            ),
        )
    elif found[0]:
        raise Conflict.being_deleted(job.job_id)
    elif differences := decode_job(found[1]).differences(job):
        raise Conflict.other_order(job.job_id, differences)
    return status(db, boot, job.job_id)


def order(db: sqlite3.Connection, boot: float, job: Job, batch: ItemBatch) -> JobStatus:
    """See JobStore.order. Whatever it cannot take takes back the whole transaction."""
    submit(db, boot, job)
    loaded = load(db, job.job_id, batch)
    if loaded.duplicates:
        twice = loaded.duplicates[0]
        raise Conflict.item_twice(twice.item_id, twice.first_seq, twice.seq)
    return seal(db, boot, job.job_id, 1)


def begin_load(db: sqlite3.Connection, job_id: str, key: str) -> LoadStart:
    """See JobStore.begin_load."""
    row = job_row(db, job_id)
    found = db.execute("SELECT number, rows FROM load_keys WHERE job_no = ? AND key = ?", (row["job_no"], key))
    known = found.fetchone()
    if known is not None:
        return LoadStart(*known)
    _check_open(row)
    start = LoadStart(row["batches"], row["loaded_rows"])
    db.execute("INSERT INTO load_keys VALUES (?, ?, ?, ?)", (row["job_no"], key, start.number, start.rows))
    return start


def _check_open(row: sqlite3.Row) -> None:
    if row["state"] != JobState.LOADING or row["stopping"] or row["deleting"]:
        raise Conflict(f"job {row['job_id']!r} is {row['state']} or on its way out; nothing can be added to it")


def load(db: sqlite3.Connection, job_id: str, batch: ItemBatch) -> BatchResult:
    """See JobStore.load, in one transaction: for a batch that is small, and a job in which no other is unfinished."""
    row = job_row(db, job_id)
    loaded = loaded_before(db, row, batch)
    if loaded is None:
        check_may_load(row, batch)
        loaded = _insert(db, row["job_no"], batch, item_rows(batch))
        record_batch(db, row["job_no"], batch, loaded)
    return loaded


def loaded_before(db: sqlite3.Connection, row: sqlite3.Row, batch: ItemBatch) -> BatchResult | None:
    """What became of the batch when it was loaded; None when it was not. Raises Conflict if it was another then."""
    job_no: int = row["job_no"]
    found = db.execute(
        "SELECT digest, loaded FROM batches WHERE job_no = ? AND number = ?", (job_no, batch.number)
    ).fetchone()
    if found is None:
        return None
    if found[0] != batch.digest:
        told, row_number = _first_difference(db, job_no, batch)
        raise Conflict(f"job {row['job_id']!r} was loaded with other items: {told}", row_number)
    return _loaded_decoder.decode(found[1])


def check_may_load(row: sqlite3.Row, batch: ItemBatch) -> None:
    """Raises Conflict when the job takes no batches any more."""
    _check_open(row)
    if batch.number != row["batches"]:
        raise ValueError(f"batch {batch.number} came where {row['batches']} was due")


def record_batch(db: sqlite3.Connection, job_no: int, batch: ItemBatch, loaded: BatchResult) -> None:
    """Makes it true that the batch is loaded: its items count from here on."""
    db.execute(
        "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)",
        (job_no, batch.number, batch.digest, batch.first_row, batch.rows, msgspec.json.encode(loaded)),
    )
    db.execute(
        "UPDATE jobs SET total = total + ?1, fresh = fresh + ?1, batches = batches + 1, "
        "loaded_rows = loaded_rows + ?2, unfinished = NULL WHERE job_no = ?3",
        (loaded.added, batch.rows, job_no),
    )


def item_rows(batch: ItemBatch) -> list[ItemRow]:
    """As the table has them. By item id, because that index is what a large load waits for: each of its pages is then
    visited once a batch."""
    encode = msgspec.json.encode
    return sorted((item.item_id, item.seq, encode(item.input)) for item in batch.items)


def _insert(db: sqlite3.Connection, job_no: int, batch: ItemBatch, rows: Sequence[ItemRow]) -> BatchResult:
    """Writes the items of a batch that are new."""
    added = insert_rows(db, job_no, rows)
    return BatchResult(added, () if added == len(rows) else duplicates(db, job_no, batch))


def insert_rows(db: sqlite3.Connection, job_no: int, rows: Sequence[ItemRow]) -> int:
    """Writes items whose ids are new, and answers with how many these are."""
    added = 0
    for at in range(0, len(rows), _STATEMENT_ROWS):
        group = rows[at : at + _STATEMENT_ROWS]
        added += db.execute(_insert_statement(len(group)), (job_no, *chain.from_iterable(group))).rowcount
    return added


@cache
def _insert_statement(rows: int) -> str:
    """Many rows in one step of SQLite, during which the reading thread has the interpreter for itself."""
    values = ", ".join(f"(?1, ?{n}, ?{n + 1}, ?{n + 2})" for n in range(2, 3 * rows + 2, 3))
    return f"INSERT OR IGNORE INTO items (job_no, item_id, seq, input) VALUES {values}"  # noqa: S608 only numbers


def duplicates(db: sqlite3.Connection, job_no: int, batch: ItemBatch) -> tuple[DuplicateItem, ...]:
    """The rows of a batch whose ids earlier rows have."""
    found = []
    for item in batch.items:
        (first,) = db.execute(
            "SELECT seq FROM items WHERE job_no = ? AND item_id = ?", (job_no, item.item_id)
        ).fetchone()
        if first != item.seq:
            found.append(DuplicateItem(item.seq, item.item_id, first))
    return tuple(found)


def _first_difference(db: sqlite3.Connection, job_no: int, batch: ItemBatch) -> tuple[str, int | None]:
    first_row, rows = db.execute(
        "SELECT first_row, rows FROM batches WHERE job_no = ? AND number = ?", (job_no, batch.number)
    ).fetchone()
    known = {
        seq: (item_id, input_)
        for seq, item_id, input_ in db.execute(
            "SELECT seq, item_id, input FROM items WHERE job_no = ? AND seq BETWEEN ? AND ?",
            (job_no, first_row, first_row + rows - 1),
        )
    }
    given = {item.seq: (item.item_id, msgspec.json.encode(item.input)) for item in batch.items}
    for seq in range(first_row, max(first_row + rows, batch.first_row + batch.rows)):
        if known.get(seq) != given.get(seq) and not _was_duplicate(db, job_no, seq, given):
            return f"row {seq} differs", seq
    return f"rows {first_row} to {first_row + rows - 1} differ", None


def _was_duplicate(db: sqlite3.Connection, job_no: int, seq: int, given: dict[int, tuple[str, bytes]]) -> bool:
    """A row left out because its id came earlier is missing from the items without being a difference."""
    if seq not in given:
        return False
    first = db.execute("SELECT seq FROM items WHERE job_no = ? AND item_id = ?", (job_no, given[seq][0])).fetchone()
    return first is not None and first[0] < seq


def seal(db: sqlite3.Connection, boot: float, job_id: str, batches: int) -> JobStatus:
    """See JobStore.seal."""
    row = job_row(db, job_id)
    if row["batches"] != batches:
        (given,) = db.execute(
            "SELECT coalesce(sum(rows), 0) FROM batches WHERE job_no = ? AND number < ?", (row["job_no"], batches)
        ).fetchone()
        raise Conflict.other_length(job_id, row["loaded_rows"], given if batches < row["batches"] else None)
    if row["deleting"]:
        raise Conflict.being_deleted(job_id)
    if row["state"] == JobState.LOADING:
        if row["total"] == 0:
            raise BadInput(f"job {job_id!r} has no items; give it at least one")
        check_job(JobState.LOADING, JobState.PENDING)
        db.execute(
            "UPDATE jobs SET state = ?, served = (SELECT value FROM meta WHERE key = 'granted') WHERE job_no = ?",
            (JobState.PENDING.value, row["job_no"]),
        )
    return status(db, boot, job_id)


_ENCODED_INLINE: Final = 100  # rows that are encoded in no time
_CLEARED: Final = 1_000  # rows of an unfinished batch, in one transaction
_BEING_CLEARED: Final = ""  # in the place of a digest


class _NextStep(Enum):
    """What is next for somebody who loads a batch in pieces."""

    CLEAR = auto()
    GO_ON = auto()


async def load_in_pieces(database: Database, job_id: str, batch: ItemBatch) -> BatchResult:
    """See JobStore.load."""

    def news(_: object) -> Collection[str]:
        return (job_id,)

    pieces = await _pieces(batch)
    while isinstance(turn := await database.write_news(news, _begin, job_id, batch, whole=len(pieces) == 1), _NextStep):
        if turn is _NextStep.GO_ON:
            for piece in pieces:
                await database.write(_add, job_id, batch, piece)
                reach("after_load_piece")
            return await database.write_news(news, _close, job_id, batch)
    return turn


async def _pieces(batch: ItemBatch) -> list[Sequence[ItemRow]]:
    """The rows of a batch, as one transaction after the other writes them."""
    if len(batch.items) <= _ENCODED_INLINE:
        return _cut(item_rows(batch))
    return await asyncio.to_thread(lambda: _cut(item_rows(batch)))  # so that the event loop can go on


def _cut(rows: Sequence[ItemRow]) -> list[Sequence[ItemRow]]:
    """In the worst case every row changes a page of the index alone."""
    pieces: list[Sequence[ItemRow]] = []
    while rows or not pieces:
        count = first_piece((1, PAGE_BYTES + len(item_id) + stored_bytes(len(data))) for item_id, _, data in rows)
        pieces.append(rows[:count])
        rows = rows[count:]
    return pieces


def _begin(db: sqlite3.Connection, job_id: str, batch: ItemBatch, *, whole: bool) -> BatchResult | _NextStep:
    row = job_row(db, job_id)
    known = loaded_before(db, row, batch)
    if known is not None:
        return known
    check_may_load(row, batch)
    if row["unfinished"] not in {None, batch.digest} and not _is_cleared(db, row):
        return _NextStep.CLEAR
    if whole and row["unfinished"] != batch.digest:
        return load(db, job_id, batch)
    db.execute("UPDATE jobs SET unfinished = ? WHERE job_no = ?", (batch.digest, row["job_no"]))
    return _NextStep.GO_ON


def _is_cleared(db: sqlite3.Connection, row: sqlite3.Row) -> bool:
    """Removes a piece of an unfinished batch; True when it was the last."""
    if row["unfinished"] is None:
        return True
    found = db.execute(
        "SELECT seq, length(item_id) + length(input) FROM items WHERE job_no = ? AND seq > ? ORDER BY seq LIMIT ?",
        (row["job_no"], row["loaded_rows"], _CLEARED),
    ).fetchall()
    count = first_piece((1, PAGE_BYTES + stored_bytes(size)) for _, size in found)
    if count:
        db.execute(
            "DELETE FROM items WHERE job_no = ? AND seq > ? AND seq <= ?",
            (row["job_no"], row["loaded_rows"], found[count - 1][0]),
        )
    cleared = count == len(found) < _CLEARED
    left = None if cleared else _BEING_CLEARED
    db.execute("UPDATE jobs SET unfinished = ? WHERE job_no = ?", (left, row["job_no"]))
    return cleared


def _add(db: sqlite3.Connection, job_id: str, batch: ItemBatch, piece: Sequence[ItemRow]) -> None:
    row = job_row(db, job_id)
    if loaded_before(db, row, batch) is None:  # somebody who loads the same may have been faster
        _check_ours(row, batch)
        insert_rows(db, row["job_no"], piece)


def _check_ours(row: sqlite3.Row, batch: ItemBatch) -> None:
    check_may_load(row, batch)
    if row["unfinished"] != batch.digest:
        raise Conflict(
            f"another process is loading other items into job {row['job_id']!r}; load into it from one place"
        )


def _close(db: sqlite3.Connection, job_id: str, batch: ItemBatch) -> BatchResult:
    row = job_row(db, job_id)
    known = loaded_before(db, row, batch)
    if known is not None:
        return known
    _check_ours(row, batch)
    (added,) = db.execute(
        "SELECT count(*) FROM items WHERE job_no = ? AND seq > ?", (row["job_no"], row["loaded_rows"])
    ).fetchone()
    left_out = () if added == len(batch.items) else duplicates(db, row["job_no"], batch)
    loaded = BatchResult(added, left_out)
    record_batch(db, row["job_no"], batch, loaded)
    return loaded


async def seal_in_pieces(database: Database, boot: float, job_id: str, batches: int) -> JobStatus:
    """See JobStore.seal. What there is of a batch that never was whole goes first."""
    while (sealed := await database.write_news(lambda _: (job_id,), _seal, boot, job_id, batches)) is None:
        pass
    return sealed


def _seal(db: sqlite3.Connection, boot: float, job_id: str, batches: int) -> JobStatus | None:
    row = job_row(db, job_id)
    if row["state"] == JobState.LOADING and row["batches"] == batches and not _is_cleared(db, row):
        return None
    return seal(db, boot, job_id, batches)


async def order_in_pieces(database: Database, boot: float, job: Job, batch: ItemBatch) -> JobStatus:
    """See JobStore.order."""
    job_id = job.job_id
    if len(await _pieces(batch)) == 1:
        whole = await database.write_news(lambda _: (job_id,), _order, boot, job, batch)
        if whole is not None:
            return whole
    status = await database.write_news(lambda _: (job_id,), submit, boot, job)
    loaded = await load_in_pieces(database, job_id, batch)
    if loaded.duplicates:
        if status.state is JobState.LOADING:
            await abandon_in_pieces(database, job_id)
        twice = loaded.duplicates[0]
        raise Conflict.item_twice(twice.item_id, twice.first_seq, twice.seq)
    return await seal_in_pieces(database, boot, job_id, 1)


def _order(db: sqlite3.Connection, boot: float, job: Job, batch: ItemBatch) -> JobStatus | None:
    found = db.execute("SELECT unfinished FROM jobs WHERE job_id = ?", (job.job_id,)).fetchone()
    return order(db, boot, job, batch) if found in {None, (None,)} else None


async def abandon_in_pieces(database: Database, job_id: str) -> None:
    """See JobStore.abandon. Broken off, it is a deletion that workers finish."""
    while not await database.write_news(lambda _: (job_id,), abandon, job_id):
        pass

"""How a batch that is too large for one transaction gets into the embedded store: in pieces, and the last one counts.

Until then the batch is `unfinished`: its items stand behind the last row of the job, where nobody looks. Whoever loads
the same batch meanwhile goes on with it, since the same rows come to the same; another batch in its place removes what
there is of it first. After: claims.py.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Collection, Sequence
from enum import Enum, auto
from typing import Final

from swath.backends.embedded import loading
from swath.backends.embedded.bounds import PAGE_BYTES, first_piece, stored_bytes
from swath.backends.embedded.database import Database
from swath.backends.embedded.deletion import abandon
from swath.backends.embedded.jobs import row_of
from swath.backends.embedded.loading import ItemRow
from swath.domain.errors import Conflict
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState
from swath.observe.crash_points import reach
from swath.ports.job_store import Batch, Loaded

__all__ = ["abandon_in_pieces", "load_in_pieces", "order_in_pieces", "seal_in_pieces"]

_AT_ONCE: Final = 100  # rows that are encoded in no time
_CLEARED: Final = 1_000  # rows of an unfinished batch, in one transaction
_BEING_CLEARED: Final = ""  # in the place of a digest


class _Turn(Enum):
    """What is next for somebody who loads a batch in pieces."""

    CLEAR = auto()
    GO_ON = auto()


async def load_in_pieces(database: Database, job_id: str, batch: Batch) -> Loaded:
    """See JobStore.load."""

    def news(_: object) -> Collection[str]:
        return (job_id,)

    pieces = await _pieces(batch)
    while isinstance(turn := await database.write_news(news, _begin, job_id, batch, whole=len(pieces) == 1), _Turn):
        if turn is _Turn.GO_ON:
            for piece in pieces:
                await database.write(_add, job_id, batch, piece)
                reach("after_load_piece")
            return await database.write_news(news, _close, job_id, batch)
    return turn


async def _pieces(batch: Batch) -> list[Sequence[ItemRow]]:
    """The rows of a batch, as one transaction after the other writes them."""
    if len(batch.items) <= _AT_ONCE:
        return _cut(loading.rows_of(batch))
    return await asyncio.to_thread(lambda: _cut(loading.rows_of(batch)))  # so that the event loop can go on


def _cut(rows: Sequence[ItemRow]) -> list[Sequence[ItemRow]]:
    """In the worst case every row changes a page of the index alone."""
    pieces: list[Sequence[ItemRow]] = []
    while rows or not pieces:
        count = first_piece((1, PAGE_BYTES + len(item_id) + stored_bytes(len(data))) for item_id, _, data in rows)
        pieces.append(rows[:count])
        rows = rows[count:]
    return pieces


def _begin(db: sqlite3.Connection, job_id: str, batch: Batch, *, whole: bool) -> Loaded | _Turn:
    row = row_of(db, job_id)
    known = loading.stored(db, row, batch)
    if known is not None:
        return known
    loading.check_next(row, batch)
    if row["unfinished"] not in {None, batch.digest} and not _is_cleared(db, row):
        return _Turn.CLEAR
    if whole and row["unfinished"] != batch.digest:
        return loading.load(db, job_id, batch)
    db.execute("UPDATE jobs SET unfinished = ? WHERE job_no = ?", (batch.digest, row["job_no"]))
    return _Turn.GO_ON


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


def _add(db: sqlite3.Connection, job_id: str, batch: Batch, piece: Sequence[ItemRow]) -> None:
    row = row_of(db, job_id)
    if loading.stored(db, row, batch) is None:  # somebody who loads the same may have been faster
        _check_ours(row, batch)
        loading.insert_rows(db, row["job_no"], piece)


def _check_ours(row: sqlite3.Row, batch: Batch) -> None:
    loading.check_next(row, batch)
    if row["unfinished"] != batch.digest:
        raise Conflict(
            f"another process is loading other items into job {row['job_id']!r}; load into it from one place"
        )


def _close(db: sqlite3.Connection, job_id: str, batch: Batch) -> Loaded:
    row = row_of(db, job_id)
    known = loading.stored(db, row, batch)
    if known is not None:
        return known
    _check_ours(row, batch)
    (added,) = db.execute(
        "SELECT count(*) FROM items WHERE job_no = ? AND seq > ?", (row["job_no"], row["loaded_rows"])
    ).fetchone()
    left_out = () if added == len(batch.items) else loading.duplicates(db, row["job_no"], batch)
    loaded = Loaded(added, left_out)
    loading.note(db, row["job_no"], batch, loaded)
    return loaded


async def seal_in_pieces(database: Database, boot: float, job_id: str, batches: int) -> JobStatus:
    """See JobStore.seal. What there is of a batch that never was whole goes first."""
    while (sealed := await database.write_news(lambda _: (job_id,), _seal, boot, job_id, batches)) is None:
        pass
    return sealed


def _seal(db: sqlite3.Connection, boot: float, job_id: str, batches: int) -> JobStatus | None:
    row = row_of(db, job_id)
    if row["state"] == JobState.LOADING and row["batches"] == batches and not _is_cleared(db, row):
        return None
    return loading.seal(db, boot, job_id, batches)


async def order_in_pieces(database: Database, boot: float, job: Job, batch: Batch) -> JobStatus:
    """See JobStore.order."""
    job_id = job.job_id
    if len(await _pieces(batch)) == 1:
        whole = await database.write_news(lambda _: (job_id,), _order, boot, job, batch)
        if whole is not None:
            return whole
    status = await database.write_news(lambda _: (job_id,), loading.submit, boot, job)
    loaded = await load_in_pieces(database, job_id, batch)
    if loaded.duplicates:
        if status.state is JobState.LOADING:
            await abandon_in_pieces(database, job_id)
        twice = loaded.duplicates[0]
        raise Conflict.item_twice(twice.item_id, twice.first_seq, twice.seq)
    return await seal_in_pieces(database, boot, job_id, 1)


def _order(db: sqlite3.Connection, boot: float, job: Job, batch: Batch) -> JobStatus | None:
    found = db.execute("SELECT unfinished FROM jobs WHERE job_id = ?", (job.job_id,)).fetchone()
    return loading.order(db, boot, job, batch) if found in {None, (None,)} else None


async def abandon_in_pieces(database: Database, job_id: str) -> None:
    """See JobStore.abandon. Broken off, it is a deletion that workers finish."""
    while not await database.write_news(lambda _: (job_id,), abandon, job_id):
        pass

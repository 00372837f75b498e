"""How a job and its items get into the embedded store, batch by batch. Each function runs inside one transaction.

Before: pipeline/accept. After: claims.py hands the items out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Final

import msgspec

from swath.backends.embedded.jobs import row_of, status
from swath.backends.embedded.specs import decode_job, encode_job
from swath.domain.errors import BadInput, Conflict
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState, check_job
from swath.ports.job_store import Batch, Duplicate, Loaded, LoadStart

__all__ = ["abandon", "begin_load", "load", "order", "seal", "submit"]

_STATEMENT_ROWS: Final = 250

_loaded_decoder = msgspec.json.Decoder(Loaded)


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


def order(db: sqlite3.Connection, boot: float, job: Job, batch: Batch) -> JobStatus:
    """See JobStore.order. Whatever it cannot take takes back the whole transaction."""
    submit(db, boot, job)
    loaded = load(db, job.job_id, batch)
    if loaded.duplicates:
        twice = loaded.duplicates[0]
        raise Conflict.item_twice(twice.item_id, twice.first_seq, twice.seq)
    return seal(db, boot, job.job_id, 1)


def begin_load(db: sqlite3.Connection, job_id: str, key: str) -> LoadStart:
    """See JobStore.begin_load."""
    row = row_of(db, job_id)
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


def load(db: sqlite3.Connection, job_id: str, batch: Batch) -> Loaded:
    """See JobStore.load."""
    row = row_of(db, job_id)
    job_no: int = row["job_no"]
    stored = db.execute(
        "SELECT digest, loaded FROM batches WHERE job_no = ? AND number = ?", (job_no, batch.number)
    ).fetchone()
    if stored is not None:
        if stored[0] != batch.digest:
            told, row_number = _first_difference(db, job_no, batch)
            raise Conflict(f"job {job_id!r} was loaded with other items: {told}", row_number)
        return _loaded_decoder.decode(stored[1])
    _check_open(row)
    if batch.number != row["batches"]:
        raise ValueError(f"batch {batch.number} came where {row['batches']} was due")
    loaded = _insert(db, job_no, batch)
    db.execute(
        "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)",
        (job_no, batch.number, batch.digest, batch.first_row, batch.rows, msgspec.json.encode(loaded)),
    )
    db.execute(
        "UPDATE jobs SET total = total + ?1, fresh = fresh + ?1, batches = batches + 1, loaded_rows = loaded_rows + ?2 "
        "WHERE job_no = ?3",
        (loaded.added, batch.rows, job_no),
    )
    return loaded


def _insert(db: sqlite3.Connection, job_no: int, batch: Batch) -> Loaded:
    encode = msgspec.json.encode
    # By item id, because that index is what a large load waits for: each of its pages is then visited once a batch.
    rows = sorted((item.item_id, item.seq, encode(item.input)) for item in batch.items)
    added = 0
    for at in range(0, len(rows), _STATEMENT_ROWS):
        group = rows[at : at + _STATEMENT_ROWS]
        added += db.execute(_insert_statement(len(group)), (job_no, *chain.from_iterable(group))).rowcount
    return Loaded(added, () if added == len(rows) else tuple(_duplicates(db, job_no, batch)))


@cache
def _insert_statement(rows: int) -> str:
    """Many rows in one step of SQLite, during which the reading thread has the interpreter for itself."""
    values = ", ".join(f"(?1, ?{n}, ?{n + 1}, ?{n + 2})" for n in range(2, 3 * rows + 2, 3))
    return f"INSERT OR IGNORE INTO items (job_no, item_id, seq, input) VALUES {values}"  # noqa: S608 only numbers


def _duplicates(db: sqlite3.Connection, job_no: int, batch: Batch) -> Iterator[Duplicate]:
    for item in batch.items:
        (first,) = db.execute(
            "SELECT seq FROM items WHERE job_no = ? AND item_id = ?", (job_no, item.item_id)
        ).fetchone()
        if first != item.seq:
            yield Duplicate(item.seq, item.item_id, first)


def _first_difference(db: sqlite3.Connection, job_no: int, batch: Batch) -> tuple[str, int | None]:
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
    row = row_of(db, job_id)
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


def abandon(db: sqlite3.Connection, job_id: str) -> None:
    """See JobStore.abandon."""
    row = row_of(db, job_id)
    if row["state"] != JobState.LOADING:
        raise Conflict(f"job {job_id!r} is {row['state']}, not loading")
    for table in ("leases", "items", "batches", "load_keys", "endings", "jobs"):
        db.execute(f"DELETE FROM {table} WHERE job_no = ?", (row["job_no"],))  # noqa: S608 names are ours

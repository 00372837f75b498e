"""How a job and its items get into the embedded store, batch by batch. Each function runs inside one transaction.

Before: pipeline/accept. After: claims.py hands the items out.
"""

from __future__ import annotations

import sqlite3

import msgspec

from swath.backends.embedded.jobs import decode_job, encode_job, row_of, status
from swath.domain.errors import BadInput, Conflict
from swath.domain.job import Job, JobStatus
from swath.domain.transitions import JobState, check_job
from swath.ports.job_store import Batch, Duplicate, Loaded

__all__ = ["abandon", "load", "seal", "submit"]

_loaded_decoder = msgspec.json.Decoder(Loaded)


def submit(db: sqlite3.Connection, job: Job) -> JobStatus:
    """See JobStore.submit."""
    found = db.execute("SELECT spec FROM jobs WHERE job_id = ?", (job.job_id,)).fetchone()
    if found is None:
        db.execute(
            "INSERT INTO jobs (job_id, spec, state, priority, concurrency) VALUES (?, ?, ?, ?, ?)",
            (
                job.job_id,
                encode_job(job),
                JobState.LOADING.value,
                job.priority,
                job.policy.throttling.max_concurrent_workers,
            ),
        )
    elif not decode_job(found[0]).same_order(job):
        raise Conflict(f"job {job.job_id!r} exists with another scraper or policy; choose another job id")
    return status(db, job.job_id)


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
    if row["state"] != JobState.LOADING or row["cancelling"]:
        raise Conflict(f"job {job_id!r} is {row['state']}; nothing can be added to it")
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
    rows = [(job_no, item.seq, item.item_id, encode(item.input)) for item in batch.items]
    cursor = db.executemany("INSERT OR IGNORE INTO items (job_no, seq, item_id, input) VALUES (?, ?, ?, ?)", rows)
    if cursor.rowcount == len(rows) or not rows:
        return Loaded(len(rows))
    duplicates = []
    for _, seq, item_id, _ in rows:
        (first,) = db.execute("SELECT seq FROM items WHERE job_no = ? AND item_id = ?", (job_no, item_id)).fetchone()
        if first != seq:
            duplicates.append(Duplicate(seq, item_id, first))
    return Loaded(cursor.rowcount, tuple(duplicates))


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


def seal(db: sqlite3.Connection, job_id: str, batches: int) -> JobStatus:
    """See JobStore.seal."""
    row = row_of(db, job_id)
    if row["batches"] != batches:
        raise Conflict(
            f"job {job_id!r} was loaded with other items: it has {row['batches']} batches of rows, not {batches}"
        )
    if row["state"] == JobState.LOADING:
        if row["total"] == 0:
            raise BadInput(f"job {job_id!r} has no items; give it at least one")
        _move(db, row, JobState.PENDING)
    return status(db, job_id)


def _move(db: sqlite3.Connection, row: sqlite3.Row, new: JobState) -> None:
    check_job(JobState(row["state"]), new)
    db.execute("UPDATE jobs SET state = ? WHERE job_no = ?", (new.value, row["job_no"]))


def abandon(db: sqlite3.Connection, job_id: str) -> None:
    """See JobStore.abandon."""
    row = row_of(db, job_id)
    if row["state"] != JobState.LOADING:
        raise Conflict(f"job {job_id!r} is {row['state']}, not loading")
    for table in ("leases", "items", "batches", "jobs"):
        db.execute(f"DELETE FROM {table} WHERE job_no = ?", (row["job_no"],))  # noqa: S608 names are ours

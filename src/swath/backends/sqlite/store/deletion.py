"""Removes the rows of a deleted or expired job, in pieces, by the one worker that holds the right to it.

Each function runs inside one transaction. The files of the job are gone when its rows begin to go.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from swath.backends.sqlite.secure_delete import note_deletion
from swath.backends.sqlite.store import clock_watch
from swath.backends.sqlite.store.jobs import decode_if_readable, job_row
from swath.backends.sqlite.store.leases import LeaseClock, LeasePurpose, grant_job_lease, leased_job_no
from swath.backends.sqlite.transaction_limits import MAX_ROWS, PAGE_BYTES, first_piece, stored_bytes
from swath.domain.errors import Conflict
from swath.domain.lease import Lease
from swath.domain.transitions import JobState

__all__ = ["abandon", "claim_deletion", "clear_lists", "purge"]

_LOOKED_AT: Final = 2_000  # rows in one transaction, of which as many go as it may remove

# What a job has beside its items: the rest of the key of each row, and what it holds. The right to delete goes last.
_TABLES: Final = {
    "waiting": ("rank, due, seq", "0"),
    "shares": ("worker", "length(queued) + length(begun)"),
    "failures": ("kind", "0"),
    "batches": ("number", "length(loaded)"),
    "load_keys": ("key", "0"),
    "webhooks": ("generation", "length(summary) + length(deliveries)"),
    "endings": ("job_no", "0"),
    "leases": ("fence", "length(seqs)"),
}


def claim_deletion(
    db: sqlite3.Connection, times: LeaseClock, worker_id: str, job_id: str | None, without: Collection[str]
) -> Lease | None:
    """See Endings.claim_deletion. Those that are marked are due at 0, so by any clock."""
    due = max(0.0, min(times.now, clock_watch.update(db, times.reading).confirmed_wall))
    cursor = db.execute(
        "SELECT job_no, job_id, revision, stopping, 1 AS deleting, delete_at, spec "
        "FROM jobs AS j INDEXED BY jobs_to_delete "
        "WHERE delete_at <= ?2 AND (?1 IS NULL OR job_id = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.job_no = j.job_no) ORDER BY delete_at, job_no",
        (job_id, due),
    )
    cursor.row_factory = sqlite3.Row
    for job in cursor.fetchall():
        order = decode_if_readable(job["spec"])
        if job["job_id"] not in without and order is not None:
            db.execute("UPDATE jobs SET deleting = 1, delete_at = 0 WHERE job_no = ?", (job["job_no"],))
            return grant_job_lease(db, times, worker_id, job, order, job["delete_at"] or None)
    return None


def purge(db: sqlite3.Connection, lease: Lease, limit: int) -> int | None:
    """See Endings.purge; None when all items are gone and it has to be called again for the rest."""
    job_no = leased_job_no(db, lease, LeasePurpose.DELETE)
    with _secure_delete(db):
        (left,) = db.execute("SELECT total - purged FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
        if _remove_items(db, job_no, limit):
            return max(1, int(left))  # of a batch that is not whole there are rows that nobody has counted
        return 0 if _remove_rest(db, job_no) else None


def abandon(db: sqlite3.Connection, job_id: str) -> bool:
    """See JobStore.abandon. Whether all of the job is gone; else this is called again, or workers go on with it."""
    row = job_row(db, job_id)
    job_no, state = row["job_no"], row["state"]
    if state != JobState.LOADING:
        raise Conflict(f"job {job_id!r} is {state}, not loading")
    with _secure_delete(db):
        if not _remove_items(db, job_no, MAX_ROWS) and _remove_rest(db, job_no):
            return True
    db.execute("UPDATE jobs SET deleting = 1, delete_at = 0 WHERE job_no = ?", (job_no,))
    return False


@contextmanager
def _secure_delete(db: sqlite3.Connection) -> Iterator[None]:
    """Pages of the file that become free are overwritten; scrubbing.py does what is left to do."""
    db.execute("PRAGMA secure_delete = ON")
    try:
        yield
    finally:
        db.execute("PRAGMA secure_delete = FAST")


def _remove_items(db: sqlite3.Connection, job_no: int, limit: int) -> bool:
    """Removes the first items of a job with their ends, as many as one transaction may; False when there are none."""
    rows = db.execute(
        "SELECT i.seq, length(i.input) + length(i.item_id), (SELECT count(*) FROM outcomes AS o "
        "WHERE o.job_no = i.job_no AND o.seq = i.seq), (SELECT coalesce(sum(length(o.ended)), 0) FROM outcomes AS o "
        "WHERE o.job_no = i.job_no AND o.seq = i.seq) FROM items AS i WHERE i.job_no = ? ORDER BY i.seq LIMIT ?",
        (job_no, min(limit, _LOOKED_AT)),
    ).fetchall()
    if not rows:
        return False
    count = first_piece(
        (1 + ends, PAGE_BYTES + stored_bytes(size) + stored_bytes(told)) for _, size, ends, told in rows
    )
    last = rows[count - 1][0]
    for table in ("outcomes", "items"):
        db.execute(f"DELETE FROM {table} WHERE job_no = ? AND seq <= ?", (job_no, last))  # noqa: S608 names are ours
    db.execute("UPDATE jobs SET purged = purged + ? WHERE job_no = ?", (count, job_no))
    return True


def _remove_rest(db: sqlite3.Connection, job_no: int) -> bool:
    """Removes what else a job without items has, as much as one transaction may; True when the job is gone."""
    found: list[tuple[str, str, tuple[Any, ...]]] = []
    for table, (key, size) in _TABLES.items():
        query = f"SELECT {key}, {size} FROM {table} WHERE job_no = ? LIMIT ?"  # noqa: S608 names are ours
        rows = db.execute(query, (job_no, _LOOKED_AT)).fetchall()
        found += [(table, key, row) for row in rows]
        if len(rows) == _LOOKED_AT:
            break
    count = first_piece((1, PAGE_BYTES + stored_bytes(row[-1])) for *_, row in found)
    for table, key, row in found[:count]:
        where = " AND ".join(f"{column} = ?" for column in key.split(", "))
        db.execute(f"DELETE FROM {table} WHERE job_no = ? AND {where}", (job_no, *row[:-1]))  # noqa: S608 names are ours
    if count < len(found) or len(found) >= _LOOKED_AT:
        return False
    db.execute("DELETE FROM jobs WHERE job_no = ?", (job_no,))
    note_deletion(db)
    return True


def clear_lists(db: sqlite3.Connection, job_no: int, first: int, last: int) -> int:
    """Removes a piece of what retries have listed under these ranks, but never the list that the job goes by. Answers
    with how many rows that were, so 0 says that there are no more."""
    rows = db.execute(
        "SELECT rank, seq FROM waiting WHERE job_no = ?1 AND rank BETWEEN ?2 AND ?3 AND rank <> coalesce("
        "(SELECT reopened FROM jobs WHERE job_no = ?1 AND state IN ('pending', 'running', 'paused')), 0) LIMIT ?4",
        (job_no, first, last, _LOOKED_AT),
    ).fetchall()
    db.executemany(
        "DELETE FROM waiting WHERE job_no = ? AND rank = ? AND due = 0 AND seq = ?",
        [(job_no, rank, seq) for rank, seq in rows],
    )
    return len(rows)

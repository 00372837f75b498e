"""How a job leaves the embedded store: in pieces, under a right that one worker holds. Inside one transaction each.

Before: control.py marks a job, or its retention is over. Its files are gone when its rows begin to go. After:
scrubbing.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Final

from swath.backends.embedded.leases import Purpose, Times, grant_right, job_under
from swath.backends.embedded.scrubbing import note_scraps
from swath.backends.embedded.specs import readable
from swath.domain.lease import Lease
from swath.domain.policy import ExecutionPolicy

__all__ = ["claim_deletion", "delete_at", "purge"]

_DAY_SECONDS: Final = 86_400
_TABLES: Final = ("outcomes", "waiting", "shares", "failures", "batches", "load_keys", "webhooks", "leases", "jobs")


def delete_at(ended_at: float, policy: ExecutionPolicy) -> float | None:
    """When the retention of a job is over that ended then; None when it stays."""
    return None if policy.retention_days is None else ended_at + policy.retention_days * _DAY_SECONDS


def claim_deletion(
    db: sqlite3.Connection, times: Times, worker_id: str, job_id: str | None, without: Collection[str]
) -> Lease | None:
    """See Endings.claim_deletion."""
    cursor = db.execute(
        "SELECT job_no, job_id, revision, stopping, 1 AS deleting, spec FROM jobs AS j INDEXED BY jobs_to_delete "
        "WHERE delete_at <= ?2 AND (?1 IS NULL OR job_id = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.job_no = j.job_no) ORDER BY delete_at, job_no",
        (job_id, times.now),
    )
    cursor.row_factory = sqlite3.Row
    for job in cursor.fetchall():
        order = readable(job["spec"])
        if job["job_id"] not in without and order is not None:
            db.execute("UPDATE jobs SET deleting = 1, delete_at = 0 WHERE job_no = ?", (job["job_no"],))
            return grant_right(db, times, worker_id, job, order)
    return None


def purge(db: sqlite3.Connection, lease: Lease, limit: int) -> int:
    """See Endings.purge. Pages of the file that become free are overwritten; scrubbing.py does what is left to do."""
    db.execute("PRAGMA secure_delete = ON")
    try:
        return _purge(db, lease, limit)
    finally:
        db.execute("PRAGMA secure_delete = FAST")


def _purge(db: sqlite3.Connection, lease: Lease, limit: int) -> int:
    job_no = job_under(db, lease, Purpose.DELETE)
    rows = db.execute("SELECT seq FROM items WHERE job_no = ? ORDER BY seq LIMIT ?", (job_no, limit)).fetchall()
    if not rows:
        for table in _TABLES:
            db.execute(f"DELETE FROM {table} WHERE job_no = ?", (job_no,))  # noqa: S608 names are ours
        note_scraps(db)
        return 0
    (last,) = rows[-1]
    (left,) = db.execute("SELECT total - purged FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    for table in ("outcomes", "items"):
        db.execute(f"DELETE FROM {table} WHERE job_no = ? AND seq <= ?", (job_no, last))  # noqa: S608 names are ours
    db.execute("UPDATE jobs SET purged = purged + ? WHERE job_no = ?", (len(rows), job_no))
    return int(left)

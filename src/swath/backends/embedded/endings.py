"""The end of a job in the embedded store: who may write its manifest, what a cancel sweeps, and the last commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from swath.backends.embedded.jobs import readable, status
from swath.backends.embedded.leases import Times, next_fence
from swath.backends.embedded.schema import STATE_CODES
from swath.domain.attempt import Ended
from swath.domain.errors import LeaseLost
from swath.domain.job import JobStatus
from swath.domain.lease import Lease
from swath.domain.transitions import ItemState, JobState, check_job

__all__ = ["claim_ending", "end", "sweep"]


def claim_ending(
    db: sqlite3.Connection, times: Times, worker_id: str, job_id: str | None, without: Collection[str]
) -> Lease | None:
    """See LeaseBook.claim_ending."""
    rows = db.execute(
        "SELECT job_no, job_id, spec, cancelling FROM jobs AS j INDEXED BY jobs_open "
        "WHERE state IN ('loading', 'pending', 'running', 'paused') AND (?1 IS NULL OR job_id = ?1) "
        "AND (cancelling = 1 OR (state = 'running' AND success + failed + skipped + cancelled = total)) "
        "AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.job_no = j.job_no) ORDER BY job_no",
        (job_id,),
    ).fetchall()
    found = ((job_no, readable(spec), cancelling) for job_no, name, spec, cancelling in rows if name not in without)
    job_no, job, cancelling = next((one for one in found if one[1] is not None), (0, None, 0))
    if job is None:
        return None
    fence = next_fence(db)
    db.execute(
        "INSERT INTO leases (fence, job_no, worker, ending, renewed, expires) VALUES (?, ?, ?, 1, ?, ?)",
        (fence, job_no, worker_id, times.boot, times.expires),
    )
    return Lease(
        fence=fence,
        job=job,
        worker_id=worker_id,
        lease_seconds=times.lease_seconds,
        cancelling=bool(cancelling),
    )


def _holding(db: sqlite3.Connection, lease: Lease) -> int:
    row = db.execute(
        "SELECT job_no FROM leases WHERE fence = ? AND worker = ? AND ending = 1 AND rescued = 0",
        (lease.fence, lease.worker_id),
    ).fetchone()
    if row is None:
        raise LeaseLost(f"another worker ends job {lease.job.job_id!r} now")
    return int(row[0])


def sweep(db: sqlite3.Connection, lease: Lease, limit: int) -> int:
    """See LeaseBook.sweep. Nothing holds items now, so the unfinished ones are exactly the fresh and the waiting."""
    job_no = _holding(db, lease)
    fresh, next_seq, total, ended = db.execute(
        "SELECT fresh, next_seq, total, success + failed + skipped + cancelled FROM jobs WHERE job_no = ?", (job_no,)
    ).fetchone()
    waiting = db.execute("SELECT due, seq FROM waiting WHERE job_no = ? LIMIT ?", (job_no, limit)).fetchall()
    db.executemany("DELETE FROM waiting WHERE job_no = ? AND due = ? AND seq = ?", [(job_no, d, s) for d, s in waiting])
    seqs = [seq for _, seq in waiting]
    fresh_seqs = [
        seq
        for (seq,) in db.execute(
            "SELECT seq FROM items WHERE job_no = ? AND seq > ? ORDER BY seq LIMIT ?",
            (job_no, next_seq, limit - len(seqs)),
        )
    ]
    if fresh_seqs:
        db.execute(
            "UPDATE jobs SET next_seq = ?, fresh = ? WHERE job_no = ?",
            (fresh_seqs[-1], fresh - len(fresh_seqs), job_no),
        )
    _cancel_items(db, job_no, lease.fence, seqs + fresh_seqs)
    return int(total - ended)


def _cancel_items(db: sqlite3.Connection, job_no: int, fence: int, seqs: list[int]) -> None:
    (generation,) = db.execute("SELECT generation FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    for seq in seqs:
        (progress,) = db.execute(
            "UPDATE items SET state = ?, fence = ?, due = NULL WHERE job_no = ? AND seq = ? AND state = 0 "
            "RETURNING progress",
            (STATE_CODES[ItemState.CANCELLED], fence, job_no, seq),
        ).fetchone()
        known = {} if progress is None else msgspec.json.decode(progress)
        end = msgspec.convert(
            {"seq": seq, "state": ItemState.CANCELLED, "reason": "cancelled", **known}, Ended, from_attributes=True
        )
        db.execute(
            "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, NULL, ?)",
            (job_no, seq, generation, msgspec.json.encode(end)),
        )
    db.execute("UPDATE jobs SET cancelled = cancelled + ? WHERE job_no = ?", (len(seqs), job_no))


def end(db: sqlite3.Connection, times: Times, lease: Lease, state: JobState, manifest: Mapping[str, Any]) -> JobStatus:
    """See LeaseBook.end."""
    job_no = _holding(db, lease)
    old, remaining = db.execute(
        "SELECT state, total - success - failed - skipped - cancelled FROM jobs WHERE job_no = ?", (job_no,)
    ).fetchone()
    if remaining:
        raise ValueError(f"{remaining} items of job {lease.job.job_id!r} have not ended")
    check_job(JobState(old), state)
    db.execute(
        "UPDATE jobs SET state = ?, ended_at = ?, manifest = ? WHERE job_no = ?",
        (state.value, times.now, msgspec.json.encode(manifest), job_no),
    )
    db.execute("DELETE FROM leases WHERE fence = ?", (lease.fence,))
    return status(db, lease.job.job_id)

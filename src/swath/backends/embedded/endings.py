"""The end of a job in the embedded store: who may write its manifest, what a stop sweeps, and the last commit.

After: deletion.py, when somebody asks for it or its retention is over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from swath.backends.embedded import outbox
from swath.backends.embedded.jobs import status
from swath.backends.embedded.leases import Purpose, Times, grant_right, job_under
from swath.backends.embedded.progress import read_progress
from swath.backends.embedded.schema import STATE_CODES
from swath.backends.embedded.specs import decode_job, readable
from swath.domain.attempt import Ended
from swath.domain.job import JobStatus
from swath.domain.lease import Lease
from swath.domain.pace import overall
from swath.domain.retention import delete_at
from swath.domain.transitions import ItemState, JobState, check_job
from swath.domain.webhook import Webhook

__all__ = ["claim_ending", "end", "sweep"]


def claim_ending(
    db: sqlite3.Connection, times: Times, worker_id: str, job_id: str | None, without: Collection[str]
) -> Lease | None:
    """See Endings.claim_ending."""
    cursor = db.execute(
        "SELECT job_no, job_id, revision, stopping, deleting, spec FROM jobs AS j INDEXED BY jobs_open "
        "WHERE state IN ('loading', 'pending', 'running', 'paused') AND (?1 IS NULL OR job_id = ?1) AND deleting = 0 "
        "AND (stopping IS NOT NULL "
        "OR (state IN ('running', 'paused') AND success + failed + skipped + cancelled = total)) "
        "AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.job_no = j.job_no) ORDER BY job_no",
        (job_id,),
    )
    cursor.row_factory = sqlite3.Row
    for job in cursor.fetchall():
        order = readable(job["spec"])
        if job["job_id"] not in without and order is not None:
            return grant_right(db, times, worker_id, job, order)
    return None


def sweep(db: sqlite3.Connection, times: Times, lease: Lease, limit: int) -> int:
    """See Endings.sweep. Nothing holds items now, so the unfinished ones are exactly the waiting and the fresh."""
    job_no = job_under(db, lease, Purpose.END)
    generation, stopping, next_seq, left = db.execute(
        "SELECT generation, stopping, next_seq, total - success - failed - skipped - cancelled "
        "FROM jobs WHERE job_no = ?",
        (job_no,),
    ).fetchone()
    waiting = db.execute(
        "SELECT w.rank, w.due, w.seq, i.progress FROM waiting AS w JOIN items AS i "
        "ON i.job_no = w.job_no AND i.seq = w.seq WHERE w.job_no = ? LIMIT ?",
        (job_no, limit),
    ).fetchall()
    fresh = db.execute(
        "SELECT seq FROM items WHERE job_no = ? AND seq > ? ORDER BY seq LIMIT ?",
        (job_no, next_seq, limit - len(waiting)),
    ).fetchall()
    db.executemany(
        "DELETE FROM waiting WHERE job_no = ? AND rank = ? AND due = ? AND seq = ?",
        [(job_no, rank, due, seq) for rank, due, seq, _ in waiting],
    )
    ends = [_cancelled(seq, stopping, progress) for _, _, seq, progress in waiting]
    ends += [_cancelled(seq, stopping, None) for (seq,) in fresh]
    _write_ends(db, times, job_no, generation, lease.fence, ends)
    db.execute(
        "UPDATE jobs SET cancelled = cancelled + ?, next_seq = ?, fresh = fresh - ? WHERE job_no = ?",
        (len(ends), fresh[-1][0] if fresh else next_seq, len(fresh), job_no),
    )
    return int(left)


def _cancelled(seq: int, stopping: str, progress: bytes | None) -> Ended:
    known = read_progress(progress)
    return Ended(seq=seq, state=ItemState.CANCELLED, reason=stopping, attempts=known.attempts, tries=known.tries)


def _write_ends(
    db: sqlite3.Connection, times: Times, job_no: int, generation: int, fence: int, ends: list[Ended]
) -> None:
    db.executemany(
        "UPDATE items SET state = ?, generation = ?, fence = ?, due = NULL, progress = NULL "
        "WHERE job_no = ? AND seq = ?",
        [(STATE_CODES[end.state], generation, fence, job_no, end.seq) for end in ends],
    )
    db.executemany(
        "INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, NULL, ?, ?)",
        [(job_no, end.seq, generation, times.now, msgspec.json.encode(end)) for end in ends],
    )


def end(
    db: sqlite3.Connection,
    times: Times,
    lease: Lease,
    state: JobState,
    manifest: Mapping[str, Any],
    webhook: Webhook | None,
) -> JobStatus:
    """See Endings.end."""
    job_no = job_under(db, lease, Purpose.END)
    old, remaining, ran, started_at, spec = db.execute(
        "SELECT state, total - success - failed - skipped - cancelled, success + failed + skipped - mark_ended, "
        "started_at, spec FROM jobs WHERE job_no = ?",
        (job_no,),
    ).fetchone()
    if remaining:
        raise ValueError(f"{remaining} items of job {lease.job.job_id!r} have not ended")
    if not state.terminal:
        raise ValueError(f"a job cannot go to its end as {state}")
    check_job(JobState(old), state)
    db.execute(
        "UPDATE jobs SET state = ?, ended_at = ?, pace = ?, delete_at = coalesce(delete_at, ?), manifest = ? "
        "WHERE job_no = ?",
        (
            state.value,
            times.now,
            overall(ran, started_at, times.now),
            delete_at(decode_job(spec), started_at, times.now),
            msgspec.json.encode(manifest),
            job_no,
        ),
    )
    if webhook is not None:
        outbox.put(db, job_no, webhook)
    db.execute("DELETE FROM leases WHERE fence = ?", (lease.fence,))
    return status(db, times.boot, lease.job.job_id)

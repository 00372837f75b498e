"""What people do to a job of the embedded store after it was ordered. Each function runs inside one transaction.

Before: loading.py took the job in. Workers learn of a change from `begin`, from their next commit and their next
renewal. A new generation begins in generations.py.
"""

from __future__ import annotations

import sqlite3

import msgspec

from swath.backends.embedded.deletion import delete_at
from swath.backends.embedded.jobs import row_of, status
from swath.backends.embedded.leases import Purpose, held_items, job_under
from swath.backends.embedded.schema import Rank
from swath.backends.embedded.specs import decode_job, encode_job
from swath.domain.errors import Conflict, Outdated
from swath.domain.job import JobStatus, Stopping
from swath.domain.lease import Lease
from swath.domain.policy import ExecutionPolicy
from swath.domain.transitions import JobState, check_job
from swath.domain.versions import check_version, refuse_unless_ended

__all__ = ["add_version", "cancel", "change_policy", "delete", "job_to_change", "pause", "resume", "set_current"]


def job_to_change(db: sqlite3.Connection, job_id: str) -> sqlite3.Row:
    """The row of a job that is not on its way out."""
    row = row_of(db, job_id)
    if row["deleting"]:
        raise Conflict.being_deleted(job_id)
    return row


def pause(db: sqlite3.Connection, boot: float, job_id: str) -> JobStatus:
    """See JobControl.pause."""
    row = job_to_change(db, job_id)
    state = JobState(row["state"])
    if row["stopping"] or state.terminal or state is JobState.LOADING:
        told = "stopping" if row["stopping"] and not state.terminal else state.value
        raise Conflict(f"job {job_id!r} is {told}; only a job that is pending or running can be paused")
    if state is not JobState.PAUSED:
        check_job(state, JobState.PAUSED)
        db.execute("UPDATE jobs SET state = ? WHERE job_no = ?", (JobState.PAUSED.value, row["job_no"]))
    return status(db, boot, job_id)


def resume(db: sqlite3.Connection, boot: float, job_id: str) -> JobStatus:
    """See JobControl.resume. The pace is measured anew: the break says nothing of it."""
    row = job_to_change(db, job_id)
    state = JobState(row["state"])
    if state.terminal:
        raise Conflict(f"job {job_id!r} has ended ({state}); `retry` runs items of it again")
    if state is JobState.PAUSED and row["stopping"] is None:
        resumed = JobState.PENDING if row["started_at"] is None else JobState.RUNNING
        check_job(state, resumed)
        db.execute(
            "UPDATE jobs SET state = ?1, served = (SELECT value FROM meta WHERE key = 'granted'), released = ?2, "
            "finished = 0, in_a_row = 0, opened = NULL, window = '', pace = 0, steady = 0, mark_at = ?3 "
            "WHERE job_no = ?4",
            (resumed.value, _released(db, row["job_no"]), boot, row["job_no"]),
        )
    return status(db, boot, job_id)


def _released(db: sqlite3.Connection, job_no: int) -> int:
    """Items that are held, or have begun and wait."""
    (waiting,) = db.execute(
        "SELECT count(*) FROM waiting WHERE job_no = ? AND rank <= ?", (job_no, Rank.BEGUN)
    ).fetchone()
    leases = db.execute("SELECT fence, seqs FROM leases WHERE job_no = ?", (job_no,)).fetchall()
    return int(waiting) + sum(len(held_items(db, job_no, fence, seqs)) for fence, seqs in leases)


def cancel(db: sqlite3.Connection, boot: float, job_id: str) -> JobStatus:
    """See JobControl.cancel."""
    row = job_to_change(db, job_id)
    if not JobState(row["state"]).terminal and row["stopping"] is None:
        db.execute("UPDATE jobs SET stopping = ? WHERE job_no = ?", (Stopping.CANCELLED.value, row["job_no"]))
    return status(db, boot, job_id)


def change_policy(
    db: sqlite3.Connection, boot: float, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None
) -> JobStatus:
    """See JobControl.change_policy."""
    row = job_to_change(db, job_id)
    job = decode_job(row["spec"])
    if policy != job.policy:
        if expected not in (None, job.policy):
            raise Outdated.policy(job_id)
        ended_at = row["ended_at"]
        db.execute(
            "UPDATE jobs SET spec = ?, concurrency = ?, revision = revision + 1, delete_at = ? WHERE job_no = ?",
            (
                encode_job(msgspec.structs.replace(job, policy=policy)),
                policy.throttling.max_concurrent_workers,
                None if ended_at is None else delete_at(ended_at, policy),
                row["job_no"],
            ),
        )
    return status(db, boot, job_id)


def delete(db: sqlite3.Connection, boot: float, job_id: str) -> JobStatus:
    """See JobControl.delete."""
    row = row_of(db, job_id)
    state = JobState(row["state"])
    if not state.terminal and state is not JobState.LOADING:
        raise Conflict(f"job {job_id!r} is {state}; cancel it first")
    db.execute("UPDATE jobs SET deleting = 1, delete_at = 0 WHERE job_no = ?", (row["job_no"],))
    return status(db, boot, job_id)


def add_version(db: sqlite3.Connection, job_id: str) -> int:
    """See JobControl.add_version."""
    row = job_to_change(db, job_id)
    refuse_unless_ended(job_id, JobState(row["state"]))
    db.execute("UPDATE jobs SET versions = versions + 1 WHERE job_no = ?", (row["job_no"],))
    return int(row["versions"]) + 1


def set_current(
    db: sqlite3.Connection, boot: float, job_id: str, version: int, under: Lease | None = None
) -> JobStatus:
    """See JobControl.set_current."""
    if under is not None:
        job_under(db, under, Purpose.END)
    row = job_to_change(db, job_id)
    check_version(job_id, version, row["versions"])
    db.execute("UPDATE jobs SET current_version = ? WHERE job_no = ?", (version, row["job_no"]))
    return status(db, boot, job_id)

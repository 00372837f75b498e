"""How work is found and handed out in the embedded store. Runs inside one transaction. After: finishing.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

import msgspec

from swath.backends.embedded import shares
from swath.backends.embedded.jobs import Progress, readable
from swath.backends.embedded.leases import Times, next_fence
from swath.domain.job import Job
from swath.domain.lease import MAX_LEASE_ITEMS, Lease, LeasedItem, lease_size
from swath.domain.transitions import JobState

__all__ = ["claim"]

_progress_decoder = msgspec.json.Decoder(Progress)


def claim(
    db: sqlite3.Connection, times: Times, worker_id: str, job_id: str | None, without: Collection[str]
) -> Lease | None:
    """See LeaseBook.claim."""
    cursor = db.execute(
        "SELECT job_no, job_id, spec, state, concurrency, fresh, next_seq FROM jobs INDEXED BY jobs_runnable "
        "WHERE state IN ('pending', 'running') AND cancelling = 0 AND (?1 IS NULL OR job_id = ?1) "
        "ORDER BY priority DESC, total, job_no",
        (job_id,),
    )
    cursor.row_factory = sqlite3.Row
    for job in cursor.fetchall():
        order = readable(job["spec"])
        if job["job_id"] in without or order is None:
            continue
        others = shares.busy_others(db, job["job_no"], worker_id)
        if others >= job["concurrency"]:
            continue  # this worker would hold items without a slot to run them
        wanted = _wanted(db, job, times.boot, others + 1)
        if wanted:
            return _grant(db, times, worker_id, job, order, wanted)
    return None


def _wanted(db: sqlite3.Connection, job: sqlite3.Row, boot: float, workers: int) -> int:
    # Beyond this many claimable items a lease has its full size anyway, so there is no need to count further.
    enough = 2 * MAX_LEASE_ITEMS * workers
    (due,) = db.execute(
        "SELECT count(*) FROM (SELECT 1 FROM waiting WHERE job_no = ? AND due <= ? LIMIT ?)",
        (job["job_no"], boot, enough),
    ).fetchone()
    claimable = job["fresh"] + due
    return lease_size(claimable, workers) if claimable else 0


def _grant(db: sqlite3.Connection, times: Times, worker_id: str, job: sqlite3.Row, order: Job, wanted: int) -> Lease:
    job_no = job["job_no"]
    fence = next_fence(db)
    items = _take_waiting(db, job_no, fence, times.boot, wanted)
    items += _take_fresh(db, job_no, fence, job["next_seq"], wanted - len(items))
    if job["state"] == JobState.PENDING:
        db.execute(
            "UPDATE jobs SET state = ?, started_at = coalesce(started_at, ?), mark_at = ? WHERE job_no = ?",
            (JobState.RUNNING.value, times.now, times.boot, job_no),
        )
    slots, target = shares.enter(db, job_no, worker_id, job["concurrency"], len(items))
    seqs = msgspec.json.encode([item.seq for item in items])
    db.execute(
        "INSERT INTO leases (fence, job_no, worker, ending, seqs, renewed, expires) VALUES (?, ?, ?, 0, ?, ?, ?)",
        (fence, job_no, worker_id, seqs, times.boot, times.expires),
    )
    return Lease(
        fence=fence,
        job=order,
        worker_id=worker_id,
        items=tuple(items),
        slots=slots,
        target=target,
        lease_seconds=times.lease_seconds,
    )


def _take_waiting(db: sqlite3.Connection, job_no: int, fence: int, boot: float, most: int) -> list[LeasedItem]:
    rows = db.execute(
        "SELECT w.due, w.seq, i.item_id, i.input, i.progress FROM waiting AS w "
        "JOIN items AS i ON i.job_no = w.job_no AND i.seq = w.seq "
        "WHERE w.job_no = ? AND w.due <= ? ORDER BY w.due, w.seq LIMIT ?",
        (job_no, boot, most),
    ).fetchall()
    items = []
    for due, seq, item_id, input_, progress in rows:
        db.execute("DELETE FROM waiting WHERE job_no = ? AND due = ? AND seq = ?", (job_no, due, seq))
        db.execute("UPDATE items SET fence = ?, due = NULL WHERE job_no = ? AND seq = ?", (fence, job_no, seq))
        known = Progress() if progress is None else _progress_decoder.decode(progress)
        items.append(LeasedItem(seq, item_id, msgspec.json.decode(input_), known.tries, known.attempts))
    return items


def _take_fresh(db: sqlite3.Connection, job_no: int, fence: int, next_seq: int, most: int) -> list[LeasedItem]:
    if most <= 0:
        return []
    rows = db.execute(
        "SELECT seq, item_id, input FROM items WHERE job_no = ? AND seq > ? ORDER BY seq LIMIT ?",
        (job_no, next_seq, most),
    ).fetchall()
    if not rows:
        return []
    last = rows[-1][0]
    db.execute("UPDATE items SET fence = ? WHERE job_no = ? AND seq > ? AND seq <= ?", (fence, job_no, next_seq, last))
    db.execute("UPDATE jobs SET next_seq = ?, fresh = fresh - ? WHERE job_no = ?", (last, len(rows), job_no))
    return [LeasedItem(seq, item_id, msgspec.json.decode(input_)) for seq, item_id, input_ in rows]

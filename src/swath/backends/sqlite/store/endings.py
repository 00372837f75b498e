"""Ends a job: grants the right to write its manifest, cancels what a stop left over, and commits the terminal state."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from swath.backends.sqlite.schema import STATE_CODES, Rank
from swath.backends.sqlite.store import clock_watch, webhooks
from swath.backends.sqlite.store.deletion import clear_lists
from swath.backends.sqlite.store.items import last_row
from swath.backends.sqlite.store.jobs import decode_if_readable, decode_job, status
from swath.backends.sqlite.store.leases import LeaseClock, LeasePurpose, grant_job_lease, leased_job_no, renew
from swath.backends.sqlite.store.returned_items import read_progress
from swath.backends.sqlite.transaction_limits import MAX_ROWS, PAGE_BYTES, first_piece, stored_bytes
from swath.domain.item import EndedItem
from swath.domain.job import EndingProgress, JobStatus, delete_at, ending_retry_seconds
from swath.domain.lease import Lease, LeaseDirective
from swath.domain.throughput import average_rate
from swath.domain.transitions import ItemState, JobState, check_job
from swath.domain.webhook import Webhook

__all__ = ["claim_ending", "end", "note_death", "renew_ending", "sweep"]

_SWEEP_ITEMS: Final = MAX_ROWS // 2  # items that are looked at in one transaction; each has two rows or three
_LAST_RANK: Final = (1 << 63) - 1
_END_BYTES: Final = 250  # of an end that says only why it was cancelled


def claim_ending(
    db: sqlite3.Connection, times: LeaseClock, worker_id: str, job_id: str | None, without: Collection[str]
) -> Lease | None:
    """See Endings.claim_ending."""
    cursor = db.execute(
        "SELECT job_no, job_id, revision, stopping, deleting, spec FROM jobs AS j INDEXED BY jobs_open "
        "WHERE state IN ('loading', 'pending', 'running', 'paused') AND (?1 IS NULL OR job_id = ?1) AND deleting = 0 "
        "AND (stopping IS NOT NULL "
        "OR (state IN ('running', 'paused') AND success + failed + skipped + cancelled = total)) "
        "AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.job_no = j.job_no) "
        "AND NOT EXISTS (SELECT 1 FROM endings AS e WHERE e.job_no = j.job_no AND e.due > ?2) ORDER BY job_no",
        (job_id, times.boot),
    )
    cursor.row_factory = sqlite3.Row
    for job in cursor.fetchall():
        order = decode_if_readable(job["spec"])
        if job["job_id"] not in without and order is not None:
            return grant_job_lease(db, times, worker_id, job, order)
    return None


def renew_ending(db: sqlite3.Connection, times: LeaseClock, lease: Lease, progress: EndingProgress) -> LeaseDirective:
    """See Endings.renew_ending."""
    directive = renew(db, times, lease.worker_id, [lease.fence])[lease.fence]
    if directive is not LeaseDirective.LOST:
        db.execute(
            "INSERT INTO endings (job_no, fence, step, done, total) "
            "SELECT job_no, fence, ?2, ?3, ?4 FROM leases WHERE fence = ?1 "
            "ON CONFLICT DO UPDATE SET fence = excluded.fence, step = excluded.step, done = excluded.done, "
            "total = excluded.total",
            (lease.fence, progress.step.value, progress.done, progress.total),
        )
    return directive


def note_death(db: sqlite3.Connection, times: LeaseClock, fence: int) -> int:
    """A worker died with this lease, which is about to be taken away: answers how often ending the job has killed its
    worker, if the lease is the right to that and nobody has cleaned up after it yet."""
    row = db.execute(
        "SELECT job_no FROM leases WHERE fence = ? AND purpose = ? AND rescued = 0", (fence, LeasePurpose.END)
    ).fetchone()
    if row is None:
        return 0
    (deaths,) = db.execute(
        "INSERT INTO endings (job_no, deaths) VALUES (?, 1) ON CONFLICT DO UPDATE SET deaths = deaths + 1 "
        "RETURNING deaths",
        row,
    ).fetchone()
    db.execute("UPDATE endings SET due = ? WHERE job_no = ?", (times.boot + ending_retry_seconds(deaths), *row))
    return int(deaths)


def sweep(db: sqlite3.Connection, times: LeaseClock, lease: Lease, limit: int) -> int:
    """See Endings.sweep. Nothing holds items now, so the unfinished ones are exactly the waiting and the fresh."""
    job = _job_to_sweep(db, leased_job_no(db, lease, LeasePurpose.END))
    job_no, stopping, next_seq = job["job_no"], job["stopping"], job["next_seq"]
    waiting, fresh = _unfinished(db, job, limit)
    db.executemany(
        "DELETE FROM waiting WHERE job_no = ? AND rank = ? AND due = ? AND seq = ?",
        [(job_no, rank, due, seq) for rank, due, seq, *_ in waiting],
    )
    ends = [_cancelled(seq, stopping, progress) for _, _, seq, progress, _ in waiting]
    ends += [_cancelled(seq, stopping, None) for seq, _ in fresh]
    _write_ends(db, times, job_no, job["generation"], lease.fence, ends)
    db.execute(
        "UPDATE jobs SET cancelled = cancelled + ?, next_seq = ?, fresh = fresh - ?, cost = cost + ? WHERE job_no = ?",
        (len(ends), fresh[-1][0] if fresh else next_seq, len(fresh), sum(end.cost for end in ends), job_no),
    )
    return int(job["left"])


def _job_to_sweep(db: sqlite3.Connection, job_no: int) -> sqlite3.Row:
    cursor = db.execute(
        "SELECT job_no, generation, stopping, next_seq, reopened, loaded_rows, unfinished, "
        "total - success - failed - skipped - cancelled AS left FROM jobs WHERE job_no = ?",
        (job_no,),
    )
    cursor.row_factory = sqlite3.Row
    row: sqlite3.Row = cursor.fetchone()
    return row


def _unfinished(
    db: sqlite3.Connection, job: sqlite3.Row, limit: int
) -> tuple[list[tuple[int, float, int, bytes | None, int]], list[tuple[int, int]]]:
    """What one transaction may sweep, at most `limit`: items that wait, then fresh ones, with the sizes of their rows.
    An item's row is written anew as a whole."""
    waiting = db.execute(
        "SELECT w.rank, w.due, w.seq, i.progress, length(i.input) FROM waiting AS w JOIN items AS i "
        "ON i.job_no = w.job_no AND i.seq = w.seq WHERE w.job_no = ? AND (w.rank < ? OR w.rank = ?) LIMIT ?",
        (job["job_no"], Rank.REOPENED, job["reopened"], min(limit, _SWEEP_ITEMS)),
    ).fetchall()
    fresh = db.execute(
        "SELECT seq, length(input) FROM items WHERE job_no = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (job["job_no"], job["next_seq"], last_row(job), min(limit, _SWEEP_ITEMS) - len(waiting)),
    ).fetchall()
    costs = [(3, stored_bytes(size) + 2 * PAGE_BYTES) for *_, size in waiting]  # these can lie anywhere
    costs += [(2, stored_bytes(size) + _END_BYTES) for _, size in fresh]
    count = first_piece(costs)
    return waiting[:count], fresh[: max(0, count - len(waiting))]


def _cancelled(seq: int, stopping: str, progress: bytes | None) -> EndedItem:
    known = read_progress(progress)
    return EndedItem(seq=seq, state=ItemState.CANCELLED, reason=stopping, attempts=known.attempts, tries=known.tries)


def _write_ends(
    db: sqlite3.Connection, times: LeaseClock, job_no: int, generation: int, fence: int, ends: list[EndedItem]
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
    times: LeaseClock,
    lease: Lease,
    state: JobState,
    manifest: Mapping[str, Any],
    webhook: Webhook | None,
) -> JobStatus:
    """See Endings.end."""
    job_no = leased_job_no(db, lease, LeasePurpose.END)
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
    ended_at = clock_watch.peek(db, times.reading).not_before(times.now)
    db.execute(
        "UPDATE jobs SET state = ?, ended_at = ?, pace = ?, delete_at = coalesce(delete_at, ?), manifest = ? "
        "WHERE job_no = ?",
        (
            state.value,
            ended_at,
            average_rate(ran, started_at, ended_at),
            delete_at(decode_job(spec), started_at, ended_at),
            msgspec.json.encode(manifest),
            job_no,
        ),
    )
    if webhook is not None:
        webhooks.put_webhook(db, job_no, webhook)
    db.execute("DELETE FROM endings WHERE job_no = ?", (job_no,))
    db.execute("DELETE FROM leases WHERE fence = ?", (lease.fence,))
    clear_lists(db, job_no, Rank.REOPENED + 1, _LAST_RANK)  # of a retry that was killed; mostly there is none
    return status(db, times.boot, lease.job.job_id)

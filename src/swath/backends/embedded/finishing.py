"""What one commit of a worker does: outcomes, counters, the report and the next grant, together or not at all.

Runs inside one transaction. Before: claims.py. After: endings.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec

from swath.backends.embedded import shares
from swath.backends.embedded.jobs import Progress
from swath.backends.embedded.leases import HELD, Times
from swath.backends.embedded.schema import STATE_CODES
from swath.domain.attempt import Ended, Finding, HandedBack
from swath.domain.lease import Directive, Grant, Lease, Report
from swath.domain.transitions import ItemState, check_item

__all__ = ["finish"]

PACE_SECONDS: Final = 5.0


def finish(
    db: sqlite3.Connection,
    times: Times,
    lease: Lease,
    ended: Sequence[Ended],
    handed_back: Sequence[HandedBack],
    report: Report,
) -> Grant:
    """See LeaseBook.finish."""
    job_no = _job_of_live_lease(db, lease)
    if job_no is None:
        return Grant(directive=Directive.LOST)
    counted = [end for end in ended if _end_item(db, job_no, lease.fence, end)]
    _count(db, times, job_no, counted)
    accepted = {end.seq for end in counted}
    for back in handed_back:
        if _hand_back(db, times, job_no, lease.fence, back):
            accepted.add(back.seq)
    return _regrant(db, times, job_no, lease, report, frozenset(accepted))


def _job_of_live_lease(db: sqlite3.Connection, lease: Lease) -> int | None:
    row = db.execute(
        "SELECT job_no FROM leases WHERE fence = ? AND worker = ? AND rescued = 0", (lease.fence, lease.worker_id)
    ).fetchone()
    return None if row is None else int(row[0])


def _end_item(db: sqlite3.Connection, job_no: int, fence: int, end: Ended) -> bool:
    check_item(ItemState.PENDING, end.state)
    changed = db.execute(
        f"UPDATE items SET state = ?, progress = NULL WHERE {HELD}",  # noqa: S608 our own constant
        (STATE_CODES[end.state], job_no, end.seq, fence),
    ).rowcount
    if not changed:
        return False
    db.execute(
        "INSERT OR REPLACE INTO outcomes VALUES (?1, ?2, (SELECT generation FROM jobs WHERE job_no = ?1), ?3, ?4)",
        (job_no, end.seq, None if end.failure is None else end.failure.kind.value, msgspec.json.encode(end)),
    )
    return True


def _count(db: sqlite3.Connection, times: Times, job_no: int, counted: Sequence[Ended]) -> None:
    """Moves the counters by what has really ended, in the same commit."""
    if not counted:
        return
    by_state = dict.fromkeys(ItemState, 0)
    kinds: dict[str, int] = {}
    not_found = 0
    for end in counted:
        by_state[end.state] += 1
        not_found += end.finding is Finding.NOT_FOUND
        if end.state is ItemState.FAILED and end.failure is not None:
            kinds[end.failure.kind.value] = kinds.get(end.failure.kind.value, 0) + 1
    db.execute(
        "UPDATE jobs SET success = success + ?, not_found = not_found + ?, failed = failed + ?, skipped = skipped + ?, "
        "cancelled = cancelled + ? WHERE job_no = ?",
        (
            by_state[ItemState.SUCCESS],
            not_found,
            by_state[ItemState.FAILED],
            by_state[ItemState.SKIPPED],
            by_state[ItemState.CANCELLED],
            job_no,
        ),
    )
    for kind, items in kinds.items():
        db.execute(
            "INSERT INTO failures VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET items = items + excluded.items",
            (job_no, kind, items),
        )
    _keep_pace(db, times, job_no)


def _keep_pace(db: sqlite3.Connection, times: Times, job_no: int) -> None:
    """Items per second between marks some seconds apart, so that it follows the present and does not jitter."""
    mark_at, mark_ended, ended = db.execute(
        "SELECT mark_at, mark_ended, success + failed + skipped + cancelled FROM jobs WHERE job_no = ?", (job_no,)
    ).fetchone()
    elapsed = times.boot - mark_at
    if elapsed < 0:  # marked before the machine was started again
        db.execute("UPDATE jobs SET mark_at = ?, mark_ended = ? WHERE job_no = ?", (times.boot, ended, job_no))
    elif elapsed >= PACE_SECONDS:
        db.execute(
            "UPDATE jobs SET pace = ?, mark_at = ?, mark_ended = ? WHERE job_no = ?",
            ((ended - mark_ended) / elapsed, times.boot, ended, job_no),
        )
    elif not mark_ended and elapsed:  # before the second mark
        db.execute("UPDATE jobs SET pace = ? WHERE job_no = ?", (ended / elapsed, job_no))


def _hand_back(db: sqlite3.Connection, times: Times, job_no: int, fence: int, back: HandedBack) -> bool:
    due = times.boot + back.delay_seconds if back.delay_seconds > 0 else 0.0
    progress = msgspec.json.encode(Progress(back.tries, back.attempts))
    changed = db.execute(
        f"UPDATE items SET fence = 0, due = ?, progress = ? WHERE {HELD}",  # noqa: S608 our own constant
        (due, progress, job_no, back.seq, fence),
    ).rowcount
    if changed:
        db.execute("INSERT INTO waiting VALUES (?, ?, ?)", (job_no, due, back.seq))
    return bool(changed)


def _regrant(
    db: sqlite3.Connection, times: Times, job_no: int, lease: Lease, report: Report, accepted: frozenset[int]
) -> Grant:
    """Writes the report and gives the worker its share of the slots as things stand now."""
    limit, cancelling = db.execute("SELECT concurrency, cancelling FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    slots, target = shares.regrant(db, job_no, lease.worker_id, limit, report)
    db.execute("UPDATE leases SET renewed = ?, expires = ? WHERE fence = ?", (times.boot, times.expires, lease.fence))
    directive = Directive.STOP if cancelling else Directive.GO_ON
    return Grant(directive=directive, slots=slots, target=target, accepted=accepted)

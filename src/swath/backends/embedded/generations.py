"""How an ended job begins a new generation in the embedded store: one commit, whatever its size.

Selected items are listed in `waiting` again; their former ends stay in `outcomes` by their generation. Before: the job
ended (endings.py). After: claims.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from swath.backends.embedded.control import job_to_change
from swath.backends.embedded.jobs import status
from swath.backends.embedded.schema import STATE_CODES, STATE_NAMES, Rank
from swath.domain.attempt import Finding
from swath.domain.errors import BadInput, Conflict
from swath.domain.failure import FailureKind
from swath.domain.job import JobStatus
from swath.domain.selection import Selection
from swath.domain.transitions import ItemState, JobState, check_job

__all__ = ["retry"]


def retry(db: sqlite3.Connection, boot: float, job_id: str, selection: Selection) -> JobStatus:
    """See JobControl.retry."""
    row = job_to_change(db, job_id)
    state, job_no = JobState(row["state"]), row["job_no"]
    if not state.terminal:
        raise Conflict(f"job {job_id!r} is {state}; items can be run again when it has ended")
    with _selected(db, selection):
        reopened = db.execute(
            "INSERT INTO waiting SELECT i.job_no, ?, 0, i.seq FROM items AS i CROSS JOIN outcomes AS o "
            "ON o.job_no = i.job_no AND o.seq = i.seq AND o.generation = i.generation "
            "WHERE i.job_no = ? AND i.state <> 0 AND selected(i.item_id, i.state, o.kind, o.ended_at)",
            (Rank.REOPENED, job_no),
        ).rowcount
    if not reopened:
        raise BadInput(f"no item of job {job_id!r} fits the selection; nothing to run again")
    check_job(state, JobState.PENDING)
    _uncount(db, job_no)
    db.execute(
        "UPDATE items SET state = 0, fence = 0, progress = NULL, due = NULL "
        "WHERE job_no = ?1 AND seq IN (SELECT seq FROM waiting WHERE job_no = ?1)",
        (job_no,),
    )
    db.execute(
        "UPDATE jobs SET state = ?, generation = generation + 1, stopping = NULL, started_at = NULL, ended_at = NULL, "
        "served = (SELECT value FROM meta WHERE key = 'granted'), released = 0, finished = 0, in_a_row = 0, "
        "opened = NULL, window = '', pace = 0, steady = 0, mark_at = NULL, "
        "mark_ended = success + failed + skipped, delete_at = NULL WHERE job_no = ?",
        (JobState.PENDING.value, job_no),
    )
    return status(db, boot, job_id)


@contextmanager
def _selected(db: sqlite3.Connection, selection: Selection) -> Iterator[None]:
    """Lets SQLite ask the selection about each row, so that there is one meaning of it."""
    kinds = {kind.value: kind for kind in FailureKind}

    def selected(item_id: str, state: int, kind: str | None, ended_at: float) -> bool:
        return selection.takes(item_id, STATE_NAMES[state], kinds.get(kind or ""), ended_at)

    db.create_function("selected", 4, selected)
    try:
        yield
    finally:
        db.create_function("selected", 4, None)


def _uncount(db: sqlite3.Connection, job_no: int) -> None:
    """Takes what is reopened out of the counters."""
    groups = db.execute(
        "SELECT i.state, o.kind, count(*) FROM waiting AS w "
        "CROSS JOIN items AS i ON i.job_no = w.job_no AND i.seq = w.seq "
        "JOIN outcomes AS o ON o.job_no = i.job_no AND o.seq = i.seq AND o.generation = i.generation "
        "WHERE w.job_no = ? GROUP BY 1, 2",
        (job_no,),
    ).fetchall()
    for code, kind, items in groups:
        column = STATE_NAMES[code].value  # the counters are named for the states
        db.execute(f"UPDATE jobs SET {column} = {column} - ? WHERE job_no = ?", (items, job_no))  # noqa: S608 our own names
        if kind == Finding.NOT_FOUND:
            db.execute("UPDATE jobs SET not_found = not_found - ? WHERE job_no = ?", (items, job_no))
        if code == STATE_CODES[ItemState.FAILED] and kind is not None:
            db.execute("UPDATE failures SET items = items - ? WHERE job_no = ? AND kind = ?", (items, job_no, kind))
    db.execute("DELETE FROM failures WHERE job_no = ? AND items = 0", (job_no,))

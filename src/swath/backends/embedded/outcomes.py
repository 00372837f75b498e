"""How ends are written and counted: counters, pace and circuit move by what has really ended, in the same commit.

Called by finishing.py with what workers say, and by rescue.py with what killed them.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Final

import msgspec

from swath.backends.embedded.jobs import pace_of, row_of
from swath.backends.embedded.leases import Times
from swath.backends.embedded.specs import decode_job
from swath.domain import circuit, pace
from swath.domain.attempt import Ended, Finding
from swath.domain.circuit import Circuit
from swath.domain.job import Stopping
from swath.domain.policy import OnOpen
from swath.domain.transitions import ItemState, JobState, check_job

__all__ = ["count", "open_circuit", "write_outcomes"]

_STATEMENT_ROWS: Final = 50


def write_outcomes(db: sqlite3.Connection, times: Times, job_no: int, generation: int, ends: Sequence[Ended]) -> None:
    """Writes down how items ended in this generation. Their rows are the caller's."""
    for at in range(0, len(ends), _STATEMENT_ROWS):
        some = ends[at : at + _STATEMENT_ROWS]
        values = chain.from_iterable((end.seq, _kind(end), msgspec.json.encode(end)) for end in some)
        db.execute(_insert_statement(len(some)), (job_no, generation, times.now, *values))


def _kind(end: Ended) -> str | None:
    if end.finding is Finding.NOT_FOUND:
        return end.finding
    return None if end.failure is None else end.failure.kind


@cache
def _insert_statement(rows: int) -> str:
    values = ", ".join(f"(?1, ?{n}, ?2, ?{n + 1}, ?3, ?{n + 2})" for n in range(4, 3 * rows + 4, 3))
    return f"INSERT OR REPLACE INTO outcomes VALUES {values}"  # noqa: S608 only numbers


def count(db: sqlite3.Connection, times: Times, job_no: int, counted: Sequence[Ended]) -> None:
    """Moves the job's counters, tells its circuit, and lets the job stop or pause if that opens."""
    if not counted:
        return
    cursor = db.execute(
        "SELECT state, stopping, concurrency, released, finished, in_a_row, opened, window, "
        "pace, steady, mark_at, spec FROM jobs WHERE job_no = ?",
        (job_no,),
    )
    cursor.row_factory = sqlite3.Row
    job: sqlite3.Row = cursor.fetchone()
    by_state = Counter(end.state for end in counted)
    after, state, stopping = _circuit(job, counted)
    db.execute(
        "UPDATE jobs SET success = success + ?, not_found = not_found + ?, failed = failed + ?, skipped = skipped + ?, "
        "cancelled = cancelled + ?, window = ?, in_a_row = ?, finished = ?, opened = ?, "
        "pace = ?, steady = ?, mark_at = ?, cost = cost + ? WHERE job_no = ?",
        (
            by_state[ItemState.SUCCESS],
            sum(end.finding is Finding.NOT_FOUND for end in counted),
            by_state[ItemState.FAILED],
            by_state[ItemState.SKIPPED],
            by_state[ItemState.CANCELLED],
            after.window,
            after.in_a_row,
            after.finished,
            after.opened,
            *_pace(job, times.boot, len(counted)),
            sum(end.cost for end in counted),
            job_no,
        ),
    )
    if (state, stopping) != (job["state"], job["stopping"]):  # apart, because several indexes have the state
        db.execute("UPDATE jobs SET state = ?, stopping = ? WHERE job_no = ?", (state, stopping, job_no))
    _count_kinds(db, job_no, counted)


def _count_kinds(db: sqlite3.Connection, job_no: int, counted: Sequence[Ended]) -> None:
    kinds = Counter(end.failure.kind.value for end in counted if end.state is ItemState.FAILED and end.failure)
    db.executemany(
        "INSERT INTO failures VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET items = items + excluded.items",
        [(job_no, kind, items) for kind, items in kinds.items()],
    )


def _circuit(job: sqlite3.Row, counted: Sequence[Ended]) -> tuple[Circuit, str, str | None]:
    """The circuit after these ends, and the state and the stopping of the job that follow from it."""
    before = Circuit(job["window"], job["in_a_row"], job["finished"], job["released"], job["opened"])
    breaker = decode_job(job["spec"]).policy.circuit_breaker
    after = circuit.record(before, breaker, counted)
    state, stopping = job["state"], job["stopping"]
    if before.opened is None and after.opened is not None and stopping is None:
        state, stopping = _stopped(JobState(state), breaker.on_open)
    return after, state, stopping


def _stopped(state: JobState, on_open: OnOpen) -> tuple[str, str | None]:
    """The state and the stopping of a job whose circuit has just opened."""
    if on_open is OnOpen.FAIL:
        return state.value, Stopping.CIRCUIT_OPEN.value
    if state is not JobState.PAUSED:
        check_job(state, JobState.PAUSED)
    return JobState.PAUSED.value, None


def open_circuit(db: sqlite3.Connection, job_id: str, why: str, most_left: int | None) -> None:
    """See LeaseBook.open_circuit."""
    job = row_of(db, job_id)
    left = job["total"] - job["success"] - job["failed"] - job["skipped"] - job["cancelled"]
    if most_left is not None and left > most_left:
        return
    if job["state"] not in {JobState.PENDING, JobState.RUNNING} or job["stopping"] or job["deleting"] or job["opened"]:
        return
    on_open = decode_job(job["spec"]).policy.circuit_breaker.on_open
    db.execute(
        "UPDATE jobs SET opened = ?, state = ?, stopping = ? WHERE job_no = ?",
        (why, *_stopped(JobState(job["state"]), on_open), job["job_no"]),
    )


def _pace(job: sqlite3.Row, boot: float, items: int) -> tuple[float, float, float]:
    after = pace.record(pace_of(job), boot, items, job["concurrency"])
    return after.items, after.seconds, after.at

"""Jobs as people see them: rows turned into statuses. Each function runs inside one transaction.

Before: loading.py writes them, control.py changes them. Beside: items.py, which shows what is in them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from swath.backends.embedded.specs import decode_job
from swath.domain.ending import Ending, EndingProgress, EndingStep, ending_of
from swath.domain.errors import StoreDamaged, UnknownName
from swath.domain.job import Counts, JobStatus, Stopping, WaitingFor
from swath.domain.pace import Pace, per_second
from swath.domain.transitions import JobState

__all__ = ["Listing", "jobs", "pace_of", "row_of", "status"]

_NEWEST: Final = 1 << 62  # beyond every number

T = TypeVar("T", JobState, Stopping)
Ask = Callable[[], WaitingFor | None]
"""What the living workers of the store wait for."""


def row_of(db: sqlite3.Connection, job_id: str) -> sqlite3.Row:
    """The job's row, by name. Raises UnknownName."""
    cursor = db.execute("SELECT * FROM jobs WHERE job_id = ?", (job_id,))
    cursor.row_factory = sqlite3.Row
    row: sqlite3.Row | None = cursor.fetchone()
    if row is None:
        known = (name for (name,) in db.execute("SELECT job_id FROM jobs ORDER BY job_no DESC LIMIT 1000"))
        raise UnknownName.of("job", job_id, known, "see `swath jobs list` or GET /jobs")
    return row


def status(db: sqlite3.Connection, boot: float, job_id: str, waiting_for: Ask = lambda: None) -> JobStatus:
    """See JobStore.status."""
    return _status(db, boot, row_of(db, job_id), waiting_for())


class Listing(msgspec.Struct, frozen=True):
    """Which jobs are wanted; see JobStore.jobs."""

    after: str | None
    limit: int
    states: frozenset[JobState]
    on_demand: bool


def jobs(db: sqlite3.Connection, boot: float, listing: Listing, waiting_for: Ask) -> list[JobStatus]:
    """See JobStore.jobs."""
    before = _NEWEST if listing.after is None else row_of(db, listing.after)["job_no"]
    if listing.on_demand and not listing.states:
        cursor = db.execute("SELECT * FROM jobs WHERE job_no < ? ORDER BY job_no DESC LIMIT ?", (before, listing.limit))
        cursor.row_factory = sqlite3.Row
        rows = cursor.fetchall()
    else:
        rows = [_row_by_number(db, job_no) for job_no in _fitting(db, before, listing)]
    told = waiting_for()
    return [_status(db, boot, row, told) for row in rows]


def _fitting(db: sqlite3.Connection, before: int, listing: Listing) -> list[int]:
    """The newest of each state, by the index; the newest of all are among them."""
    found: list[int] = []
    for state in listing.states or JobState:
        for on_demand in (0, 1) if listing.on_demand else (0,):
            rows = db.execute(
                "SELECT job_no FROM jobs WHERE on_demand = ? AND state = ? AND job_no < ? ORDER BY job_no DESC LIMIT ?",
                (on_demand, state.value, before, listing.limit),
            )
            found.extend(job_no for (job_no,) in rows)
    return sorted(found, reverse=True)[: listing.limit]


def _row_by_number(db: sqlite3.Connection, job_no: int) -> sqlite3.Row:
    cursor = db.execute("SELECT * FROM jobs WHERE job_no = ?", (job_no,))
    cursor.row_factory = sqlite3.Row
    row: sqlite3.Row = cursor.fetchone()
    return row


def pace_of(row: sqlite3.Row) -> Pace:
    """What the job's row says of its pace."""
    return Pace(row["pace"], row["steady"], row["mark_at"] or 0.0)


def _status(db: sqlite3.Connection, boot: float, row: sqlite3.Row, waiting_for: WaitingFor | None) -> JobStatus:
    state = _known(JobState, row["state"])
    return JobStatus(
        job=decode_job(row["spec"]),
        state=state,
        generation=row["generation"],
        counts=_counts(db, row),
        failures=dict(db.execute("SELECT kind, items FROM failures WHERE job_no = ? ORDER BY kind", (row["job_no"],))),
        items_per_second=row["pace"] if state.terminal else per_second(pace_of(row), boot, row["concurrency"]),
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        loaded_rows=row["loaded_rows"],
        loaded_batches=row["batches"],
        stopping=None if row["stopping"] is None else _known(Stopping, row["stopping"]),
        circuit_opened=row["opened"],
        waiting_for=None if state.terminal else waiting_for,
        ending=None if state.terminal else _ending(db, boot, row["job_no"]),
        deleting=bool(row["deleting"]),
        cost=row["cost"],
        manifest=None if row["manifest"] is None else msgspec.json.decode(row["manifest"]),
        versions=row["versions"],
        current_version=row["current_version"],
        scraper_versions=tuple(msgspec.json.decode(row["scraper_versions"])),
    )


def _ending(db: sqlite3.Connection, boot: float, job_no: int) -> Ending | None:
    held = db.execute(
        "SELECT fence FROM leases WHERE job_no = ? AND purpose = 'end' AND rescued = 0", (job_no,)
    ).fetchone()
    noted = db.execute(
        "SELECT fence, step, done, total, deaths, due FROM endings WHERE job_no = ?", (job_no,)
    ).fetchone()
    if held is None and noted is None:
        return None
    fence, step, done, total, deaths, due = noted or (0, EndingStep.STARTING, 0, 0, 0, 0.0)
    progress = None
    if held is not None:
        reported = fence == held[0]
        progress = EndingProgress(EndingStep(step), done, total) if reported else EndingProgress(EndingStep.STARTING)
    return ending_of(progress, deaths, due - boot)


def _counts(db: sqlite3.Connection, row: sqlite3.Row) -> Counts:
    queued, running = db.execute(
        "SELECT coalesce(sum(waiting), 0), coalesce(sum(running), 0) FROM shares WHERE job_no = ?", (row["job_no"],)
    ).fetchone()
    ended = row["success"] + row["failed"] + row["skipped"] + row["cancelled"]
    return Counts(
        pending=row["total"] - ended - queued - running,
        queued=queued,
        in_progress=running,
        success=row["success"],
        not_found=row["not_found"],
        failed=row["failed"],
        skipped=row["skipped"],
        cancelled=row["cancelled"],
        total=row["total"],
    )


def _known(kind: type[T], name: str) -> T:
    try:
        return kind(name)
    except ValueError:
        raise StoreDamaged(f"the store holds a job in no known state: {name!r}") from None

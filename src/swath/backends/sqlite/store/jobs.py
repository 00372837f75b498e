"""Reads jobs: decodes the stored job, and turns its row into a status. Each function runs inside one transaction.

A job is stored as JSON with what differs from the defaults of the policy. Every commit needs the policy of its job,
so
decoded jobs are cached by their bytes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from swath.domain.errors import StoreDamaged, UnknownName
from swath.domain.execution_policy import decode_policy, encode_policy
from swath.domain.job import (
    Counts,
    EndingProgress,
    EndingStep,
    Job,
    JobEnding,
    JobStatus,
    StopReason,
    WaitingFor,
    job_ending,
)
from swath.domain.throughput import Throughput, current_rate
from swath.domain.transitions import JobState

__all__ = ["JobListing", "decode_if_readable", "decode_job", "encode_job", "job_pace", "job_row", "jobs", "status"]

_REMEMBERED: Final = 512  # jobs; some kilobytes each


_job_encoder = msgspec.json.Encoder(enc_hook=encode_policy)
_job_decoder = msgspec.json.Decoder(Job, dec_hook=decode_policy)


def encode_job(job: Job) -> bytes:
    """The Job as the store keeps it."""
    return _job_encoder.encode(job)


@lru_cache(_REMEMBERED)
def decode_job(spec: bytes) -> Job:
    """The Job that was encoded."""
    return _job_decoder.decode(spec)


def decode_if_readable(spec: bytes) -> Job | None:
    """The same, or None if it cannot be read: such a job waits for a person, and others go on meanwhile."""
    try:
        return decode_job(spec)
    except (msgspec.MsgspecError, ValueError):
        return None


_NEWEST: Final = 1 << 62  # beyond every number

T = TypeVar("T", JobState, StopReason)
AskWaitingFor = Callable[[], WaitingFor | None]
"""What the living workers of the store wait for."""


def job_row(db: sqlite3.Connection, job_id: str) -> sqlite3.Row:
    """The job's row, by name. Raises UnknownName."""
    cursor = db.execute("SELECT * FROM jobs WHERE job_id = ?", (job_id,))
    cursor.row_factory = sqlite3.Row
    row: sqlite3.Row | None = cursor.fetchone()
    if row is None:
        known = (name for (name,) in db.execute("SELECT job_id FROM jobs ORDER BY job_no DESC LIMIT 1000"))
        raise UnknownName.of("job", job_id, known, "see `swath jobs list` or GET /jobs")
    return row


def status(db: sqlite3.Connection, boot: float, job_id: str, waiting_for: AskWaitingFor = lambda: None) -> JobStatus:
    """See JobStore.status."""
    return _status(db, boot, job_row(db, job_id), waiting_for())


class JobListing(msgspec.Struct, frozen=True):
    """Which jobs are wanted; see JobStore.jobs."""

    after: str | None
    limit: int
    states: frozenset[JobState]
    on_demand: bool


def jobs(db: sqlite3.Connection, boot: float, listing: JobListing, waiting_for: AskWaitingFor) -> list[JobStatus]:
    """See JobStore.jobs."""
    before = _NEWEST if listing.after is None else job_row(db, listing.after)["job_no"]
    if listing.on_demand and not listing.states:
        cursor = db.execute("SELECT * FROM jobs WHERE job_no < ? ORDER BY job_no DESC LIMIT ?", (before, listing.limit))
        cursor.row_factory = sqlite3.Row
        rows = cursor.fetchall()
    else:
        rows = [_row_by_number(db, job_no) for job_no in _fitting(db, before, listing)]
    told = waiting_for()
    return [_status(db, boot, row, told) for row in rows]


def _fitting(db: sqlite3.Connection, before: int, listing: JobListing) -> list[int]:
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


def job_pace(row: sqlite3.Row) -> Throughput:
    """What the job's row says of its pace."""
    return Throughput(row["pace"], row["steady"], row["mark_at"] or 0.0)


def _status(db: sqlite3.Connection, boot: float, row: sqlite3.Row, waiting_for: WaitingFor | None) -> JobStatus:
    state = _known(JobState, row["state"])
    return JobStatus(
        job=decode_job(row["spec"]),
        state=state,
        generation=row["generation"],
        counts=_counts(db, row),
        failures=dict(db.execute("SELECT kind, items FROM failures WHERE job_no = ? ORDER BY kind", (row["job_no"],))),
        items_per_second=row["pace"] if state.terminal else current_rate(job_pace(row), boot, row["concurrency"]),
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        loaded_rows=row["loaded_rows"],
        loaded_batches=row["batches"],
        stopping=None if row["stopping"] is None else _known(StopReason, row["stopping"]),
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


def _ending(db: sqlite3.Connection, boot: float, job_no: int) -> JobEnding | None:
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
    return job_ending(progress, deaths, due - boot)


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

"""Leases as rows: how they are granted, renewed and released. Each function runs inside one transaction.

An item is held by the lease whose fence its row carries. Every change of an item says `HELD`, and counters move by
the
rows that really changed, so a worker that lost its lease changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from swath.backends.sqlite.schema import Rank
from swath.backends.sqlite.store import slot_shares
from swath.backends.sqlite.store.returned_items import ItemProgress, read_progress
from swath.domain.clock_watch import ClockReading
from swath.domain.errors import LeaseLost
from swath.domain.job import Job, StopReason
from swath.domain.lease import Lease, LeaseDirective

__all__ = [
    "ALL_HELD",
    "HELD",
    "LeaseClock",
    "LeasePurpose",
    "directive_for",
    "grant_job_lease",
    "held_items",
    "insert_lease",
    "leased_job_no",
    "release",
    "renew",
    "return_items",
    "workers_with_leases",
]

HELD: Final = "job_no = ? AND seq = ? AND fence = ? AND state = 0"
# The same of many, whose numbers are one JSON list. Every statement lets go of the interpreter and waits for it again.
ALL_HELD: Final = "job_no = ? AND seq IN (SELECT value FROM json_each(?) AS listed) AND fence = ? AND state = 0"
_AT_ONCE: Final[Mapping[int, float]] = MappingProxyType({})


class LeaseClock(msgspec.Struct, frozen=True):
    """One reading of both clocks, how long a lease lasts, and from which start of the machine `boot` counts."""

    now: float
    boot: float
    lease_seconds: float
    boot_id: str = "unknown"

    @property
    def expires(self) -> float:
        """When a lease granted or renewed now is over."""
        return self.boot + self.lease_seconds

    @property
    def reading(self) -> ClockReading:
        """For those who compare the clocks."""
        return ClockReading(self.boot_id, self.boot, self.now)


class LeasePurpose(StrEnum):
    """What a lease allows its worker."""

    ITEMS = "items"
    END = "end"
    DELETE = "delete"


def insert_lease(
    db: sqlite3.Connection,
    times: LeaseClock,
    job_no: int,
    worker_id: str,
    purpose: LeasePurpose,
    *,
    seqs: Sequence[int] = (),
    alone: bool = False,
) -> int:
    """Writes a lease down, under a fence that no lease had before; answers with it."""
    (fence,) = db.execute("UPDATE meta SET value = value + 1 WHERE key = 'fence' RETURNING value").fetchone()
    db.execute(
        "INSERT INTO leases (fence, job_no, worker, purpose, alone, revision, renewed, expires, seqs) "
        "VALUES (?1, ?2, ?3, ?4, ?5, (SELECT revision FROM jobs WHERE job_no = ?2), ?6, ?7, ?8)",
        (fence, job_no, worker_id, purpose, alone, times.boot, times.expires, msgspec.json.encode(seqs)),
    )
    return int(fence)


def grant_job_lease(
    db: sqlite3.Connection,
    times: LeaseClock,
    worker_id: str,
    job: sqlite3.Row,
    order: Job,
    due_since: float | None = None,
) -> Lease:
    """Hands out the right to end a job, or to delete it if it is marked for that."""
    purpose = LeasePurpose.DELETE if job["deleting"] else LeasePurpose.END
    return Lease(
        fence=insert_lease(db, times, job["job_no"], worker_id, purpose),
        job=order,
        worker_id=worker_id,
        lease_seconds=times.lease_seconds,
        revision=job["revision"],
        stopping=None if job["stopping"] is None else StopReason(job["stopping"]),
        due_since=due_since,
    )


def leased_job_no(db: sqlite3.Connection, lease: Lease, purpose: LeasePurpose) -> int:
    """The number of the job whose right the worker holds. Raises LeaseLost."""
    row = db.execute(
        "SELECT job_no FROM leases WHERE fence = ? AND worker = ? AND purpose = ? AND rescued = 0",
        (lease.fence, lease.worker_id, purpose),
    ).fetchone()
    if row is None:
        raise LeaseLost(f"the right to {purpose} job {lease.job.job_id!r} was taken away")
    return int(row[0])


def directive_for(db: sqlite3.Connection, fence: int) -> LeaseDirective:
    """What the worker is to do with a lease that it holds."""
    (go_on,) = db.execute(
        "SELECT l.purpose <> 'items' "
        "OR (j.state IN ('pending', 'running') AND j.stopping IS NULL AND j.revision = l.revision) "
        "FROM leases AS l JOIN jobs AS j ON j.job_no = l.job_no WHERE l.fence = ?",
        (fence,),
    ).fetchone()
    return LeaseDirective.GO_ON if go_on else LeaseDirective.STOP


def renew(
    db: sqlite3.Connection, times: LeaseClock, worker_id: str, fences: Collection[int]
) -> dict[int, LeaseDirective]:
    """See LeaseBook.renew."""
    answers = {}
    for fence in fences:
        held = db.execute(
            "UPDATE leases SET renewed = ?, expires = ? WHERE fence = ? AND worker = ? AND rescued = 0",
            (times.boot, times.expires, fence, worker_id),
        ).rowcount
        answers[fence] = directive_for(db, fence) if held else LeaseDirective.LOST
    return answers


def release(db: sqlite3.Connection, worker_id: str, fence: int) -> str | None:
    """See LeaseBook.release. Answers whose lease it was."""
    row = db.execute(
        "DELETE FROM leases WHERE fence = ? AND worker = ? RETURNING job_no, seqs", (fence, worker_id)
    ).fetchone()
    if row is None:
        return None
    job_no, seqs = row
    held = held_items(db, job_no, fence, seqs)
    return_items(db, job_no, held)
    slot_shares.leave(db, job_no, worker_id, held)
    (job_id,) = db.execute("SELECT job_id FROM jobs WHERE job_no = ?", (job_no,)).fetchone()
    return str(job_id)


def workers_with_leases(db: sqlite3.Connection) -> set[str]:
    """Workers that have leases, of whatever kind."""
    return {worker for (worker,) in db.execute("SELECT DISTINCT worker FROM leases")}


def held_items(db: sqlite3.Connection, job_no: int, fence: int, seqs: bytes) -> dict[int, ItemProgress]:
    """The items that a lease still holds and that have not ended, in their order."""
    rows = db.execute(
        "SELECT i.seq, i.progress FROM json_each(CAST(? AS TEXT)) AS listed CROSS JOIN items AS i "
        "ON i.job_no = ? AND i.seq = listed.value WHERE i.fence = ? AND i.state = 0",
        (seqs, job_no, fence),
    )
    return {seq: read_progress(progress) for seq, progress in rows}


def return_items(
    db: sqlite3.Connection, job_no: int, items: dict[int, ItemProgress], due: Mapping[int, float] = _AT_ONCE
) -> None:
    """Makes items claimable, with this progress: at once, or when they are `due` on the boot clock."""
    for seq, progress in items.items():
        db.execute(
            "UPDATE items SET fence = 0, due = ?, progress = ? WHERE job_no = ? AND seq = ?",
            (due.get(seq), progress.row, job_no, seq),
        )
        db.execute("INSERT INTO waiting VALUES (?, ?, ?, ?)", (job_no, progress.rank, due.get(seq, 0), seq))
    untried = sum(progress.rank is Rank.UNTRIED for progress in items.values())
    if untried:
        db.execute("UPDATE jobs SET released = released - ? WHERE job_no = ?", (untried, job_no))

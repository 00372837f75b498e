"""How the concurrency of a job is divided into slots among the workers that have leases of it.

Runs inside a transaction. The sum over `shares` of a job never exceeds its limit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from swath.domain.lease import SlotReport, fair_share, grant_slots, target_slots

__all__ = ["Slots", "begun_items", "join", "leave", "regrant"]

_seqs_decoder = msgspec.json.Decoder(list[int])


class Slots(NamedTuple):
    """A worker's ceiling on a job, and its fair share."""

    slots: int
    target: int


def join(db: sqlite3.Connection, job_no: int, worker: str, limit: int, items: int) -> Slots:
    """Gives a worker with a new lease its first slots; one that has some already keeps them and only wants more."""
    known = db.execute(
        "UPDATE shares SET demand = demand + ? WHERE job_no = ? AND worker = ? RETURNING slots", (items, job_no, worker)
    ).fetchone()
    if known is not None:
        return Slots(known[0], _target(db, job_no, worker, limit, known[0]))
    db.execute("INSERT INTO shares (job_no, worker, slots, demand) VALUES (?, ?, 0, ?)", (job_no, worker, items))
    return _grant(db, job_no, worker, limit, 0)


def regrant(db: sqlite3.Connection, job_no: int, worker: str, limit: int, report: SlotReport) -> Slots:
    """Takes a worker's report and gives it its share as things stand now."""
    (before,) = db.execute(
        "UPDATE shares SET demand = ?, queued = ?, begun = ?, waiting = ?, running = ? WHERE job_no = ? AND worker = ? "
        "RETURNING slots",
        (
            report.demand,
            msgspec.json.encode(report.queued),
            msgspec.json.encode(report.begun),
            len(report.queued),
            len(report.begun),
            job_no,
            worker,
        ),
    ).fetchone()
    return _grant(db, job_no, worker, limit, min(report.ceiling, before))  # a worker cannot raise itself


def _grant(db: sqlite3.Connection, job_no: int, worker: str, limit: int, ceiling: int) -> Slots:
    target = _target(db, job_no, worker, limit, ceiling)
    slots = grant_slots(limit, ceiling, target, _slots_of_others(db, job_no, worker))
    db.execute("UPDATE shares SET slots = ? WHERE job_no = ? AND worker = ?", (slots, job_no, worker))
    return Slots(slots, target)


def _target(db: sqlite3.Connection, job_no: int, worker: str, limit: int, ceiling: int) -> int:
    rows = db.execute("SELECT worker, demand FROM shares WHERE job_no = ? ORDER BY worker", (job_no,)).fetchall()
    shares = fair_share(limit, [demand for _, demand in rows])
    fair = shares[[other for other, _ in rows].index(worker)]
    return target_slots(limit, ceiling, fair, _slots_of_others(db, job_no, worker))


def _slots_of_others(db: sqlite3.Connection, job_no: int, worker: str) -> int:
    (others,) = db.execute(
        "SELECT coalesce(sum(slots), 0) FROM shares WHERE job_no = ? AND worker <> ?", (job_no, worker)
    ).fetchone()
    return int(others)


def begun_items(db: sqlite3.Connection, job_no: int, worker: str) -> frozenset[int]:
    """Which items of the job the worker had sent requests for, as it last reported."""
    row = db.execute("SELECT begun FROM shares WHERE job_no = ? AND worker = ?", (job_no, worker)).fetchone()
    return frozenset() if row is None else frozenset(_seqs_decoder.decode(row[0]))


def leave(db: sqlite3.Connection, job_no: int, worker: str, lost: Collection[int]) -> None:
    """Items that a worker lost do not run any more; with its last lease of the job it loses its slots there."""
    row = db.execute("SELECT queued, begun FROM shares WHERE job_no = ? AND worker = ?", (job_no, worker)).fetchone()
    if row is None:
        return
    live = db.execute(
        "SELECT 1 FROM leases WHERE job_no = ? AND worker = ? AND purpose = 'items' AND rescued = 0 LIMIT 1",
        (job_no, worker),
    ).fetchone()
    if live is None:
        db.execute("DELETE FROM shares WHERE job_no = ? AND worker = ?", (job_no, worker))
        return
    queued, running = ([seq for seq in _seqs_decoder.decode(seqs) if seq not in lost] for seqs in row)
    db.execute(
        "UPDATE shares SET queued = ?, begun = ?, waiting = ?, running = ? WHERE job_no = ? AND worker = ?",
        (msgspec.json.encode(queued), msgspec.json.encode(running), len(queued), len(running), job_no, worker),
    )

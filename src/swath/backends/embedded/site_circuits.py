"""Circuits, robots.txt, tiers and the departed, as rows. Each function runs inside one transaction of site_file.py.

What is decided of circuits is in domain/site_circuit.py; rates and shares are in site_rows.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from swath.backends.embedded.site_rows import circuit_of, find, put
from swath.domain import site_circuit
from swath.domain.site import Breaker
from swath.domain.site_circuit import Admission, SiteCircuit
from swath.ports.site_book import Hold, KeptRobots

__all__ = ["admit", "forget", "hold", "keep_robots", "record", "remember_tier", "robots", "withdraw"]


def admit(
    db: sqlite3.Connection, now: float, name: str, worker_id: str, breaker: Breaker, probe_seconds: float
) -> Admission:
    """Lets through, holds back, or makes the caller the probe."""
    row = find(db, name)
    admission = site_circuit.admit(row.circuit, worker_id, breaker, now, probe_seconds)
    if admission.probe:
        put(db, now, name, row._replace(circuit=admission.circuit, is_site=True))
    return admission


def withdraw(db: sqlite3.Connection, now: float, name: str, epoch: int) -> SiteCircuit:
    """Lets another probe be sent."""
    row = find(db, name)
    circuit = site_circuit.withdraw(row.circuit, epoch)
    if circuit != row.circuit:
        put(db, now, name, row._replace(circuit=circuit))
    return circuit


def record(
    db: sqlite3.Connection, now: float, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int
) -> SiteCircuit:
    """Counts outcomes."""
    row = find(db, name)
    circuit = site_circuit.record(row.circuit, breaker, outcomes, epoch, now)
    if circuit != row.circuit:
        put(db, now, name, row._replace(circuit=circuit, is_site=True))
    return circuit


def robots(db: sqlite3.Connection, now: float, origin: str, fetch_seconds: float) -> KeptRobots | None:
    """What is kept, or whose turn it is to fetch it."""
    row = db.execute(
        "SELECT keep_until, fetch_until, status, body, fetched_at FROM robots WHERE origin = ?", (origin,)
    ).fetchone()
    if row is not None and row[0] > now:
        return KeptRobots(*row[2:])
    if row is not None and row[1] > now:
        return None
    db.execute(
        "INSERT OR REPLACE INTO robots (origin, keep_until, fetch_until) VALUES (?, 0, ?)",
        (origin, now + fetch_seconds),
    )
    return KeptRobots(0)


def keep_robots(db: sqlite3.Connection, now: float, origin: str, kept: KeptRobots, seconds: float) -> None:
    """Shares what was fetched."""
    db.execute(
        "INSERT OR REPLACE INTO robots VALUES (?, ?, 0, ?, ?, ?)",
        (origin, now + seconds, kept.status, kept.fetched_at, kept.body),
    )


def forget(db: sqlite3.Connection, now: float, worker_ids: Collection[str]) -> None:
    """Frees what the departed had."""
    db.executemany("DELETE FROM shares WHERE worker = ?", [(worker_id,) for worker_id in worker_ids])
    troubled = db.execute("SELECT name, circuit FROM sites WHERE circuit IS NOT NULL").fetchall()  # few
    for name, stored in troubled:
        circuit = circuit_of(stored)
        if circuit.probe_by in worker_ids:
            withdraw(db, now, name, circuit.epoch)


def hold(db: sqlite3.Connection, now: float, name: str, held: Hold) -> None:
    """Beside the bucket and the circuit, which stay as they are."""
    put(db, now, name, find(db, name)._replace(is_site=True))
    db.execute("INSERT OR REPLACE INTO holds VALUES (?, ?, ?)", (name, held.why, held.until))


def remember_tier(db: sqlite3.Connection, now: float, name: str, tier: str) -> None:
    """Beside the bucket and the circuit, which stay as they are."""
    row = find(db, name)
    put(db, now, name, row._replace(is_site=True))
    db.execute("UPDATE sites SET tier = ? WHERE name = ?", (tier, name))

"""Rates and shares as rows. Each function runs inside one transaction of site_file.py, with the time on the boot clock.

What is decided is in domain/bucket.py, domain/site_share.py and domain/site_circuit.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from swath.domain import bucket as buckets
from swath.domain import site_circuit
from swath.domain.bucket import Bucket, Slice
from swath.domain.site_circuit import SiteCircuit
from swath.domain.site_round import Part, give_back, take_part
from swath.domain.site_share import FAR_TURN_SECONDS, TURN_SECONDS, Share, grant_share
from swath.ports.site_book import SHARE_SECONDS, Ask, Hold, SiteState, Terms

__all__ = ["Row", "ask", "circuit_of", "find", "put", "slow_down", "states"]

_KEEP_SECONDS: Final = 86_400.0
_bucket_of = msgspec.json.Decoder(Bucket).decode
_circuit_of = msgspec.json.Decoder(SiteCircuit).decode
_encode = msgspec.json.Encoder().encode
_CLOSED: Final = SiteCircuit()


class Row(NamedTuple):
    """What there is of one name."""

    bucket: Bucket
    circuit: SiteCircuit
    is_site: bool


def circuit_of(stored: bytes | None) -> SiteCircuit:
    """A circuit as it is kept."""
    return _CLOSED if stored is None else _circuit_of(stored)


def find(db: sqlite3.Connection, name: str) -> Row:
    """As it is kept, or as it begins."""
    row = db.execute("SELECT bucket, circuit, is_site FROM sites WHERE name = ?", (name,)).fetchone()
    if row is None:
        return Row(Bucket(), _CLOSED, is_site=False)
    return Row(_bucket_of(row[0]), circuit_of(row[1]), bool(row[2]))


def put(db: sqlite3.Connection, now: float, name: str, row: Row) -> None:
    """Keeps it for a day, and at least until its bucket is free."""
    db.execute(
        "INSERT INTO sites (name, keep_until, is_site, bucket, circuit) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (name) "
        "DO UPDATE SET keep_until = ?2, is_site = ?3, bucket = ?4, circuit = ?5",
        (
            name,
            max(now, row.bucket.next_free) + _KEEP_SECONDS,
            row.is_site,
            _encode(row.bucket),
            None if row.circuit == _CLOSED else _encode(row.circuit),
        ),
    )


def ask(db: sqlite3.Connection, now: float, name: str, worker_id: str, asked: Ask) -> Terms:
    """Reserves instants and grants a share."""
    row = find(db, name)
    row = row._replace(bucket=give_back(row.bucket, asked.returned, now))
    if asked.concurrency is None:
        shares = _joined(db, now, name, worker_id, asked) if asked.part else {}
        bucket, taken = _reserve(row.bucket, worker_id, asked, shares, now)
        put(db, now, name, row._replace(bucket=bucket))
        return _terms(bucket, taken)
    circuit, limit = site_circuit.bound(row.circuit, asked.concurrency)
    slots, target, shares = _regrant(db, now, name, worker_id, asked, limit)
    if not slots or (len(shares) > 1 and not asked.part):
        asked = msgspec.structs.replace(asked, requests=min(asked.requests, slots))
    bucket, taken = _reserve(row.bucket, worker_id, asked, shares, now)
    put(db, now, name, Row(bucket, circuit, is_site=True))
    return _terms(bucket, taken, slots, target)


def _terms(bucket: Bucket, taken: Sequence[Slice], slots: int = 0, target: int = 0) -> Terms:
    return Terms(
        slice=taken[0] if taken else None,
        more=tuple(taken[1:]),
        slots=slots,
        target=target,
        round_end=bucket.next_free,
        halved_from=bucket.halved_from,
    )


def _reserve(
    bucket: Bucket, worker_id: str, asked: Ask, shares: Mapping[str, Share], now: float
) -> tuple[Bucket, Sequence[Slice]]:
    if asked.requests <= 0:
        return bucket, ()
    if asked.part:
        slots = {worker: share.slots for worker, share in shares.items() if share.slots}
        part = Part(worker_id, slots, asked.requests)
        return take_part(bucket, asked.rate, asked.quiet_seconds, part, now)
    bucket, taken = buckets.reserve(bucket, asked.rate, asked.requests, now, asked.quiet_seconds)
    return bucket, (taken,)


def _regrant(
    db: sqlite3.Connection, now: float, name: str, worker_id: str, asked: Ask, limit: int
) -> tuple[int, int, Mapping[str, Share]]:
    """The slots, the target, and all who share the site."""
    shares = _shares(db, now, name)
    before = shares.pop(worker_id, None)
    if asked.demand <= 0:
        db.execute("DELETE FROM shares WHERE name = ? AND worker = ?", (name, worker_id))
        return 0, 0, shares
    ceiling = 0 if before is None else min(asked.ceiling, before.slots)  # a worker cannot raise itself
    shares[worker_id] = Share(ceiling, asked.demand, now)
    turn_seconds = FAR_TURN_SECONDS if asked.part else TURN_SECONDS
    slots, target = grant_share(shares, worker_id, limit, now, turn_seconds)
    shares[worker_id] = _share(db, name, worker_id, Share(slots, asked.demand, now))
    return slots, target, shares


def _joined(db: sqlite3.Connection, now: float, name: str, worker_id: str, asked: Ask) -> Mapping[str, Share]:
    """Who takes parts of a job's rate is counted too, and all parts are the same."""
    return {**_shares(db, now, name), worker_id: _share(db, name, worker_id, Share(1, asked.demand, now))}


def _share(db: sqlite3.Connection, name: str, worker_id: str, share: Share) -> Share:
    values = (name, worker_id, share.slots, share.demand, share.asked_at)
    db.execute("INSERT OR REPLACE INTO shares VALUES (?, ?, ?, ?, ?)", values)
    return share


def _shares(db: sqlite3.Connection, now: float, name: str) -> dict[str, Share]:
    rows = db.execute("SELECT worker, slots, demand, asked_at FROM shares WHERE name = ?", (name,)).fetchall()
    shares = {worker: Share(*share) for worker, *share in rows}
    live = {worker: share for worker, share in shares.items() if share.asked_at + SHARE_SECONDS > now}
    if len(live) < len(shares):
        db.execute("DELETE FROM shares WHERE name = ? AND asked_at <= ?", (name, now - SHARE_SECONDS))
    return live


def slow_down(db: sqlite3.Connection, now: float, name: str, sent_at: float, quiet_seconds: float) -> Bucket:
    """Takes a complaint of the site."""
    row = find(db, name)
    bucket = buckets.slow_down(row.bucket, sent_at, now, quiet_seconds)
    put(db, now, name, Row(bucket, row.circuit, is_site=True))
    return bucket


def states(db: sqlite3.Connection, now: float) -> Mapping[str, SiteState]:
    """Every site, with what its workers have open as far as they said."""
    busy = dict(
        db.execute(
            "SELECT name, sum(min(slots, demand)) FROM shares WHERE asked_at > ? GROUP BY name", (now - SHARE_SECONDS,)
        )
    )
    holds = {name: Hold(*hold) for name, *hold in db.execute("SELECT name, why, until FROM holds")}
    return {
        name: SiteState(
            name=name,
            bucket=_bucket_of(bucket),
            circuit=circuit_of(circuit),
            open_requests=busy.get(name, 0),
            tier=tier,
            hold=holds.get(name),
        )
        for name, bucket, circuit, tier in db.execute("SELECT name, bucket, circuit, tier FROM sites WHERE is_site")
    }

"""Rates, slots, circuits, robots.txt and proxy tiers of sites, as rows.

Each function runs inside one transaction and takes the time of the boot clock; the domain makes the decisions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from swath.domain import circuit_breaker
from swath.domain import token_bucket as buckets
from swath.domain.circuit_breaker import CircuitAdmission, SiteCircuit
from swath.domain.site_policy import Breaker
from swath.domain.site_slots import REMOTE_ROTATION_SECONDS, ROTATION_SECONDS, SiteShare, grant_site_slots
from swath.domain.token_bucket import RateSlice, RoundShareRequest, TokenBucket, return_slices, take_round_share
from swath.ports.site_state import SHARE_SECONDS, CachedRobots, SiteHold, SiteShareGrant, SiteShareRequest, SiteSnapshot

__all__ = [
    "SiteRow",
    "admit",
    "ask",
    "circuit_of",
    "find",
    "forget",
    "hold",
    "keep_robots",
    "put",
    "record",
    "remember_tier",
    "robots",
    "slow_down",
    "states",
    "withdraw",
]

_KEEP_SECONDS: Final = 86_400.0
_bucket_of = msgspec.json.Decoder(TokenBucket).decode
_circuit_of = msgspec.json.Decoder(SiteCircuit).decode
_encode = msgspec.json.Encoder().encode
_CLOSED: Final = SiteCircuit()


class SiteRow(NamedTuple):
    """What there is of one name."""

    bucket: TokenBucket
    circuit: SiteCircuit
    is_site: bool


def circuit_of(stored: bytes | None) -> SiteCircuit:
    """A circuit as it is kept."""
    return _CLOSED if stored is None else _circuit_of(stored)


def find(db: sqlite3.Connection, name: str) -> SiteRow:
    """As it is kept, or as it begins."""
    row = db.execute("SELECT bucket, circuit, is_site FROM sites WHERE name = ?", (name,)).fetchone()
    if row is None:
        return SiteRow(TokenBucket(), _CLOSED, is_site=False)
    return SiteRow(_bucket_of(row[0]), circuit_of(row[1]), bool(row[2]))


def put(db: sqlite3.Connection, now: float, name: str, row: SiteRow) -> None:
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


def ask(db: sqlite3.Connection, now: float, name: str, worker_id: str, asked: SiteShareRequest) -> SiteShareGrant:
    """Reserves instants and grants a share."""
    row = find(db, name)
    row = row._replace(bucket=return_slices(row.bucket, asked.returned, now))
    if asked.concurrency is None:
        shares = _count_sharers(db, now, name, worker_id, asked) if asked.part else {}
        bucket, taken = _reserve(row.bucket, worker_id, asked, shares, now)
        put(db, now, name, row._replace(bucket=bucket))
        return _terms(bucket, taken)
    circuit, limit = circuit_breaker.open_request_limit(row.circuit, asked.concurrency)
    slots, target, shares = _regrant(db, now, name, worker_id, asked, limit)
    if not slots or (len(shares) > 1 and not asked.part):
        asked = msgspec.structs.replace(asked, requests=min(asked.requests, slots))
    bucket, taken = _reserve(row.bucket, worker_id, asked, shares, now)
    put(db, now, name, SiteRow(bucket, circuit, is_site=True))
    return _terms(bucket, taken, slots, target)


def _terms(bucket: TokenBucket, taken: Sequence[RateSlice], slots: int = 0, target: int = 0) -> SiteShareGrant:
    return SiteShareGrant(
        slice=taken[0] if taken else None,
        more=tuple(taken[1:]),
        slots=slots,
        target=target,
        round_end=bucket.next_free,
        halved_from=bucket.halved_from,
    )


def _reserve(
    bucket: TokenBucket, worker_id: str, asked: SiteShareRequest, shares: Mapping[str, SiteShare], now: float
) -> tuple[TokenBucket, Sequence[RateSlice]]:
    if asked.requests <= 0:
        return bucket, ()
    if asked.part:
        slots = {worker: share.slots for worker, share in shares.items() if share.slots}
        part = RoundShareRequest(worker_id, slots, asked.requests)
        return take_round_share(bucket, asked.rate, asked.quiet_seconds, part, now)
    bucket, taken = buckets.reserve(bucket, asked.rate, asked.requests, now, asked.quiet_seconds)
    return bucket, (taken,)


def _regrant(
    db: sqlite3.Connection, now: float, name: str, worker_id: str, asked: SiteShareRequest, limit: int
) -> tuple[int, int, Mapping[str, SiteShare]]:
    """The slots, the target, and all who share the site."""
    shares = _shares(db, now, name)
    before = shares.pop(worker_id, None)
    if asked.demand <= 0:
        db.execute("DELETE FROM shares WHERE name = ? AND worker = ?", (name, worker_id))
        return 0, 0, shares
    ceiling = 0 if before is None else min(asked.ceiling, before.slots)  # a worker cannot raise itself
    shares[worker_id] = SiteShare(ceiling, asked.demand, now)
    turn_seconds = REMOTE_ROTATION_SECONDS if asked.part else ROTATION_SECONDS
    slots, target = grant_site_slots(shares, worker_id, limit, now, turn_seconds)
    shares[worker_id] = _share(db, name, worker_id, SiteShare(slots, asked.demand, now))
    return slots, target, shares


def _count_sharers(
    db: sqlite3.Connection, now: float, name: str, worker_id: str, asked: SiteShareRequest
) -> Mapping[str, SiteShare]:
    """Who takes parts of a job's rate is counted too, and all parts are the same."""
    return {**_shares(db, now, name), worker_id: _share(db, name, worker_id, SiteShare(1, asked.demand, now))}


def _share(db: sqlite3.Connection, name: str, worker_id: str, share: SiteShare) -> SiteShare:
    values = (name, worker_id, share.slots, share.demand, share.asked_at)
    db.execute("INSERT OR REPLACE INTO shares VALUES (?, ?, ?, ?, ?)", values)
    return share


def _shares(db: sqlite3.Connection, now: float, name: str) -> dict[str, SiteShare]:
    rows = db.execute("SELECT worker, slots, demand, asked_at FROM shares WHERE name = ?", (name,)).fetchall()
    shares = {worker: SiteShare(*share) for worker, *share in rows}
    live = {worker: share for worker, share in shares.items() if share.asked_at + SHARE_SECONDS > now}
    if len(live) < len(shares):
        db.execute("DELETE FROM shares WHERE name = ? AND asked_at <= ?", (name, now - SHARE_SECONDS))
    return live


def slow_down(db: sqlite3.Connection, now: float, name: str, sent_at: float, quiet_seconds: float) -> TokenBucket:
    """Takes a complaint of the site."""
    row = find(db, name)
    bucket = buckets.slow_down(row.bucket, sent_at, now, quiet_seconds)
    put(db, now, name, SiteRow(bucket, row.circuit, is_site=True))
    return bucket


def states(db: sqlite3.Connection, now: float) -> Mapping[str, SiteSnapshot]:
    """Every site, with what its workers have open as far as they said."""
    busy = dict(
        db.execute(
            "SELECT name, sum(min(slots, demand)) FROM shares WHERE asked_at > ? GROUP BY name", (now - SHARE_SECONDS,)
        )
    )
    holds = {name: SiteHold(*hold) for name, *hold in db.execute("SELECT name, why, until FROM holds")}
    return {
        name: SiteSnapshot(
            name=name,
            bucket=_bucket_of(bucket),
            circuit=circuit_of(circuit),
            open_requests=busy.get(name, 0),
            tier=tier,
            hold=holds.get(name),
        )
        for name, bucket, circuit, tier in db.execute("SELECT name, bucket, circuit, tier FROM sites WHERE is_site")
    }


def admit(
    db: sqlite3.Connection, now: float, name: str, worker_id: str, breaker: Breaker, probe_seconds: float
) -> CircuitAdmission:
    """Lets through, holds back, or makes the caller the probe."""
    row = find(db, name)
    admission = circuit_breaker.admit_request(row.circuit, worker_id, breaker, now, probe_seconds)
    if admission.probe:
        put(db, now, name, row._replace(circuit=admission.circuit, is_site=True))
    return admission


def withdraw(db: sqlite3.Connection, now: float, name: str, epoch: int) -> SiteCircuit:
    """Lets another probe be sent."""
    row = find(db, name)
    circuit = circuit_breaker.withdraw_probe(row.circuit, epoch)
    if circuit != row.circuit:
        put(db, now, name, row._replace(circuit=circuit))
    return circuit


def record(
    db: sqlite3.Connection, now: float, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int
) -> SiteCircuit:
    """Counts outcomes."""
    row = find(db, name)
    circuit = circuit_breaker.record_request_outcomes(row.circuit, breaker, outcomes, epoch, now)
    if circuit != row.circuit:
        put(db, now, name, row._replace(circuit=circuit, is_site=True))
    return circuit


def robots(db: sqlite3.Connection, now: float, origin: str, fetch_seconds: float) -> CachedRobots | None:
    """What is kept, or whose turn it is to fetch it."""
    row = db.execute(
        "SELECT keep_until, fetch_until, status, body, fetched_at FROM robots WHERE origin = ?", (origin,)
    ).fetchone()
    if row is not None and row[0] > now:
        return CachedRobots(*row[2:])
    if row is not None and row[1] > now:
        return None
    db.execute(
        "INSERT OR REPLACE INTO robots (origin, keep_until, fetch_until) VALUES (?, 0, ?)",
        (origin, now + fetch_seconds),
    )
    return CachedRobots(0)


def keep_robots(db: sqlite3.Connection, now: float, origin: str, kept: CachedRobots, seconds: float) -> None:
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


def hold(db: sqlite3.Connection, now: float, name: str, held: SiteHold) -> None:
    """Beside the bucket and the circuit, which stay as they are."""
    put(db, now, name, find(db, name)._replace(is_site=True))
    db.execute("INSERT OR REPLACE INTO holds VALUES (?, ?, ?)", (name, held.why, held.until))


def remember_tier(db: sqlite3.Connection, now: float, name: str, tier: str) -> None:
    """Beside the bucket and the circuit, which stay as they are."""
    row = find(db, name)
    put(db, now, name, row._replace(is_site=True))
    db.execute("UPDATE sites SET tier = ? WHERE name = ?", (tier, name))

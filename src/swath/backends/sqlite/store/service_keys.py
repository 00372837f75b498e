"""The service's API keys, hashed, as rows. Each function runs inside one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any, Final

import msgspec

from swath.backends.sqlite.store import clock_watch
from swath.domain.clock_watch import ClockReading
from swath.domain.errors import Conflict, UnknownName
from swath.domain.service_key import Scope, ServiceKey

__all__ = ["add_key", "expire_keys", "keys", "needs_expiry_update", "revoke_key"]

_QUERY: Final = (
    "SELECT key_id, name, digest, scopes, created_at, expires_at, revoked_at, "
    "coalesce(life_ends <= ?, 0) FROM keys LEFT JOIN key_lives USING (key_id)"
)

_scopes_decoder = msgspec.json.Decoder(tuple[Scope, ...])


def add_key(db: sqlite3.Connection, reading: ClockReading, key: ServiceKey) -> None:
    """See KeyRing.add_key."""
    added = db.execute(
        "INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            key.key_id,
            key.name,
            key.digest,
            msgspec.json.encode(key.scopes).decode(),
            key.created_at,
            key.expires_at,
            key.revoked_at,
        ),
    )
    if not added.rowcount:
        raise Conflict(f"there is a key {key.key_id!r} already")
    expire_keys(db, reading)


def keys(db: sqlite3.Connection, reading: ClockReading) -> list[ServiceKey]:
    """See KeyRing.keys. Writes nothing."""
    uptime = clock_watch.peek(db, reading).uptime
    return [_key(row) for row in db.execute(_QUERY + " ORDER BY created_at, key_id", (uptime,)).fetchall()]


def needs_expiry_update(db: sqlite3.Connection, reading: ClockReading, seen_expired: Collection[str]) -> bool:
    """Whether `expire_keys` would write anything; nearly always not."""
    expiring = any(key.expires_at is not None for key in keys(db, reading))
    return expiring and (clock_watch.needs_update(db, reading) or bool(_new_ends(db, reading, seen_expired)))


def expire_keys(db: sqlite3.Connection, reading: ClockReading, seen_expired: Collection[str] = ()) -> None:
    """See KeyRing.expire_keys."""
    clock_watch.update(db, reading)
    db.executemany("INSERT OR REPLACE INTO key_lives VALUES (?, ?)", _new_ends(db, reading, seen_expired))


def _new_ends(db: sqlite3.Connection, reading: ClockReading, seen_expired: Collection[str]) -> list[tuple[str, float]]:
    """By key: until when it lives, where that is not written down yet."""
    uptime = clock_watch.peek(db, reading).uptime
    known = dict(db.execute("SELECT key_id, life_ends FROM key_lives"))
    expired = dict.fromkeys(seen_expired, 0.0)
    ends = [
        (key.key_id, key.life_ends((known | expired).get(key.key_id), uptime, reading.wall))
        for key in keys(db, reading)
    ]
    return [(key_id, end) for key_id, end in ends if end is not None and end != known.get(key_id)]


def revoke_key(db: sqlite3.Connection, reading: ClockReading, key_id: str) -> ServiceKey:
    """See KeyRing.revoke_key."""
    db.execute("UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE key_id = ?", (reading.wall, key_id))
    uptime = clock_watch.peek(db, reading).uptime
    row = db.execute(_QUERY + " WHERE key_id = ?", (uptime, key_id)).fetchone()
    if row is None:
        known = (name for (name,) in db.execute("SELECT key_id FROM keys"))
        raise UnknownName.of("key", key_id, known, "see `swath keys list`")
    return _key(row)


def _key(row: tuple[Any, ...]) -> ServiceKey:
    key_id, name, digest, scopes, created_at, expires_at, revoked_at, expired = row
    return ServiceKey(
        key_id=key_id,
        name=name,
        digest=digest,
        scopes=_scopes_decoder.decode(scopes),
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        expired=bool(expired),
    )

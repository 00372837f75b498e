"""The keys of the service in the embedded store, hashed. Each function runs inside one transaction."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import msgspec

from swath.domain.errors import Conflict, UnknownName
from swath.domain.service_key import Scope, ServiceKey

__all__ = ["add_key", "keys", "revoke_key"]

_QUERY: Final = "SELECT key_id, name, digest, scopes, created_at, expires_at, revoked_at FROM keys"

_scopes_decoder = msgspec.json.Decoder(tuple[Scope, ...])


def add_key(db: sqlite3.Connection, key: ServiceKey) -> None:
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


def keys(db: sqlite3.Connection) -> list[ServiceKey]:
    """See KeyRing.keys."""
    return [_key(row) for row in db.execute(_QUERY + " ORDER BY created_at, key_id").fetchall()]


def revoke_key(db: sqlite3.Connection, now: float, key_id: str) -> ServiceKey:
    """See KeyRing.revoke_key."""
    db.execute("UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE key_id = ?", (now, key_id))
    row = db.execute(_QUERY + " WHERE key_id = ?", (key_id,)).fetchone()
    if row is None:
        known = (name for (name,) in db.execute("SELECT key_id FROM keys"))
        raise UnknownName.of("key", key_id, known, "see `swath keys list`")
    return _key(row)


def _key(row: tuple[Any, ...]) -> ServiceKey:
    key_id, name, digest, scopes, created_at, expires_at, revoked_at = row
    return ServiceKey(
        key_id=key_id,
        name=name,
        digest=digest,
        scopes=_scopes_decoder.decode(scopes),
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
    )

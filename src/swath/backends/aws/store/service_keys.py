"""The service's API keys, hashed, in one partition of the table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from swath.backends.aws.client.rows import ABSENT, Key, Put, decode_body
from swath.backends.aws.dynamo.layout import KEYS
from swath.backends.aws.store import clock_watch
from swath.backends.aws.store.store_context import StoreContext
from swath.domain.errors import Conflict, StoreUnavailable, UnknownName
from swath.domain.job import WaitingFor
from swath.domain.service_key import ServiceKey

__all__ = ["add_key", "expire_keys", "keys", "revoke_key"]

_TRIES: Final = 10


class _StoredKey(ServiceKey, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key as its row holds it. `life` is until which uptime of the store it lives, see ServiceKey.life_ends."""

    life: float | None = None


_decoder: Final = msgspec.json.Decoder(_StoredKey)


async def add_key(ledger: StoreContext, key: ServiceKey) -> None:
    """See KeyRing.add_key."""
    kept = _StoredKey(**msgspec.structs.asdict(key))
    if key.expires_at is not None:
        watch = await clock_watch.update(ledger)
        kept = msgspec.structs.replace(kept, life=key.life_ends(None, watch.uptime, watch.wall))
    put = Put(Key(KEYS, key.key_id), msgspec.json.encode(kept), version=1, expected=ABSENT)
    if not await ledger.table.commit(put):
        raise Conflict(f"there is a key {key.key_id!r} already")


async def keys(ledger: StoreContext) -> list[ServiceKey]:
    """See KeyRing.keys."""
    found = [decode_body(_decoder, row) async for row in ledger.table.query(KEYS)]
    uptime = (await clock_watch.peek(ledger)).uptime if any(key.life for key in found) else 0.0
    return sorted((_to_service_key(key, uptime) for key in found), key=lambda key: (key.created_at, key.key_id))


async def expire_keys(ledger: StoreContext, seen_expired: Collection[str]) -> None:
    """See KeyRing.expire_keys. Who loses a row to another controller leaves it to the next time."""
    rows = [(row, decode_body(_decoder, row)) async for row in ledger.table.query(KEYS)]
    expiring = [(row, key) for row, key in rows if key.expires_at is not None and key.revoked_at is None]
    if not expiring:
        return
    watch = await clock_watch.update(ledger)
    for row, key in expiring:
        known = 0.0 if key.key_id in seen_expired else key.life
        life = key.life_ends(known, watch.uptime, watch.wall)
        if life != key.life:
            changed = msgspec.json.encode(msgspec.structs.replace(key, life=life))
            await ledger.table.commit(Put(row.key, changed, row.version + 1, row.version))


async def revoke_key(ledger: StoreContext, key_id: str) -> ServiceKey:
    """See KeyRing.revoke_key."""
    for _ in range(_TRIES):
        rows = {row.key.s: row async for row in ledger.table.query(KEYS)}  # few, and what people type may be no key
        row = rows.get(key_id)
        if row is None:
            raise UnknownName.of("key", key_id, rows, "see `swath keys list`")
        key = decode_body(_decoder, row)
        if key.revoked_at is not None:
            return _to_service_key(key, 0.0)
        revoked = msgspec.structs.replace(key, revoked_at=ledger.times().now)
        if await ledger.table.commit(Put(row.key, msgspec.json.encode(revoked), row.version + 1, row.version)):
            return _to_service_key(revoked, 0.0)
    raise StoreUnavailable(f"too many change key {key_id!r} at once", WaitingFor.STORE)


def _to_service_key(key: _StoredKey, uptime: float) -> ServiceKey:
    """As the port tells it."""
    fields = {name: getattr(key, name) for name in ServiceKey.__struct_fields__}
    return ServiceKey(**{**fields, "expired": key.life is not None and key.life <= uptime})

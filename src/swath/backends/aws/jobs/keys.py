"""The keys that controllers accept, in one partition of the table. Asked through store.py."""

from __future__ import annotations

from typing import Final

import msgspec

from swath.backends.aws.calls.rows import ABSENT, Key, Put, decoded
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.table.layout import KEYS
from swath.domain.errors import Conflict, StoreUnavailable, UnknownName
from swath.domain.job import WaitingFor
from swath.domain.service_key import ServiceKey

__all__ = ["add_key", "keys", "revoke_key"]

_TRIES: Final = 10

_decoder: Final = msgspec.json.Decoder(ServiceKey)


async def add_key(ledger: Ledger, key: ServiceKey) -> None:
    """See KeyRing.add_key."""
    put = Put(Key(KEYS, key.key_id), msgspec.json.encode(key), version=1, expected=ABSENT)
    if not await ledger.table.commit(put):
        raise Conflict(f"there is a key {key.key_id!r} already")


async def keys(ledger: Ledger) -> list[ServiceKey]:
    """See KeyRing.keys."""
    found = [decoded(_decoder, row) async for row in ledger.table.query(KEYS)]
    return sorted(found, key=lambda key: (key.created_at, key.key_id))


async def revoke_key(ledger: Ledger, key_id: str) -> ServiceKey:
    """See KeyRing.revoke_key."""
    for _ in range(_TRIES):
        rows = {row.key.s: row async for row in ledger.table.query(KEYS)}  # few, and what people type may be no key
        row = rows.get(key_id)
        if row is None:
            raise UnknownName.of("key", key_id, rows, "see `swath keys list`")
        key = decoded(_decoder, row)
        if key.revoked_at is not None:
            return key
        revoked = msgspec.structs.replace(key, revoked_at=ledger.times().now)
        if await ledger.table.commit(Put(row.key, msgspec.json.encode(revoked), row.version + 1, row.version)):
            return revoked
    raise StoreUnavailable(f"too many change key {key_id!r} at once", WaitingFor.STORE)

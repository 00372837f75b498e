"""KeyRing: the keys that the controllers of a store accept. Asked by entrypoints/api, changed by `swath keys`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from swath.domain.service_key import ServiceKey

__all__ = ["KeyRing"]


class KeyRing(Protocol):
    """Part of a store, durable. There are few keys, and revoked ones stay known."""

    async def add_key(self, key: ServiceKey) -> None:
        """Raises Conflict when its id is taken."""
        ...

    async def keys(self) -> list[ServiceKey]:
        """All of them, the oldest first."""
        ...

    async def expire_keys(self, seen_expired: Collection[str] = ()) -> None:
        """Notes which keys have expired, by the wall clock or by the boot clock, and those that the caller has seen
        expired; they stay so.

        Called again and again by whoever lets callers in: how long a key has lived is known from these looks at the
        clocks, over restarts too, but not how long the machine was off while its wall clock was behind.
        """
        ...

    async def revoke_key(self, key_id: str) -> ServiceKey:
        """From now on it opens nothing; one that was revoked before stays as it is. Raises UnknownName."""
        ...

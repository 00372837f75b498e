"""KeyRing: the keys that the controllers of a store accept. Asked by entrypoints/api, changed by `swath keys`."""

from __future__ import annotations

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

    async def revoke_key(self, key_id: str) -> ServiceKey:
        """From now on it opens nothing; one that was revoked before stays as it is. Raises UnknownName."""
        ...

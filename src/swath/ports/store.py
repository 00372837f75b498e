"""Store: the ports that one back end serves together, because its commits span them.

Its small parts are here too: the webhooks that are written with the ends of jobs, each sent at least once under the
same id, and the service keys.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from swath.domain.service_key import ServiceKey
from swath.domain.webhook import Webhook
from swath.ports.job_control import JobControl
from swath.ports.job_endings import JobEndings
from swath.ports.job_store import JobStore
from swath.ports.lease_store import LeaseStore

__all__ = ["KeyRing", "Store", "WebhookOutbox"]


class WebhookOutbox(Protocol):
    """Part of a store. Any number of processes may send."""

    async def take_webhooks(self, hold_seconds: float, limit: int = 16) -> list[Webhook]:
        """Hands out webhooks that are due by the boot clock, the longest due first. Each is due again after
        `hold_seconds`, unless it is noted before: whoever took it may die. After a restart of the machine all that
        wait are due; hosts that share a store count each wait from when they first saw it."""
        ...

    async def note_webhook(self, webhook: Webhook) -> bool:
        """Replaces what is known of it by this, with the next revision. False, and nothing changed, when its revision
        is not that of the store: somebody else has changed it since, or the job was deleted."""
        ...

    async def webhooks(self, job_id: str) -> list[Webhook]:
        """All of a job, one for each generation that had one, the oldest first. Raises UnknownName."""
        ...


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


class Store(JobStore, JobControl, LeaseStore, JobEndings, WebhookOutbox, KeyRing, Protocol):
    """All parts of a store."""

"""What the service around the jobs keeps in the SQLite file: webhooks to be sent, and keys. A part of EmbeddedStore.

What a transaction does is in outbox.py and keys.py, how it is run in database.py.
"""

from __future__ import annotations

from collections.abc import Collection

from swath.backends.embedded import keys, outbox
from swath.backends.embedded.database import Database
from swath.domain.clock_watch import ClockReading
from swath.domain.service_key import ServiceKey
from swath.domain.webhook import Webhook
from swath.ports.clock import Clock

__all__ = ["EmbeddedService"]


class EmbeddedService:
    """See ports/webhook_outbox.py and ports/key_ring.py for what each method promises."""

    _db: Database
    _clock: Clock
    _boot_id: str

    def _reading(self) -> ClockReading:
        return ClockReading(self._boot_id, self._clock.boot(), self._clock.now())

    async def take_webhooks(self, hold_seconds: float, limit: int = 16) -> list[Webhook]:
        now = self._clock.boot()
        if not await self._db.read(outbox.is_due, now):  # nearly always, and then nobody has to wait for us
            return []
        return await self._db.write(outbox.take_webhooks, now, hold_seconds, limit)

    async def note_webhook(self, webhook: Webhook) -> bool:
        return await self._db.write_news(lambda noted: (webhook.job_id,) if noted else (), outbox.note_webhook, webhook)

    async def webhooks(self, job_id: str) -> list[Webhook]:
        return await self._db.read(outbox.webhooks, job_id)

    async def add_key(self, key: ServiceKey) -> None:
        await self._db.write(keys.add_key, self._reading(), key)

    async def keys(self) -> list[ServiceKey]:
        return await self._db.read(keys.keys, self._reading())

    async def expire_keys(self, seen_expired: Collection[str] = ()) -> None:
        reading = self._reading()
        if await self._db.read(keys.some_to_note, reading, seen_expired):
            await self._db.write(keys.expire_keys, reading, seen_expired)

    async def revoke_key(self, key_id: str) -> ServiceKey:
        return await self._db.write(keys.revoke_key, self._reading(), key_id)

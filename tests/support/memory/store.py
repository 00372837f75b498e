"""The in-memory store: the executable form of the Store port's docstrings.

Webhooks and service keys are here; the other parts of the port are joined from the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from swath.domain.errors import Conflict, UnknownName
from swath.domain.service_key import ServiceKey
from swath.domain.webhook import Webhook
from swath.ports.clock import Clock
from tests.support.memory.control import MemoryControl
from tests.support.memory.endings import MemoryEndings
from tests.support.memory.jobs import MemoryJobs
from tests.support.memory.leases import MemoryLeases
from tests.support.memory.state import MemoryState

__all__ = ["MemoryKeys", "MemoryOutbox", "MemoryStore"]


class MemoryOutbox:
    """See ports/webhook_outbox.py for what each method promises."""

    _shelves: MemoryState

    async def take_webhooks(self, hold_seconds: float, limit: int = 16) -> list[Webhook]:
        with self._shelves.open():
            now = self._shelves.clock.boot()
            known = [webhook for job in self._shelves.jobs.values() for webhook in job.webhooks.values()]
            due = [(webhook.due_at, webhook) for webhook in known if webhook.due_at is not None]
            taken = sorted(((at, webhook) for at, webhook in due if at <= now), key=lambda pair: pair[0])[:limit]
            return [self._keep(msgspec.structs.replace(webhook, due_at=now + hold_seconds)) for _, webhook in taken]

    def _keep(self, webhook: Webhook) -> Webhook:
        changed = msgspec.structs.replace(webhook, revision=webhook.revision + 1)
        self._shelves.jobs[webhook.job_id].webhooks[webhook.generation] = changed
        return changed

    async def note_webhook(self, webhook: Webhook) -> bool:
        with self._shelves.open(webhook.job_id):
            job = self._shelves.jobs.get(webhook.job_id)
            known = None if job is None else job.webhooks.get(webhook.generation)
            if known is None or (known.webhook_id, known.revision) != (webhook.webhook_id, webhook.revision):
                return False
            self._keep(webhook)
            return True

    async def webhooks(self, job_id: str) -> list[Webhook]:
        with self._shelves.open():
            return [webhook for _, webhook in sorted(self._shelves.job(job_id).webhooks.items())]


class MemoryKeys:
    """See ports/key_ring.py for what each method promises."""

    _shelves: MemoryState

    async def add_key(self, key: ServiceKey) -> None:
        with self._shelves.open():
            if key.key_id in self._shelves.keys:
                raise Conflict(f"there is a key {key.key_id!r} already")
            self._shelves.keys[key.key_id] = key
            self._expire_keys()

    async def keys(self) -> list[ServiceKey]:
        with self._shelves.open():
            uptime = self._shelves.look_at_clocks().uptime
            found = [
                msgspec.structs.replace(key, expired=self._shelves.key_lives.get(key.key_id, uptime + 1) <= uptime)
                for key in self._shelves.keys.values()
            ]
            return sorted(found, key=lambda key: (key.created_at, key.key_id))

    async def expire_keys(self, seen_expired: Collection[str] = ()) -> None:
        with self._shelves.open():
            self._shelves.key_lives.update(dict.fromkeys(seen_expired, 0.0))
            self._expire_keys()

    def _expire_keys(self) -> None:
        watch, lives = self._shelves.look_at_clocks(), self._shelves.key_lives
        for key in self._shelves.keys.values():
            ends = key.life_ends(lives.get(key.key_id), watch.uptime, watch.wall)
            if ends is not None:
                lives[key.key_id] = ends

    async def revoke_key(self, key_id: str) -> ServiceKey:
        with self._shelves.open():
            if key_id not in self._shelves.keys:
                raise UnknownName.of("key", key_id, self._shelves.keys, "see `swath keys list`")
            key = self._shelves.keys[key_id]
            if key.revoked_at is None:
                key = msgspec.structs.replace(key, revoked_at=self._shelves.clock.now())
            self._shelves.keys[key_id] = key
            return key


class MemoryStore(MemoryJobs, MemoryControl, MemoryLeases, MemoryEndings, MemoryOutbox, MemoryKeys):
    """Lives as long as its process. All workers of a test may share one."""

    def __init__(self, clock: Clock, lease_seconds: float = 15.0) -> None:
        self._shelves = MemoryState(clock, lease_seconds)

    def kill(self, worker_id: str) -> None:
        """For tests, which cannot kill a part of their own process: from now on the worker counts as dead."""
        self._shelves.dead.add(worker_id)

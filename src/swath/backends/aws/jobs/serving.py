"""AwsServing: the parts of the store that controllers and their callers use: webhooks, keys, and news of jobs.

store.py has the rest of the store, and is the one to open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from swath.backends.aws.calls.bridge import Bridge
from swath.backends.aws.jobs import keys, outbox
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.jobs.news import AwsNews
from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.domain.service_key import ServiceKey
from swath.domain.webhook import Webhook

__all__ = ["AwsServing"]

T = TypeVar("T")


class AwsServing:
    """See ports/ (webhook_outbox.py, key_ring.py, news.py) for what each method promises."""

    def __init__(self, bridge: Bridge, ledger: Ledger) -> None:
        self._bridge = bridge
        self._ledger = ledger
        self._closed = False

    async def _run(self, call: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        if self._closed:
            raise StoreUnavailable("the store is closed", WaitingFor.STORE)
        return await self._bridge.run(lambda: call(self._ledger, *args))

    async def take_webhooks(self, hold_seconds: float, limit: int = 16) -> list[Webhook]:
        return await self._run(outbox.take, hold_seconds, limit)

    async def note_webhook(self, webhook: Webhook) -> bool:
        return await self._run(outbox.note, webhook)

    async def webhooks(self, job_id: str) -> list[Webhook]:
        return await self._run(outbox.webhooks, job_id)

    async def add_key(self, key: ServiceKey) -> None:
        await self._run(keys.add_key, key)

    async def keys(self) -> list[ServiceKey]:
        return await self._run(keys.keys)

    async def expire_keys(self, seen_expired: Collection[str] = ()) -> None:
        await self._run(keys.expire_keys, seen_expired)

    async def revoke_key(self, key_id: str) -> ServiceKey:
        return await self._run(keys.revoke_key, key_id)

    def news(self) -> AwsNews:
        return AwsNews(self._ledger.bulletin.listen())

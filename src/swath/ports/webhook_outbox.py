"""WebhookOutbox: webhooks that were written with the ends of jobs (ports/endings.py) and are to be sent.

Durable: one that is due is handed out again and again until somebody notes that it was delivered or given up, so it is
sent at least once, always under the same id. A job's webhooks go with it when it is deleted.
"""

from __future__ import annotations

from typing import Protocol

from swath.domain.webhook import Webhook

__all__ = ["WebhookOutbox"]


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

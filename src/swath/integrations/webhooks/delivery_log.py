"""Shows the deliveries of a job's webhooks, and sends a webhook again when a person asks for it."""

from __future__ import annotations

from typing import Any, Final

from swath.domain.errors import Conflict
from swath.domain.secret import MASK
from swath.domain.webhook import Webhook, reset_for_resend
from swath.fetch.url import canonical, origin_of, redacted
from swath.ports.clock import Clock
from swath.ports.store import WebhookOutbox

__all__ = ["delivery_log_entry", "schedule_resend"]

_TRIES: Final = 5  # against a courier that notes something at the same time


def delivery_log_entry(webhook: Webhook, configured_url: str | None, clock: Clock) -> dict[str, Any]:
    """A webhook with its deliveries. Of the operator's own address only where it leads to: what comes after the host
    often is all that one needs to post there, and everybody who may look at jobs may see this."""
    url = redacted(webhook.url)
    if webhook.url == configured_url:
        url = f"{origin_of(canonical(webhook.url))}/{MASK}"
    return webhook.as_json(clock.now() - clock.boot()) | {"url": url}


async def schedule_resend(outbox: WebhookOutbox, clock: Clock, job_id: str, webhook_id: str | None = None) -> Webhook:
    """Makes the newest webhook of the job, or the one that is named, due at once, with the whole schedule before it.

    Raises UnknownName for the job, and Conflict when there is no such webhook.
    """
    for _ in range(_TRIES):
        known = await outbox.webhooks(job_id)
        found = [one for one in known if webhook_id in (None, one.webhook_id)]
        if not found:
            raise _no_webhook(job_id, webhook_id, known)
        wanted = reset_for_resend(found[-1], clock.boot())
        if await outbox.note_webhook(wanted):
            return wanted
    raise Conflict(f"the webhook of job {job_id!r} is being sent at this very moment; look again in a minute")


def _no_webhook(job_id: str, webhook_id: str | None, known: list[Webhook]) -> Conflict:
    if webhook_id is not None and known:
        return Conflict(f"job {job_id!r} has no webhook {webhook_id!r}; it has {known[-1].webhook_id}")
    return Conflict(
        f"job {job_id!r} has no webhook: either it has not ended, or it has no callback_url and "
        "SWATH_WEBHOOK_URL was not set where it ended"
    )

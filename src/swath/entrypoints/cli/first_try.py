"""The first try of a webhook, by the command that ended the job: there may be nobody else to make it.

Used by `run`, `jobs retry --run` and `jobs cancel` after the end, and by `jobs webhooks --resend`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import click

from swath.bootstrap.network import open_outside
from swath.bootstrap.services import Services
from swath.domain.errors import StoreUnavailable
from swath.domain.webhook import Webhook, WebhookState
from swath.entrypoints.cli.output import command

__all__ = ["how_it_went", "tell_of_end", "try_once"]

MARGIN_SECONDS: Final = 5.0
STEP_SECONDS: Final = 0.1


async def tell_of_end(services: Services, job_id: str) -> None:
    """Sends the webhook of a job that has just ended, and says so when it was not taken. Bounded in time."""
    try:
        found = await services.store.webhooks(job_id)
        webhook = await try_once(services, job_id) if found and found[-1].state is WebhookState.PENDING else None
    except StoreUnavailable as error:
        click.echo(f"the webhook of job {job_id} is left to workers: {error}", err=True)
        return
    if webhook is not None and webhook.state is not WebhookState.DELIVERED:
        again = command("jobs", "webhooks", job_id, "--resend")
        click.echo(f"{how_it_went(webhook)}; a worker or a controller tries again, or `{again}`", err=True)


async def try_once(services: Services, job_id: str) -> Webhook:
    """The newest webhook of a job after its first try since it was made or sent again, whoever makes that; as it stands
    when that takes too long."""
    try:
        async with asyncio.timeout(services.settings.webhook_timeout_seconds + MARGIN_SECONDS):
            async with open_outside(services) as outside:
                while True:
                    await outside.courier.run_once()
                    await outside.courier.settle()
                    webhook = (await services.store.webhooks(job_id))[-1]
                    if webhook.tries or webhook.state is not WebhookState.PENDING:
                        return webhook
                    await services.clock.sleep(STEP_SECONDS)
    except TimeoutError:
        return (await services.store.webhooks(job_id))[-1]


def how_it_went(webhook: Webhook) -> str:
    """The last try in a few words."""
    if not webhook.deliveries:
        return f"the webhook of job {webhook.job_id} was not sent yet"
    last = webhook.deliveries[-1]
    if last.taken:
        return f"the webhook of job {webhook.job_id} was delivered"
    why = last.error if last.status is None else f"it was answered {last.status}"
    return f"the webhook of job {webhook.job_id} was not taken: {why}"

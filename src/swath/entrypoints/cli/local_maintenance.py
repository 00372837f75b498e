"""Does for one job what workers do beside running items: rescue, finishing, the first try of its webhook, deletion.

So that `jobs cancel`, `jobs delete` and `jobs webhooks --resend` work when no worker is running.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable
from typing import Final

import click

from swath.bootstrap.network import open_outbound
from swath.bootstrap.services import Services, new_worker_id
from swath.bootstrap.workers import make_finisher, make_remover
from swath.domain.errors import StoreUnavailable, UnknownName
from swath.domain.job import JobStatus
from swath.domain.webhook import Webhook, WebhookState
from swath.entrypoints.cli.output import command
from swath.pipeline.worker.rescue import Rescuer

__all__ = ["WAIT_SECONDS", "describe_last_try", "finish_job", "remove_job", "send_end_webhook", "try_webhook_once"]

WEBHOOK_MARGIN_SECONDS: Final = 5.0
WEBHOOK_POLL_SECONDS: Final = 0.1


async def send_end_webhook(services: Services, job_id: str) -> None:
    """Sends the webhook of a job that has just ended, and says so when it was not taken. Bounded in time."""
    try:
        found = await services.store.webhooks(job_id)
        webhook = (
            await try_webhook_once(services, job_id) if found and found[-1].state is WebhookState.PENDING else None
        )
    except StoreUnavailable as error:
        click.echo(f"the webhook of job {job_id} is left to workers: {error}", err=True)
        return
    if webhook is not None and webhook.state is not WebhookState.DELIVERED:
        again = command("jobs", "webhooks", job_id, "--resend")
        click.echo(f"{describe_last_try(webhook)}; a worker or a controller tries again, or `{again}`", err=True)


async def try_webhook_once(services: Services, job_id: str) -> Webhook:
    """The newest webhook of a job after its first try since it was made or sent again, whoever makes that; as it stands
    when that takes too long."""
    try:
        async with asyncio.timeout(services.settings.webhook_timeout_seconds + WEBHOOK_MARGIN_SECONDS):
            async with open_outbound(services) as outside:
                while True:
                    await outside.courier.run_once()
                    await outside.courier.settle()
                    webhook = (await services.store.webhooks(job_id))[-1]
                    if webhook.tries or webhook.state is not WebhookState.PENDING:
                        return webhook
                    await services.clock.sleep(WEBHOOK_POLL_SECONDS)
    except TimeoutError:
        return (await services.store.webhooks(job_id))[-1]


def describe_last_try(webhook: Webhook) -> str:
    """The last try in a few words."""
    if not webhook.deliveries:
        return f"the webhook of job {webhook.job_id} was not sent yet"
    last = webhook.deliveries[-1]
    if last.taken:
        return f"the webhook of job {webhook.job_id} was delivered"
    why = last.error if last.status is None else f"it was answered {last.status}"
    return f"the webhook of job {webhook.job_id} was not taken: {why}"


WAIT_SECONDS = 10.0  # for workers that live and hold something of the job
MAX_WAIT_SECONDS = 60.0  # also where a lease lasts longer
POLL_SECONDS = 0.1


async def finish_job(services: Services, job_id: str) -> JobStatus:
    """Answers with the job once it has ended, or as it stands when living workers still hold items of it then."""
    worker_id, clock = new_worker_id(), services.clock
    rescuer = Rescuer(services.store, services.storage, services.sites, clock, worker_id)
    finisher = make_finisher(services, worker_id, job_id)
    deadline = clock.boot() + WAIT_SECONDS
    while True:
        await rescuer.run_once()
        await finisher.run_once()
        status = await services.store.status(job_id)
        if status.state.terminal:
            await send_end_webhook(services, job_id)
        if status.state.terminal or clock.boot() >= deadline:
            return status
        await clock.sleep(POLL_SECONDS)


async def remove_job(services: Services, job_id: str, note: Callable[[str], None]) -> bool:
    """Deletes a job that is marked for it; answers whether it is gone, or another process is still at it.

    A process that is proven dead is replaced at once, any other when its lease is over. `note` hears of that wait.
    """
    worker_id, clock = new_worker_id(), services.clock
    rescuer = Rescuer(services.store, services.storage, services.sites, clock, worker_id)
    remover = make_remover(services, worker_id, job_id)
    longest_seconds = max(WAIT_SECONDS, min(services.settings.lease_seconds + WAIT_SECONDS, MAX_WAIT_SECONDS))
    deadline, waits = clock.boot() + longest_seconds, False
    while clock.boot() < deadline:
        taken = [lease for lease in await rescuer.run_once() if lease.job_id == job_id]
        if taken and waits:
            note(f"the lease of {taken[0].worker_id} is over; deleting job {job_id}")
        if await remover.run_once() is not None:
            return True
        try:
            await services.store.status(job_id)
        except UnknownName:
            return True
        if not waits:
            until = dt.datetime.fromtimestamp(clock.now() + longest_seconds, dt.UTC).strftime("%H:%M:%S UTC")
            told = f"waiting for another process that deletes job {job_id} or ends a version of it"
            note(f"{told}; if it is frozen or out of reach, its lease is over by {until}")
            waits = True
        await clock.sleep(POLL_SECONDS)
    return False

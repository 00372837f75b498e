"""`swath jobs webhooks`: who was told of a job's ends, and how that went; or one is sent again."""

from __future__ import annotations

import datetime as dt

import click

from swath.bootstrap import open_services
from swath.domain.webhook import Delivery, Webhook
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.first_try import how_it_went, try_once
from swath.entrypoints.cli.output import print_json
from swath.integrations.webhook.log import entry_of, resend
from swath.settings import Settings

__all__ = ["show_webhooks"]


async def show_webhooks(settings: Settings, job_id: str, *, again: bool, as_json: bool) -> ExitCode:
    """Prints the delivery log; `again` sends the newest webhook first."""
    async with open_services(settings, only_looks=not again) as services:
        if again:
            await resend(services.store, services.clock, job_id)
            sent = await try_once(services, job_id)
            if not as_json:
                click.echo(how_it_went(sent))
        found = await services.store.webhooks(job_id)
    if as_json:
        print_json([entry_of(webhook, settings.webhook_url) for webhook in found])
    elif not found:
        click.echo(f"job {job_id} has no webhooks")
    else:
        for webhook in found:
            _tell(webhook, settings)
    return ExitCode.COMPLETE


def _tell(webhook: Webhook, settings: Settings) -> None:
    entry = entry_of(webhook, settings.webhook_url)
    due = "" if webhook.due_at is None else f", due {_moment(webhook.due_at)}"
    click.echo(
        f"generation {webhook.generation}, {entry['status']}: {webhook.state}{due}, to {entry['url']} "
        f"({webhook.webhook_id})"
    )
    for delivery in webhook.deliveries:
        click.echo(f"  {_moment(delivery.at)}, {delivery.seconds:.3f} s: {_came(delivery)}")


def _came(delivery: Delivery) -> str:
    told = str(delivery.error) if delivery.status is None else f"answered {delivery.status}"
    return "".join(c if c.isprintable() else "·" for c in told)


def _moment(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")

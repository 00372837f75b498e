"""`swath jobs webhooks`: who was told of a job's ends, and how that went; or one is sent again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from swath.domain.webhook import Delivery
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.first_try import how_it_went
from swath.entrypoints.cli.jobs.opened import open_jobs
from swath.entrypoints.cli.output import print_json
from swath.settings import Settings

__all__ = ["show_webhooks"]


async def show_webhooks(settings: Settings, job_id: str, *, again: bool, as_json: bool) -> ExitCode:
    """Prints the delivery log; `again` sends the newest webhook first."""
    async with open_jobs(settings, only_looks=not again) as jobs:
        if again:
            sent = await jobs.resend(job_id)
            if not as_json:
                click.echo(how_it_went(sent))
        found = await jobs.webhooks(job_id)
    if as_json:
        print_json(found)
    elif not found:
        click.echo(f"job {job_id} has no webhooks")
    else:
        for entry in found:
            _tell(entry)
    return ExitCode.COMPLETE


def _tell(entry: Mapping[str, Any]) -> None:
    due = "" if entry["due_at"] is None else f", due {_moment(entry['due_at'])}"
    click.echo(
        f"generation {entry['generation']}, {entry['status']}: {entry['state']}{due}, to {entry['url']} "
        f"({entry['webhook_id']})"
    )
    for delivery in msgspec.convert(entry["deliveries"], list[Delivery]):
        click.echo(f"  {_moment(delivery.at)}, {delivery.seconds:.3f} s: {_came(delivery)}")


def _came(delivery: Delivery) -> str:
    told = str(delivery.error) if delivery.status is None else f"answered {delivery.status}"
    return "".join(c if c.isprintable() else "·" for c in told)


def _moment(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")

"""`swath jobs create`: loads a job and leaves it to workers."""

from __future__ import annotations

import asyncio

import click

from swath.bootstrap import make_registry, open_services
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.intake import take_in
from swath.entrypoints.cli.order import Order
from swath.entrypoints.cli.output import command, describe, print_json
from swath.entrypoints.cli.progress import watching
from swath.settings import Settings

__all__ = ["create_job"]


async def create_job(settings: Settings, order: Order) -> ExitCode:
    """Loads it and says how to run it."""
    async with open_services(settings) as services, watching(quiet=order.quiet or order.as_json) as display:
        status = await take_in(services, make_registry(settings), order, display, asyncio.Event())
    if order.as_json:
        print_json(status.as_json())
    else:
        click.echo(f"job {status.job.job_id} is {describe(status)}; run it with `{command('worker')}`")
    return ExitCode.COMPLETE

"""`swath jobs create`: loads a job and leaves it to workers."""

from __future__ import annotations

import click

from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.opened import open_jobs
from swath.entrypoints.cli.order import Order
from swath.entrypoints.cli.output import command, describe, print_json, status_json
from swath.entrypoints.cli.progress import watching
from swath.settings import Settings

__all__ = ["create_job"]


async def create_job(settings: Settings, order: Order) -> ExitCode:
    """Loads it and says how to run it."""
    async with open_jobs(settings) as jobs, watching(quiet=order.quiet or order.as_json) as display:
        status = await jobs.create(order, display)
    hint = jobs.who_works(status.job.job_id) or f"run it with `{command('worker')}`"
    if order.as_json:
        print_json(status_json(status))
    else:
        click.echo(f"job {status.job.job_id} is {describe(status)}; {hint}")
    return ExitCode.COMPLETE

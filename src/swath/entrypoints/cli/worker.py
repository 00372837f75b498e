"""`swath worker`: takes leases of any job in the store until it is told to stop."""

from __future__ import annotations

import asyncio

import click

from swath.bootstrap import make_registry, make_worker, open_services
from swath.entrypoints.cli.session import begin, run_async, stop_on_signals
from swath.settings import Settings

__all__ = ["worker"]


@click.command()
@click.option("--job", "job_id", metavar="JOB", help="Work on this job only.")
def worker(job_id: str | None) -> None:
    """Work on jobs of the store until told to stop.

    SIGTERM or SIGINT: takes nothing more, finishes what fits in the grace period, hands back the rest, exits 0.
    """
    run_async(_work(begin(), job_id))


async def _work(settings: Settings, job_id: str | None) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop, f"stopping; what runs has {settings.grace_seconds:g} s to finish", settings.grace_seconds)
    async with open_services(settings) as services:
        if job_id is not None:
            await services.store.status(job_id)  # an unknown name is said at once
        async with make_worker(services, make_registry(settings), job_id) as one:
            await one.run(stop)

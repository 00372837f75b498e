"""`swath run`: a whole job on this machine: load, work, end. The same command goes on after any death."""

from __future__ import annotations

import asyncio

import click

from swath.bootstrap import Services, make_registry, make_worker, open_services
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.entrypoints.cli.exit_codes import ExitCode, exit_code_of
from swath.entrypoints.cli.intake import Order, job_options, take_in
from swath.entrypoints.cli.output import command, describe, print_json, span
from swath.entrypoints.cli.progress import Display, watching
from swath.entrypoints.cli.session import begin, run_async, stop_on_signals
from swath.kit.registry import Registry
from swath.settings import Settings

__all__ = ["run", "work_until_ended"]

LOOK_SECONDS = 0.2


@click.command()
@job_options
def run(order: Order) -> int:
    """Run SCRAPER on every item of a file, with a live progress bar.

    SCRAPER is the id of a scraper (see `swath scraper list`) or a Python file; without it SWATH_DEFAULT_SCRAPER counts.
    The same command goes on where it was.
    """
    return run_async(_run(begin(), order))


async def _run(settings: Settings, order: Order) -> ExitCode:
    stop = asyncio.Event()
    stop_on_signals(stop, f"stopping; what runs has {settings.grace_seconds:g} s to finish", settings.grace_seconds)
    registry = make_registry(settings)
    async with open_services(settings) as services:
        async with watching(quiet=order.quiet or order.as_json) as display:
            status = await take_in(services, registry, order, display, stop)
            was_over = status.state.terminal
            if not was_over and not stop.is_set():
                status = await work_until_ended(services, registry, status, display, stop)
        _conclude(services, status, order, was_over=was_over)
        return exit_code_of(status.state)


async def work_until_ended(
    services: Services, registry: Registry, status: JobStatus, display: Display, stop: asyncio.Event
) -> JobStatus:
    """Works on the job until it is terminal, whoever ends it, or until told to stop."""
    job_id = status.job.job_id
    finished = asyncio.Event()
    async with make_worker(services, registry, job_id) as worker:
        working = asyncio.create_task(worker.run(finished))
        while not working.done():
            status = await services.store.status(job_id)
            display.show(status)
            if status.state.terminal or stop.is_set():
                finished.set()
                break
            await _wait(stop, working)
        await working
    return await services.store.status(job_id)


async def _wait(stop: asyncio.Event, working: asyncio.Task[None]) -> None:
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({stopped, working}, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


def _conclude(services: Services, status: JobStatus, order: Order, *, was_over: bool) -> None:
    job_id = status.job.job_id
    if order.as_json:
        print_json(status.as_json())
        return
    if not status.state.terminal:
        stands = "still loading" if status.state is JobState.LOADING else describe(status)
        click.echo(f"job {job_id} is {stands}; run the same command again to go on", err=True)
        return
    if was_over:
        click.echo(f"job {job_id} had ended already; for a new run give another --job-id", err=True)
    click.echo(f"job {job_id} is {describe(status)}{_took(status)}")
    click.echo(f"results:  {services.storage.location(job_id)}")
    click.echo(f"check it: {command('jobs', 'verify', job_id)}")


def _took(status: JobStatus) -> str:
    if status.started_at is None or status.ended_at is None:
        return ""
    return f", in {span(status.ended_at - status.started_at)}"

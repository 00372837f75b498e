"""`swath jobs list|status`: where jobs stand."""

from __future__ import annotations

import click

from swath.domain.job import JobStatus
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.opened import open_jobs
from swath.entrypoints.cli.output import describe, print_json, print_table, span, status_json
from swath.settings import Settings

__all__ = ["list_jobs", "show_status", "stands"]


async def list_jobs(settings: Settings, limit: int, *, as_json: bool) -> ExitCode:
    """Prints the newest jobs."""
    async with open_jobs(settings, only_looks=True) as jobs:
        found = await jobs.jobs(limit)
    if as_json:
        print_json([status_json(status) for status in found])
        return ExitCode.COMPLETE
    print_table(
        ("job", "status", "done", "failed", "items/s", "ETA", "scraper"),
        [
            (
                status.job.job_id,
                stands(status),
                f"{status.counts.ended:,}/{status.counts.total:,}",
                f"{status.counts.failed:,}",
                *_pace(status),
                status.job.scraper_id,
            )
            for status in found
        ],
        shorten=("job", "scraper"),
    )
    return ExitCode.COMPLETE


def stands(status: JobStatus) -> str:
    """The state, and what it waits for."""
    return f"{status.state.value}, waits for {status.waiting_for}" if status.waiting_for else status.state.value


def _pace(status: JobStatus) -> tuple[str, str]:
    """Items a second, and the ETA: rounded as in JSON first, so that it is the same by way of a controller."""
    shown = status.as_json()
    return f"{shown['items_per_second']:,.1f}", span(shown["eta_seconds"])


async def show_status(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Prints one job."""
    async with open_jobs(settings, only_looks=True) as jobs:
        status = await jobs.status(job_id)
    if as_json:
        print_json(status_json(status))
        return ExitCode.COMPLETE
    click.echo(f"job {job_id} is {describe(status)}")
    if not status.state.terminal:
        per_second, eta = _pace(status)
        click.echo(f"{per_second} items/s, ETA {eta}")
    click.echo(f"results: {jobs.location(job_id)}")
    return ExitCode.COMPLETE

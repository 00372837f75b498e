"""`swath jobs delete`: a job and all its data are removed, here and now. Workers would do the same in time."""

from __future__ import annotations

import asyncio
import sys

import click

from swath.domain.errors import BadInput, StoreUnavailable, SwathError
from swath.domain.job import JobStatus
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.opened import Jobs, open_jobs
from swath.entrypoints.cli.output import counted, print_json
from swath.settings import Settings

__all__ = ["delete_job"]

TELL_SECONDS = 5.0


async def delete_job(settings: Settings, job_id: str, *, sure: bool, as_json: bool) -> ExitCode:
    """Asks first unless `sure`."""
    async with open_jobs(settings) as jobs:
        status = await jobs.status(job_id)
        if not sure and not _agreed(status, jobs.location(job_id)):
            click.echo("nothing was deleted", err=True)
            return ExitCode.COMPLETE
        await jobs.delete(job_id)
        try:
            gone = await _remove(jobs, job_id)
        except StoreUnavailable as error:
            again = jobs.command("jobs", "delete", job_id, "--yes")
            raise SwathError(f"{error}; the deletion has begun, and `{again}` finishes it when that is over") from error
    if as_json:
        print_json({"job_id": job_id, "deleted": gone})
    elif gone:
        click.echo(f"job {job_id} is deleted: {counted(status.counts.total, 'item')} and all their files")
    else:
        click.echo(f"job {job_id} is being deleted by another process")
    return ExitCode.COMPLETE


def _agreed(status: JobStatus, location: str) -> bool:
    job_id = status.job.job_id
    if not sys.stdin.isatty():
        raise BadInput(f"deleting job {job_id!r} cannot be undone, and nobody is here to ask; give --yes")
    return click.confirm(
        f"Delete job {job_id} ({counted(status.counts.total, 'item')}) and all of {location}?", err=True
    )


async def _remove(jobs: Jobs, job_id: str) -> bool:
    """Says now and then that it goes on, since a million files take their time, or what it waits for."""
    doing = f"deleting job {job_id} …; if it is interrupted, the same command goes on"

    def note(what: str) -> None:
        nonlocal doing
        doing = what
        click.echo(doing, err=True)

    removing = asyncio.create_task(jobs.removed(job_id, note))
    while not (await asyncio.wait({removing}, timeout=TELL_SECONDS))[0]:
        click.echo(doing, err=True)
    return removing.result()

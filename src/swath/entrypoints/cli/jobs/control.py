"""`swath jobs pause|resume|cancel`: what a person does to a job as a whole."""

from __future__ import annotations

import click

from swath.domain.job import JobStatus
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.opened import open_jobs
from swath.entrypoints.cli.output import command, describe, print_json, status_json
from swath.settings import Settings

__all__ = ["cancel_job", "pause_job", "resume_job"]


async def pause_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Nothing more starts."""
    async with open_jobs(settings) as jobs:
        status = await jobs.pause(job_id)
    return _tell(status, f"go on with `{jobs.command('jobs', 'resume', job_id)}`", as_json=as_json)


async def resume_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Workers that are there take it up again."""
    async with open_jobs(settings) as jobs:
        status = await jobs.resume(job_id)
    hint = jobs.who_works(job_id) or f"if no worker is there: `{command('run', '--job-id', job_id)}`"
    return _tell(status, hint, as_json=as_json)


async def cancel_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Ends it here and now if nobody works on it; else its workers do when what runs has finished."""
    async with open_jobs(settings) as jobs:
        status = await jobs.cancel(job_id)
    hint = "" if status.state.terminal else f"its workers finish what runs: `{jobs.command('jobs', 'watch', job_id)}`"
    return _tell(status, hint, as_json=as_json)


def _tell(status: JobStatus, hint: str, *, as_json: bool) -> ExitCode:
    if as_json:
        print_json(status_json(status))
    else:
        click.echo(f"job {status.job.job_id} is {describe(status)}{'; ' if hint else ''}{hint}")
    return ExitCode.COMPLETE

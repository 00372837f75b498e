"""`swath jobs watch`: looks on while others work, until the job has ended or only a person can let it go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing

import click

from swath.domain.job import JobStatus
from swath.entrypoints.cli.exit_codes import ExitCode, exit_code_of
from swath.entrypoints.cli.jobs.opened import Jobs, open_jobs
from swath.entrypoints.cli.output import describe, status_json
from swath.entrypoints.cli.progress import watching
from swath.entrypoints.cli.run_job import needs_a_person
from swath.entrypoints.cli.session import stop_on_signals
from swath.settings import Settings

__all__ = ["watch_job"]


async def watch_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Answers as `swath run` would at the job's end. With JSON: a line for each change."""
    stop = asyncio.Event()
    stop_on_signals(stop, "no longer watching; the job is left alone", 0.0)
    status: JobStatus | None = None
    async with open_jobs(settings, only_looks=True) as jobs, watching(quiet=as_json) as display:
        shown = ""
        async with aclosing(jobs.follow(job_id, display.note)) as statuses:
            while (following := await _next(statuses, stop)) is not None:
                status = following
                display.show(status)
                if as_json and (line := json.dumps(status_json(status), ensure_ascii=False)) != shown:
                    click.echo(line)
                    shown = line
                if status.state.terminal or needs_a_person(status):
                    break
    if status is None:
        return ExitCode.INTERRUPTED
    if not as_json:
        _tell(status, jobs)
    return ExitCode.INTERRUPTED if stop.is_set() and not status.state.terminal else exit_code_of(status)


async def _next(statuses: AsyncGenerator[JobStatus, None], stop: asyncio.Event) -> JobStatus | None:
    """The next one; None when told to stop before it came."""
    coming, stopped = asyncio.ensure_future(anext(statuses)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        stopped.cancel()
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def _tell(status: JobStatus, jobs: Jobs) -> None:
    job_id = status.job.job_id
    hint = f"; to go on: `{jobs.command('jobs', 'resume', job_id)}`" if needs_a_person(status) else ""
    click.echo(f"job {job_id} is {describe(status)}{hint}")

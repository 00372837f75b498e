"""`swath jobs watch`: looks on while others work, until the job has ended or only a person can let it go on."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import click

from swath.bootstrap import open_services
from swath.domain.errors import StoreUnavailable
from swath.domain.job import JobStatus
from swath.entrypoints.cli.exit_codes import ExitCode, exit_code_of
from swath.entrypoints.cli.output import command, describe
from swath.entrypoints.cli.progress import watching
from swath.entrypoints.cli.run_job import needs_a_person
from swath.entrypoints.cli.session import stop_on_signals
from swath.settings import Settings

__all__ = ["watch_job"]

LOOK_SECONDS = 0.5


async def watch_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Answers as `swath run` would at the job's end. With JSON: a line for each change."""
    stop = asyncio.Event()
    stop_on_signals(stop, "no longer watching; the job is left alone", 0.0)
    async with open_services(settings, only_looks=True) as services, watching(quiet=as_json) as display:
        status = await services.status(job_id)
        shown = ""
        while True:
            display.show(status)
            if as_json and (line := json.dumps(status.as_json(), ensure_ascii=False)) != shown:
                click.echo(line)
                shown = line
            if status.state.terminal or needs_a_person(status) or stop.is_set():
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
            with suppress(StoreUnavailable):  # the next look will tell
                status = await services.status(job_id)
    if not as_json:
        _tell(status)
    return ExitCode.INTERRUPTED if stop.is_set() and not status.state.terminal else exit_code_of(status)


def _tell(status: JobStatus) -> None:
    job_id = status.job.job_id
    hint = f"; to go on: `{command('jobs', 'resume', job_id)}`" if needs_a_person(status) else ""
    click.echo(f"job {job_id} is {describe(status)}{hint}")

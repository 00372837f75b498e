"""`swath run`: loads a job or finds it in the store, works on it in this process, and prints how it ended.

The same command resumes the job after any interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import click
import msgspec

from swath.bootstrap.browsers import require_browser
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, open_services
from swath.bootstrap.workers import make_worker
from swath.domain.errors import BadInput, StoreReplaced, StoreUnavailable
from swath.domain.job import Job, JobStatus
from swath.domain.result_versions import is_sample, version_of
from swath.domain.transitions import JobState
from swath.entrypoints.cli.exit_codes import ExitCode, exit_code_of
from swath.entrypoints.cli.load_job import load_job
from swath.entrypoints.cli.local_maintenance import finish_job, send_end_webhook
from swath.entrypoints.cli.output import command, describe, duration_text, plural, print_json, status_json
from swath.entrypoints.cli.progress import ProgressDisplay, show_progress
from swath.entrypoints.cli.run_args import RunArgs, job_options
from swath.entrypoints.cli.runtime import (
    begin,
    exit_when_blocked,
    no_server_option,
    refuse_server,
    run_async,
    stop_on_signals,
)
from swath.pipeline.results.versions.diff import Diff
from swath.sdk.registry import Registry
from swath.settings import Settings

__all__ = ["needs_resume", "print_current_version", "run", "run_job", "run_until_ended"]


def print_current_version(
    scraped: JobStatus, made: JobStatus, diff: Diff | None, command: Callable[..., str] = command
) -> None:
    """Which version of the job's results readers get now that this one has ended, and how to change that. `command`
    writes a command line."""
    job_id, number, current = scraped.job.job_id, version_of(made.job), scraped.current_version
    still = f"readers still get version {current}"
    use = f"to use it: {command('jobs', 'use', job_id, '--version', str(number))}"
    if current == number:
        back = command("jobs", "use", job_id, "--version", str(1 if diff is None else diff.former_version))
        click.echo(f"readers get version {number} from now on; to go back: {back}")
    elif is_sample(made.job):
        click.echo(f"a sample never replaces all results; {still}")
    elif made.counts.success == made.counts.not_found:
        click.echo(f"it has no records, so {still}")
    elif diff is not None and diff.loses_records:
        click.echo(f"it lacks records, so {still}; {use}")
    else:
        click.echo(f"{still}; {use}")


POLL_SECONDS = 0.2


async def run_job(settings: Settings, order: RunArgs) -> ExitCode:
    """Runs what was ordered and answers with the exit code."""
    stop = asyncio.Event()
    stop_on_signals(stop, f"stopping; what runs has {settings.grace_seconds:g} s to finish", settings.grace_seconds)
    registry = make_registry(settings)
    async with open_services(settings) as services:
        async with show_progress(quiet=order.quiet or order.as_json) as display:
            if order.items is None:
                status = await _find_job(services, order)
            else:
                status = await load_job(services, registry, order, display, stop)
            was_over = status.state.terminal
            if not was_over and not stop.is_set():
                status = await run_until_ended(services, registry, status, display, stop)
        _print_end(services, status, order, was_over=was_over)
        scraped_id = status.job.extracts
        if scraped_id is not None and status.state.terminal and not order.as_json:
            await _print_end_of_version(services, status, scraped_id)
        return exit_code_of(status)


async def _find_job(services: Services, order: RunArgs) -> JobStatus:
    """A job of the store. What it is was said when it was loaded, so nothing of that can be given again."""
    bare = RunArgs(job_id=order.job_id, as_json=order.as_json, quiet=order.quiet)
    if order.job_id is None:
        raise BadInput("say what to run it on with --items FILE, or name a job of the store with --job-id")
    if order != bare:
        policy = command("jobs", "policy", order.job_id)
        raise BadInput(
            f"without --items, --job-id {order.job_id} is a job of the store and keeps its scraper and options; "
            f"leave the others out, and change its policy with `{policy}`"
        )
    status = await services.store.status(order.job_id)
    if status.state is JobState.LOADING:
        raise BadInput(f"job {order.job_id!r} is not loaded to the end; give the same --items again to go on loading")
    return status


async def run_until_ended(
    services: Services, registry: Registry, status: JobStatus, display: ProgressDisplay, stop: asyncio.Event
) -> JobStatus:
    """Works on the job until it is terminal, whoever ends it, or waits for a person, or until told to stop."""
    job_id = status.job.job_id
    _require_browser(services.settings, registry, status.job)
    _note_other_version(registry, status.job, display)
    finished = asyncio.Event()
    async with make_worker(services, registry, job_id, on_standstill=exit_when_blocked) as worker:
        working = asyncio.create_task(worker.run(finished))
        while not working.done():
            status = await _poll_status(services, status, display)
            if status.state.terminal or needs_resume(status) or stop.is_set():
                finished.set()
                break
            await _wait(stop, working)
        await working
    status = await services.store.status(job_id)
    if not (status.state.terminal or status.counts.remaining or stop.is_set()):
        return await finish_job(services, job_id)  # what ran when the circuit opened was the last there was
    if status.state.terminal:
        await send_end_webhook(services, job_id)
    return status


def needs_resume(status: JobStatus) -> bool:
    """Whether waiting is of no use: the circuit paused the job, and only a person closes it again."""
    return status.state is JobState.PAUSED and status.circuit_opened is not None and bool(status.counts.remaining)


def _require_browser(settings: Settings, registry: Registry, job: Job) -> None:
    """Raises BadInput, before anything starts, when the job needs a browser that cannot be had here."""
    if job.extracts is None and registry.get(job.scraper_id, job.scraper_source).needs_browser:
        try:
            require_browser(settings)
        except BadInput as error:
            raise BadInput(f"{error}; job {job.job_id} waits for it, and the same command goes on") from None


def _note_other_version(registry: Registry, job: Job, display: ProgressDisplay) -> None:
    if job.scraper_version is None or job.extracts is not None:
        return
    version = registry.get(job.scraper_id, job.scraper_source).version
    if version != job.scraper_version:
        ordered = f"job {job.job_id} was ordered with version {job.scraper_version} of its scraper"
        display.note(f"{ordered} and goes on with version {version}")


async def _poll_status(services: Services, before: JobStatus, display: ProgressDisplay) -> JobStatus:
    """The job as it stands now; says once when it begins to wait for something."""
    try:
        status = await services.status(before.job.job_id)
    except StoreUnavailable as error:
        status = msgspec.structs.replace(before, waiting_for=error.waiting_for)
    except StoreReplaced:  # the worker meets that too, and ends in good order
        return before
    display.show(status)
    job_id = status.job.job_id
    if status.waiting_for is not None and before.waiting_for is None:
        held = f" (held by {status.held_by})" if status.held_by is not None else ""
        why = f" ({status.waiting_reason})" if status.waiting_reason else ""
        what = f"{status.waiting_for}{held}{why}"
        display.note(f"job {job_id} waits for the {what}, and goes on by itself when it is back")
    if status.state is JobState.PAUSED and before.state is not JobState.PAUSED and status.circuit_opened is None:
        display.note(f"job {job_id} is paused; waiting for `{command('jobs', 'resume', job_id)}`")
    return status


async def _wait(stop: asyncio.Event, working: asyncio.Task[None]) -> None:
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({stopped, working}, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


def _print_end(services: Services, status: JobStatus, order: RunArgs, *, was_over: bool) -> None:
    job_id = status.job.job_id
    if order.as_json:
        print_json(status_json(status))
    elif needs_resume(status):
        resume = command("jobs", "resume", job_id)
        click.echo(f"job {job_id} is {describe(status)}; to go on: `{resume}`, then the same command again", err=True)
    elif not status.state.terminal:
        stands = "still loading" if status.state is JobState.LOADING else describe(status)
        click.echo(f"job {job_id} is {stands}; run the same command again to go on", err=True)
    else:
        if was_over:
            again = f"; `{command('jobs', 'retry', job_id, '--failed')}` tries failed items again"
            click.echo(
                f"job {job_id} had ended already; for a new run give another --job-id"
                f"{again if status.counts.failed else ''}",
                err=True,
            )
        _print_summary(services, status)


async def _print_end_of_version(services: Services, made: JobStatus, scraped_id: str) -> None:
    # few runs need it, and all would wait for it
    from swath.pipeline.results.versions.diff import read_diff

    scraped = await services.store.status(scraped_id)
    print_current_version(scraped, made, await read_diff(services.storage, made.job.job_id))


def _print_summary(services: Services, status: JobStatus) -> None:
    job_id = status.job.job_id
    click.echo(f"job {job_id} is {describe(status)}{_duration_note(status)}")
    click.echo(f"results:  {services.storage.location(job_id)}")
    click.echo(f"check it: {command('jobs', 'verify', job_id)}")
    if status.circuit_opened is not None and status.counts.cancelled:
        again = command("jobs", "retry", job_id, "--not-run")
        spared, them = plural(status.counts.cancelled, "item"), "it" if status.counts.cancelled == 1 else "them"
        click.echo(f"the circuit kept {spared} from running; take {them} up with `{again}`", err=True)


def _duration_note(status: JobStatus) -> str:
    if status.started_at is None or status.ended_at is None:
        return ""
    return f", in {duration_text(status.ended_at - status.started_at)}"


@click.command()
@job_options
@no_server_option
def run(order: RunArgs) -> int:
    """Run SCRAPER on every item of a file, with a live progress bar.

    SCRAPER is the id of a scraper (see `swath scraper list`) or a Python file; without it SWATH_DEFAULT_SCRAPER counts.
    The same command goes on where it was. With --job-id and without --items: goes on with a job of the store.
    """
    refuse_server("run", "`swath jobs create … --server` loads a job there, and its workers run it")
    settings = begin()
    if order.dry_run:
        from swath.entrypoints.cli.dry_run import show_dry_run

        return run_async(show_dry_run(settings, order))

    return run_async(run_job(settings, order))

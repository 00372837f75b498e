"""`swath jobs create|watch|pause|resume|cancel|policy|retry|delete|webhooks`: follows and changes one job."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import yaml

from swath.backends.clock import SystemClock
from swath.domain.errors import BadInput, StoreUnavailable, SwathError
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.item import RetrySelection
from swath.domain.job import JobStatus
from swath.domain.validation_messages import did_you_mean, quoted_list
from swath.domain.webhook import Delivery
from swath.entrypoints.cli.exit_codes import ExitCode, exit_code_of
from swath.entrypoints.cli.jobs.client import JobsClient, open_jobs, require_local_store
from swath.entrypoints.cli.load_job import with_concurrency
from swath.entrypoints.cli.local_maintenance import describe_last_try
from swath.entrypoints.cli.output import command, describe, plural, print_json, status_json
from swath.entrypoints.cli.progress import show_progress
from swath.entrypoints.cli.run import needs_resume, run_job
from swath.entrypoints.cli.run_args import RunArgs
from swath.entrypoints.cli.runtime import stop_on_signals
from swath.pipeline.ingest.job_spec import read_policy, retry_while_outdated
from swath.pipeline.ingest.sources.csv_rows import read_item_ids
from swath.settings import Settings

__all__ = [
    "RetryArgs",
    "cancel_job",
    "create_job",
    "delete_job",
    "pause_job",
    "resume_job",
    "retry_job",
    "selection_of",
    "show_or_change_policy",
    "show_webhooks",
    "watch_job",
]


async def create_job(settings: Settings, order: RunArgs) -> ExitCode:
    """Loads it and says how to run it."""
    async with open_jobs(settings) as jobs, show_progress(quiet=order.quiet or order.as_json) as display:
        status = await jobs.create(order, display)
    hint = jobs.who_works(status.job.job_id) or f"run it with `{command('worker')}`"
    if order.as_json:
        print_json(status_json(status))
    else:
        click.echo(f"job {status.job.job_id} is {describe(status)}; {hint}")
    return ExitCode.COMPLETE


async def pause_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Nothing more starts."""
    async with open_jobs(settings) as jobs:
        status = await jobs.pause(job_id)
    return _print_state(status, f"go on with `{jobs.command('jobs', 'resume', job_id)}`", as_json=as_json)


async def resume_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Workers that are there take it up again."""
    async with open_jobs(settings) as jobs:
        status = await jobs.resume(job_id)
    hint = jobs.who_works(job_id) or f"if no worker is there: `{command('run', '--job-id', job_id)}`"
    return _print_state(status, hint, as_json=as_json)


async def cancel_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Ends it here and now if nobody works on it; else its workers do when what runs has finished."""
    async with open_jobs(settings) as jobs:
        status = await jobs.cancel(job_id)
    hint = "" if status.state.terminal else f"its workers finish what runs: `{jobs.command('jobs', 'watch', job_id)}`"
    return _print_state(status, hint, as_json=as_json)


def _print_state(status: JobStatus, hint: str, *, as_json: bool) -> ExitCode:
    if as_json:
        print_json(status_json(status))
    else:
        click.echo(f"job {status.job.job_id} is {describe(status)}{'; ' if hint else ''}{hint}")
    return ExitCode.COMPLETE


async def show_or_change_policy(
    settings: Settings, job_id: str, file: Path | None, concurrency: int | None, *, as_json: bool
) -> ExitCode:
    """A file replaces the policy as a whole; `concurrency` changes that field of it, or of the present one."""
    given = None if file is None else read_policy(file)
    async with open_jobs(settings) as jobs:
        former, policy = await retry_while_outdated(lambda: _apply_change(jobs, job_id, given, concurrency))
    if as_json:
        print_json(_policy_json(policy))
    elif given is None and concurrency is None:
        click.echo(yaml.safe_dump(_policy_json(former), sort_keys=False), nl=False)
    else:
        changes = list(_policy_changes(_policy_json(former), _policy_json(policy)))
        click.echo("\n".join(changes) if changes else f"job {job_id} has this policy already")
    return ExitCode.COMPLETE


async def _apply_change(
    jobs: JobsClient, job_id: str, given: ExecutionPolicy | None, concurrency: int | None
) -> tuple[ExecutionPolicy, ExecutionPolicy]:
    """What the job had and has. Raises Outdated if one field is to change and somebody changed another meanwhile."""
    former = (await jobs.status(job_id)).job.policy
    wanted = given or former
    if concurrency is not None:
        wanted = with_concurrency(wanted, concurrency)
    if given is None and concurrency is None:
        return former, former
    status = await jobs.change_policy(job_id, wanted, former if given is None else None)
    return former, status.job.policy


def _policy_json(policy: ExecutionPolicy) -> dict[str, Any]:
    return policy.model_dump(mode="json")


def _policy_changes(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name in {**old, **new}:
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _policy_changes(before, after, f"{path}{name}.")
        elif before != after:
            yield f"{path}{name}: {_value_text(before)} → {_value_text(after)}"


def _value_text(value: object) -> str:
    return "none" if value is None else str(value)


_RELATIVE_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class RetryArgs(msgspec.Struct, frozen=True, kw_only=True):
    """Options as they were given."""

    failed: bool = False
    kinds: tuple[str, ...] = ()
    not_run: bool = False
    items: str | None = None
    since: str | None = None


async def retry_job(settings: Settings, job_id: str, choice: RetryArgs, *, run: bool, as_json: bool) -> ExitCode:
    """Begins the generation, and runs it if asked to."""
    if run:
        require_local_store(settings, "--run", "leave it out, and the workers there run the items")
    async with open_jobs(settings) as jobs:
        status = await jobs.retry(job_id, selection_of(choice, SystemClock().now()))
    if run:
        return await run_job(settings, RunArgs(job_id=job_id, as_json=as_json))
    if as_json:
        print_json(status_json(status))
    else:
        waiting = plural(status.counts.remaining, "item")
        them = "it" if status.counts.remaining == 1 else "them"
        hint = jobs.who_works(job_id) or f"run {them} with `{command('run', '--job-id', job_id)}`"
        click.echo(f"job {job_id} is {status.state}: generation {status.generation} has {waiting} to run; {hint}")
    return ExitCode.COMPLETE


def selection_of(choice: RetryArgs, now: float) -> RetrySelection:
    """What was asked for. Raises BadInput."""
    selection = RetrySelection(
        failed=choice.failed,
        kinds=frozenset(_failure_kind(name) for name in choice.kinds),
        not_run=choice.not_run,
        item_ids=frozenset() if choice.items is None else read_item_ids(choice.items),
        since=None if choice.since is None else _since(choice.since, now),
    )
    if selection.empty:
        raise BadInput("say which items to run again: --failed, --kind KIND, --not-run, --items FILE or --since TIME")
    return selection


def _failure_kind(name: str) -> FailureKind:
    try:
        return FailureKind(name)
    except ValueError:
        known = [kind.value for kind in FailureKind]
        raise BadInput(
            f"--kind {name}: there is no such failure kind{did_you_mean(name, known) or f'; {quoted_list(known)}'}"
        ) from None


def _since(text: str, now: float) -> float:
    """A length of time before now, or a moment; one without a time zone is meant as here."""
    if ago := _RELATIVE_TIME.fullmatch(text.strip()):
        return now - float(ago[1]) * _UNIT_SECONDS[ago[2]]
    try:
        return dt.datetime.fromisoformat(text.strip()).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise BadInput(f"--since {text}: write it as 30m, 2h, 1d, or as 2026-01-31T08:00") from None


async def watch_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Answers as `swath run` would at the job's end. With JSON: a line for each change."""
    stop = asyncio.Event()
    stop_on_signals(stop, "no longer watching; the job is left alone", 0.0)
    status: JobStatus | None = None
    async with open_jobs(settings, only_looks=True) as jobs, show_progress(quiet=as_json) as display:
        shown = ""
        async with aclosing(jobs.follow(job_id, display.note)) as statuses:
            while (following := await _next_status(statuses, stop)) is not None:
                status = following
                display.show(status)
                if as_json and (line := json.dumps(status_json(status), ensure_ascii=False)) != shown:
                    click.echo(line)
                    shown = line
                if status.state.terminal or needs_resume(status):
                    break
    if status is None:
        return ExitCode.INTERRUPTED
    if not as_json:
        _print_end_of_watch(status, jobs)
    return ExitCode.INTERRUPTED if stop.is_set() and not status.state.terminal else exit_code_of(status)


async def _next_status(statuses: AsyncGenerator[JobStatus, None], stop: asyncio.Event) -> JobStatus | None:
    """The next one; None when told to stop before it came."""
    coming, stopped = asyncio.ensure_future(anext(statuses)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        stopped.cancel()
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def _print_end_of_watch(status: JobStatus, jobs: JobsClient) -> None:
    job_id = status.job.job_id
    hint = f"; to go on: `{jobs.command('jobs', 'resume', job_id)}`" if needs_resume(status) else ""
    click.echo(f"job {job_id} is {describe(status)}{hint}")


NOTE_SECONDS = 5.0


async def delete_job(settings: Settings, job_id: str, *, sure: bool, as_json: bool) -> ExitCode:
    """Asks first unless `sure`."""
    async with open_jobs(settings) as jobs:
        status = await jobs.status(job_id)
        if not sure and not _confirmed(status, jobs.location(job_id)):
            click.echo("nothing was deleted", err=True)
            return ExitCode.COMPLETE
        await jobs.delete(job_id)
        try:
            gone = await _remove_with_notes(jobs, job_id)
        except StoreUnavailable as error:
            again = jobs.command("jobs", "delete", job_id, "--yes")
            raise SwathError(f"{error}; the deletion has begun, and `{again}` finishes it when that is over") from error
    if as_json:
        print_json({"job_id": job_id, "deleted": gone})
    elif gone:
        click.echo(f"job {job_id} is deleted: {plural(status.counts.total, 'item')} and all their files")
    else:
        click.echo(f"job {job_id} is being deleted by another process")
    return ExitCode.COMPLETE


def _confirmed(status: JobStatus, location: str) -> bool:
    job_id = status.job.job_id
    if not sys.stdin.isatty():
        raise BadInput(f"deleting job {job_id!r} cannot be undone, and nobody is here to ask; give --yes")
    return click.confirm(
        f"Delete job {job_id} ({plural(status.counts.total, 'item')}) and all of {location}?", err=True
    )


async def _remove_with_notes(jobs: JobsClient, job_id: str) -> bool:
    """Says now and then that it goes on, since a million files take their time, or what it waits for."""
    doing = f"deleting job {job_id} …; if it is interrupted, the same command goes on"

    def note(what: str) -> None:
        nonlocal doing
        doing = what
        click.echo(doing, err=True)

    removing = asyncio.create_task(jobs.removed(job_id, note))
    while not (await asyncio.wait({removing}, timeout=NOTE_SECONDS))[0]:
        click.echo(doing, err=True)
    return removing.result()


async def show_webhooks(settings: Settings, job_id: str, *, again: bool, as_json: bool) -> ExitCode:
    """Prints the delivery log; `again` sends the newest webhook first."""
    async with open_jobs(settings, only_looks=not again) as jobs:
        if again:
            sent = await jobs.resend(job_id)
            if not as_json:
                click.echo(describe_last_try(sent))
        found = await jobs.webhooks(job_id)
    if as_json:
        print_json(found)
    elif not found:
        click.echo(f"job {job_id} has no webhooks")
    else:
        for entry in found:
            _print_webhook(entry)
    return ExitCode.COMPLETE


def _print_webhook(entry: Mapping[str, Any]) -> None:
    due = "" if entry["due_at"] is None else f", due {_time_text(entry['due_at'])}"
    click.echo(
        f"generation {entry['generation']}, {entry['status']}: {entry['state']}{due}, to {entry['url']} "
        f"({entry['webhook_id']})"
    )
    for delivery in msgspec.convert(entry["deliveries"], list[Delivery]):
        click.echo(f"  {_time_text(delivery.at)}, {delivery.seconds:.3f} s: {_delivery_text(delivery)}")


def _delivery_text(delivery: Delivery) -> str:
    told = str(delivery.error) if delivery.status is None else f"answered {delivery.status}"
    return "".join(c if c.isprintable() else "·" for c in told)


def _time_text(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(sep=" ", timespec="seconds")

"""`swath jobs retry`: items of an ended job run again, as a new generation. After: `swath run --job-id JOB`."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

import click
import msgspec

from swath.backends.clock import SystemClock
from swath.domain.errors import BadInput
from swath.domain.explain import listed, near
from swath.domain.failure import FailureKind
from swath.domain.selection import Selection
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.opened import only_here, open_jobs
from swath.entrypoints.cli.order import Order
from swath.entrypoints.cli.output import command, counted, print_json, status_json
from swath.entrypoints.cli.run_job import run_job
from swath.pipeline.accept.item_ids import read_item_ids
from swath.settings import Settings

__all__ = ["Choice", "retry_job", "selection_of"]

_AGO: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Options as they were given."""

    failed: bool = False
    kinds: tuple[str, ...] = ()
    not_run: bool = False
    items: str | None = None
    since: str | None = None


async def retry_job(settings: Settings, job_id: str, choice: Choice, *, run: bool, as_json: bool) -> ExitCode:
    """Begins the generation, and runs it if asked to."""
    if run:
        only_here(settings, "--run", "leave it out, and the workers there run the items")
    async with open_jobs(settings) as jobs:
        status = await jobs.retry(job_id, selection_of(choice, SystemClock().now()))
    if run:
        return await run_job(settings, Order(job_id=job_id, as_json=as_json))
    if as_json:
        print_json(status_json(status))
    else:
        waiting = counted(status.counts.remaining, "item")
        them = "it" if status.counts.remaining == 1 else "them"
        hint = jobs.who_works(job_id) or f"run {them} with `{command('run', '--job-id', job_id)}`"
        click.echo(f"job {job_id} is {status.state}: generation {status.generation} has {waiting} to run; {hint}")
    return ExitCode.COMPLETE


def selection_of(choice: Choice, now: float) -> Selection:
    """What was asked for. Raises BadInput."""
    selection = Selection(
        failed=choice.failed,
        kinds=frozenset(_kind(name) for name in choice.kinds),
        not_run=choice.not_run,
        item_ids=frozenset() if choice.items is None else read_item_ids(choice.items),
        since=None if choice.since is None else _since(choice.since, now),
    )
    if selection.empty:
        raise BadInput("say which items to run again: --failed, --kind KIND, --not-run, --items FILE or --since TIME")
    return selection


def _kind(name: str) -> FailureKind:
    try:
        return FailureKind(name)
    except ValueError:
        known = [kind.value for kind in FailureKind]
        raise BadInput(
            f"--kind {name}: there is no such failure kind{near(name, known) or f'; {listed(known)}'}"
        ) from None


def _since(text: str, now: float) -> float:
    """A length of time before now, or a moment; one without a time zone is meant as here."""
    if ago := _AGO.fullmatch(text.strip()):
        return now - float(ago[1]) * _UNIT_SECONDS[ago[2]]
    try:
        return dt.datetime.fromisoformat(text.strip()).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise BadInput(f"--since {text}: write it as 30m, 2h, 1d, or as 2026-01-31T08:00") from None

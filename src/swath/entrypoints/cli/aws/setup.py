"""`swath aws init|destroy`: makes what Swath keeps on AWS, and takes it away again."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import click
import msgspec

from swath.backends.aws.calls.errors import NoTable
from swath.backends.aws.results.bucket import drop_results, make_bucket, try_bucket
from swath.backends.aws.setup import Done, drop_queue, drop_table, find_table, keep_backups, make_queues, make_table
from swath.domain.errors import BadInput
from swath.entrypoints.cli.aws.reach import Reach, reach
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.output import GAP, command, print_json
from swath.entrypoints.cli.terminal import bold_line
from swath.settings import Settings

__all__ = ["set_up", "take_away"]

_HEADER: Final = Done("what", "name", "state")


async def set_up(settings: Settings, *, recovery: bool, create_bucket: bool, as_json: bool) -> ExitCode:
    """Makes what is missing, and says of each thing what was done, also when a later one could not be."""
    async with reach(settings) as there:
        steps = _make(settings, there, recovery=recovery, create_bucket=create_bucket)
        await _tell(steps, there, as_json=as_json)
    if (doubt := settings.places.doubt) is not None:
        click.echo(f"note: {doubt}", err=True)
    return ExitCode.COMPLETE


async def _make(settings: Settings, there: Reach, *, recovery: bool, create_bucket: bool) -> AsyncIterator[Done]:
    if there.table is not None:
        yield await make_table(there.of_table, there.table)
    if there.queues is not None:
        for step in await make_queues(there.of_queues, there.queues, settings.lease_seconds):
            yield step
    if there.bucket is not None:
        if create_bucket:
            yield await make_bucket(there.of_bucket, there.bucket, there.bucket_region)
        yield await try_bucket(there.of_bucket, there.bucket)
    if there.table is not None and recovery:
        yield await keep_backups(there.of_table, there.table)


async def take_away(settings: Settings, said: str | None, *, results: bool, as_json: bool) -> ExitCode:
    """Asks for the name first, unless it was said. Nothing is removed before it is known to be right."""
    async with reach(settings) as there:
        if not _is_meant(there, said, results=results):
            click.echo("nothing was removed", err=True)
            return ExitCode.COMPLETE
        if there.table is not None:
            with suppress(NoTable):
                await find_table(there.of_table, there.table)  # somebody else's: then the queues are hardly ours
        await _tell(_remove(there, results=results), there, as_json=as_json)
    return ExitCode.COMPLETE


async def _remove(there: Reach, *, results: bool) -> AsyncIterator[Done]:
    if results and there.bucket is not None:
        yield await drop_results(there.of_bucket, there.bucket)
    for name in () if there.queues is None else there.queues.all:
        yield await drop_queue(there.of_queues, name)
    if there.table is not None:
        yield await drop_table(there.of_table, there.table)


def _is_meant(there: Reach, said: str | None, *, results: bool) -> bool:
    if results and there.bucket is None:
        raise BadInput("--results removes what is in S3, and SWATH_RESULTS names no s3:// place")
    if results and there.bucket is not None and not there.bucket.prefix:
        raise BadInput(f"{there.bucket.url} has no prefix, so all of the bucket would go; empty it by other means")
    if there.table is None and not results:
        raise BadInput("only results are on AWS, and they are removed with --results alone")
    if said is not None:
        if said != there.name:
            raise BadInput(f"--yes names {said!r}, but the settings name {there.name!r}; nothing was removed")
        return True
    if not sys.stdin.isatty():
        again = command("aws", "destroy", "--yes", there.name)
        raise BadInput(f"this cannot be undone, and nobody is here to ask; say `{again}`")
    parts = [
        *([] if there.table is None else [f"the table {there.table} with all jobs, and its queues"]),
        *([f"everything under {there.bucket.url}"] if results and there.bucket else []),
    ]
    question = f"Remove {' and '.join(parts)}? Type {there.name} to do so"
    typed: str = click.prompt(question, default="", show_default=False, err=True)
    return typed.strip() == there.name


async def _tell(steps: AsyncIterator[Done], there: Reach, *, as_json: bool) -> None:
    """A line for each step as soon as it is done: whoever reads it knows how far it came when the next one fails."""
    names = [_HEADER.name, there.table or "", *(there.queues.all if there.queues else ())]
    width = max(map(len, [*names, there.bucket.url if there.bucket else ""]))
    told: list[Done] = []
    async for step in steps:
        if not as_json:
            for line in (step,) if told else (_HEADER, step):
                text = GAP.join((line.kind.ljust(len("results")), line.name.ljust(width), line.what))
                (bold_line if line is _HEADER else click.echo)(text)
        told.append(step)
    if as_json:
        print_json({"steps": msgspec.to_builtins(told)})

"""`swath aws init|destroy`: makes what Swath keeps on AWS, and takes it away again."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence

import click
import msgspec

from swath.backends.aws.bucket import drop_results, make_bucket, try_bucket
from swath.backends.aws.setup import Done, drop_queues, drop_table, keep_backups, make_queues, make_table
from swath.domain.errors import BadInput, SwathError
from swath.entrypoints.cli.aws.reach import Reach, reach
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.output import command, print_json, print_table
from swath.settings import Settings

__all__ = ["set_up", "take_away"]


async def set_up(settings: Settings, *, recovery: bool, create_bucket: bool, as_json: bool) -> ExitCode:
    """Makes what is missing, and says of each thing what was done, also when a later one could not be."""
    steps: list[Done] = []
    try:
        async with reach(settings) as there:
            async for step in _make(settings, there, recovery=recovery, create_bucket=create_bucket):
                steps.append(step)  # noqa: PERF401 those before a failure count too
    except SwathError:
        if not as_json:
            _tell(steps, as_json=False)
        raise
    _tell(steps, as_json=as_json)
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
        steps: list[Done] = []
        if results and there.bucket is not None:
            steps.append(await drop_results(there.of_bucket, there.bucket))
        if there.queues is not None:
            steps += await drop_queues(there.of_queues, there.queues)
        if there.table is not None:
            steps.append(await drop_table(there.of_table, there.table))
    _tell(steps, as_json=as_json)
    return ExitCode.COMPLETE


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


def _tell(steps: Sequence[Done], *, as_json: bool) -> None:
    if as_json:
        print_json({"steps": msgspec.to_builtins(steps)})
    else:
        print_table(("what", "name", "state"), [(step.kind, step.name, step.what) for step in steps])

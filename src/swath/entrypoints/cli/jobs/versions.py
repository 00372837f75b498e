"""`swath jobs versions` and `swath jobs use`: which results of a job there are, how they differ, and which readers get.

Before: `swath jobs reextract` made them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import click
import msgspec

from swath.domain.errors import BadInput
from swath.domain.versions import check_version, version_job_id
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.results import Results, open_results
from swath.entrypoints.cli.output import command, counted, print_json, print_table
from swath.pipeline.results.diff import Diff, Example, FieldDiff
from swath.pipeline.results.versions import Version
from swath.settings import Settings

__all__ = ["diff_json", "show_versions", "tell_diff", "use_job_version"]

Command = Callable[..., str]

_CHANGES = ("filled", "changed", "lost")
_SHOWN_FIELDS = 20  # with examples; a page of them is more than anybody reads


async def use_job_version(settings: Settings, job_id: str, number: int, *, as_json: bool) -> ExitCode:
    """Moves the pointer."""
    async with open_results(settings) as results:
        status = await results.use(job_id, number)
        diff = await results.diff(job_id, version_job_id(job_id, number)) if number > 1 else None
    if as_json:
        print_json({"job_id": job_id, "versions": status.versions, "current_version": status.current_version})
    else:
        click.echo(f"readers of job {job_id} get version {status.current_version} from now on")
        for line in [] if diff is None else _gone(diff):
            click.echo(line)
    return ExitCode.COMPLETE


async def show_versions(settings: Settings, job_id: str, number: int | None, *, as_json: bool) -> ExitCode:
    """Lists them, or shows what is different in one of them."""
    async with open_results(settings, only_looks=True) as results:
        if number is not None:
            check_version(job_id, number, (await results.status(job_id)).versions)
            return await _show_diff(results, job_id, number, as_json=as_json)
        found = await results.versions(job_id)
        if as_json:
            print_json([_version_json(results, job_id, version) for version in found])
            return ExitCode.COMPLETE
    print_table(
        ("version", "current", "status", "success", "failed", "scraper", "ended", "job"),
        [_row(version) for version in found],
        shorten=("job", "scraper"),
    )
    compared = [one.number for one in found if one.number > 1 and one.status.state.terminal]
    if compared:
        click.echo(f"what is different: {results.command('jobs', 'versions', job_id, '--diff', str(compared[-1]))}")
    return ExitCode.COMPLETE


async def _show_diff(results: Results, job_id: str, number: int, *, as_json: bool) -> ExitCode:
    made = {one.number: one.status for one in await results.versions(job_id)}.get(number)
    diff = None if made is None or number == 1 else await results.diff(job_id, made.job.job_id)
    if diff is None:
        why = "it is not there any more" if made is None else f"it is {made.state}"
        why = "it is the first" if number == 1 else why
        raise BadInput(f"there is no diff of version {number} of job {job_id!r}: {why}")
    if as_json:
        print_json(diff_json(diff))
    else:
        tell_diff(diff, results.command)
    return ExitCode.COMPLETE


def _row(version: Version) -> tuple[str, ...]:
    status = version.status
    ended = "" if status.ended_at is None else _moment(status.ended_at)
    return (
        f"{version.number}{' (sample)' if version.sample else ''}",
        "yes" if version.current else "",
        status.state.value,
        f"{status.counts.success:,}",
        f"{status.counts.failed:,}",
        f"{status.job.scraper_id}@{version.scraper_version}",
        ended,
        status.job.job_id,
    )


def _moment(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _version_json(results: Results, job_id: str, version: Version) -> dict[str, Any]:
    status = version.status
    place = results.place_of_diff(job_id, status.job.job_id)
    return version.as_json(place if version.number > 1 and status.state.terminal else None)


def diff_json(diff: Diff | None) -> dict[str, Any] | None:
    """For machines; the same that is stored."""
    told: dict[str, Any] | None = msgspec.to_builtins(diff)
    return told


def tell_diff(diff: Diff, command: Command = command) -> None:
    """A table by field, examples, and the items that have no record any more. `command` says how to look further."""
    click.echo(f"against version {diff.former_version}: {counted(diff.items, 'item')}, {diff.same_items:,} the same")
    if diff.fields:
        print_table(
            ("field", "same", *_CHANGES),
            [(name, *_numbers(field)) for name, field in diff.fields.items()],
            shorten=("field",),
        )
    for line in (*_examples(diff, command), *_gone(diff)):
        click.echo(line)
    if diff.gained:
        click.echo(f"{counted(diff.gained, 'item')} had no record before")
    if diff.unreadable:
        click.echo(
            f"{counted(diff.unreadable, 'item')} could not be compared: see `{command('jobs', 'verify', diff.job_id)}`"
        )


def _examples(diff: Diff, command: Command) -> list[str]:
    """Of the first fields that have some; where the others are."""
    fields = [(name, field) for name, field in diff.fields.items() if field.examples]
    lines = [
        f"  {name} {what}: {_plain(one.item_id)}: {_change(one)}"
        for name, field in fields[:_SHOWN_FIELDS]
        for what in _CHANGES
        for one in field.examples.get(what, ())
    ]
    left = len(fields) - _SHOWN_FIELDS
    if left > 0:
        all_of_them = command("jobs", "versions", diff.job_id, "--diff", str(diff.version), "--json")
        lines.append(f"  examples of {counted(left, 'more field')}: {all_of_them}")
    return lines


def _gone(diff: Diff) -> list[str]:
    """What readers of the version miss that they had in the one before it."""
    return [
        f"{counted(items, 'item')} had a record and {'has' if items == 1 else 'have'} none now ({why}): "
        + ", ".join(_plain(one.item_id) for one in diff.gone_examples.get(why, ()))
        for why, items in sorted(diff.gone.items())
    ]


def _numbers(field: FieldDiff) -> tuple[str, ...]:
    return tuple(f"{number:,}" for number in (field.same, field.filled, field.changed, field.lost))


def _change(example: Example) -> str:
    shown = (_plain(json.dumps(value, ensure_ascii=False)) for value in (example.before, example.after))
    return " → ".join("nothing" if one == "null" else one for one in shown)


def _plain(text: str) -> str:
    """Text comes from sites, so it must not move the cursor."""
    return "".join(c if c.isprintable() else "·" for c in text)

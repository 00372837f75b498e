"""`swath jobs compare`: what is other in the records of a later job (R7). What it does is in pipeline/results."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import click
import msgspec

from swath.domain.errors import BadInput
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.results import Differences, open_results
from swath.entrypoints.cli.output import counted, print_table
from swath.pipeline.results.compare_report import Because, Change, Compared, Difference, Question, Summary
from swath.pipeline.results.compare_text import csv_pieces, json_pieces, told_apart
from swath.pipeline.results.flatten import as_text
from swath.pipeline.results.part import check_target, writing
from swath.settings import Settings

__all__ = ["Wanted", "compare_jobs"]

_WORDS = {
    Change.NEW: "new",
    Change.CHANGED: "changed",
    Change.VANISHED: "vanished",
    Change.UNKNOWN: "unknown",
    Change.DUPLICATE_KEY: "duplicate key",
    Change.NO_KEY: "no key",
}
_REASONS = {Because.NOT_ASKED: "not asked for", Because.INCOMPLETE: "not complete"}
_PIECES = {"json": json_pieces, "csv": csv_pieces}
LONGEST_CELL = 40


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    key: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    format: str | None = None
    output: str | None = None
    limit: int = 50
    force: bool = False
    as_json: bool = False

    @property
    def chosen(self) -> str:
        """The format that the options come to. Raises BadInput."""
        if self.as_json and self.format not in {None, "json"}:
            raise BadInput(f"--json and --format {self.format} do not go together; leave out one of them")
        ending = Path(self.output or "").suffix.lower().removeprefix(".")
        chosen = self.format or ("json" if self.as_json else None)
        if chosen is None:
            chosen = ending if ending in _PIECES else "table"
        if chosen == "table" and self.output is not None:
            raise BadInput(f"what is {self.output!r} to be? Give --format json or csv, or a name such as changes.csv")
        return chosen


async def compare_jobs(settings: Settings, a: str, b: str, wanted: Wanted) -> ExitCode:
    """Tells the differences; that there are some is no failure."""
    chosen = wanted.chosen
    target = None if wanted.output is None else check_target(Path(wanted.output), replace=wanted.force)
    question = Question(key=wanted.key, fields=_names(wanted.fields), ignore=_names(wanted.ignore))
    async with open_results(settings, only_looks=True) as results, results.compared(a, b, question) as found:
        await asyncio.to_thread(_tell, found, chosen, target, wanted)
    return ExitCode.COMPLETE


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for part in given for name in part.split(",") if name.strip())


def _tell(comparison: Differences, chosen: str, target: Path | None, wanted: Wanted) -> None:
    summary = comparison.summary()
    if chosen == "table":
        _print_summary(summary, err=False)
        _print_differences(summary, comparison, wanted.limit)
        return
    pieces = _PIECES[chosen](summary, comparison.differences())
    if target is None:
        for piece in pieces:
            click.echo(piece, nl=False)
    else:
        _write(pieces, target, replace=wanted.force)
    _print_summary(summary, err=True)


def _write(pieces: Iterator[bytes], target: Path, *, replace: bool) -> None:
    try:
        with writing(target) as part:
            with part.path.open("wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            part.publish(replace=replace)
    except OSError as error:
        raise BadInput(f"{target} cannot be written: {error.strerror or error}") from error


def _print_summary(summary: Summary, *, err: bool) -> None:
    for word, job in (("before", summary.a), ("after", summary.b)):
        click.echo(f"{word + ':':8} {_job(job)}", err=err)
    told = [f"{summary.counts[change]:,} {_WORDS[change]}" for change in (Change.NEW, Change.CHANGED, Change.VANISHED)]
    if summary.counts[Change.UNKNOWN]:
        told.append(f"{summary.counts[Change.UNKNOWN]:,} unknown")
    click.echo(f"{', '.join(told)}, {summary.same:,} the same", err=err)
    for line in _warnings(summary):
        click.echo(line, err=err)


def _job(job: Compared) -> str:
    version = f", version {job.version}" if job.version > 1 else ""
    return f"job {job.job_id} ({job.status}{version}), {counted(job.records, 'record')}"


def _warnings(summary: Summary) -> Iterator[str]:
    counts = summary.counts
    if summary.unknown_because[Because.INCOMPLETE]:
        yield f"{_incomplete(summary.b)}: what it lacks may be there all the same, so it is unknown"
    not_asked = summary.unknown_because[Because.NOT_ASKED]
    if not_asked:
        lacked = f"{counted(not_asked, 'record')} of job {summary.a.job_id}"
        yield f"job {summary.b.job_id} was not asked for {lacked}, having no such item, so that is unknown"
    if counts[Change.NEW] and not summary.a.complete:
        yield f"{_incomplete(summary.a)}: what is new may have been there before"
    if counts[Change.DUPLICATE_KEY]:
        keys = counted(counts[Change.DUPLICATE_KEY], "key")
        yield f"{keys} with several records in one job, which are not compared; add another --key to tell them apart"
    if counts[Change.NO_KEY]:
        yield f"{counted(counts[Change.NO_KEY], 'record')} without the key {', '.join(summary.key)}"


def _incomplete(job: Compared) -> str:
    return f"job {job.job_id} is not complete ({job.incomplete_because})"


def _print_differences(summary: Summary, comparison: Differences, limit: int) -> None:
    if summary.fields:
        click.echo()
        changes = sorted(summary.fields.items(), key=lambda one: (-_total(one[1]), one[0]))
        rows = [(name, f"{one.changed:,}", f"{one.filled:,}", f"{one.lost:,}") for name, one in changes]
        print_table(("field", "changed", "filled", "lost"), rows, shorten=("field",))
    total = sum(summary.counts.values())
    if not total:
        return
    click.echo()
    shown = [cells for one in islice(comparison.differences(), limit) for cells in _rows(one)]
    header = ("what", ", ".join(summary.key), "field", "before", "after")
    print_table(header, shown, shorten=header[1:])
    if total > limit:
        click.echo(f"… and {total - limit:,} more; --limit shows more here, --output FILE has all")


def _total(changes: msgspec.Struct) -> int:
    return sum(msgspec.structs.asdict(changes).values())


def _rows(one: Difference) -> Iterator[tuple[str, ...]]:
    word = _WORDS[one.change]
    if one.change is Change.NO_KEY:
        yield word, "", "", *(f"item {item}" if item is not None else "" for item in one.items)
        return
    key = ", ".join(one.key)
    if one.change is Change.DUPLICATE_KEY:
        yield word, key, "", *(counted(number, "record") for number in one.records)
        return
    if not one.fields:
        yield word, key, "", "", "" if one.because is None else _REASONS[one.because]
    for name, pair in one.fields.items():
        yield word, key, name, *(_short(as_text(value)) for value in told_apart(*pair))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"

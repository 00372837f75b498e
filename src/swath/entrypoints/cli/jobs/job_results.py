"""`swath jobs verify|compare|export`: checks, compares and exports the results of a job (R4, R5, R7)."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from itertools import islice
from pathlib import Path

import click
import msgspec

from swath.bootstrap.services import Services, open_services
from swath.domain.errors import BadInput, StoreDamaged
from swath.domain.job import JobStatus
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.client import Differences, open_results
from swath.entrypoints.cli.output import plural, print_json, print_table
from swath.entrypoints.cli.progress import StepCounter, show_steps
from swath.entrypoints.cli.runtime import run_async
from swath.pipeline.results.compare.report import (
    Change,
    ComparedJob,
    CompareRequest,
    CompareSummary,
    Difference,
    UnknownReason,
    csv_pieces,
    format_change,
    json_pieces,
)
from swath.pipeline.results.export.exporter import Export, ExportFormat, ExportRequest, ExportResult
from swath.pipeline.results.export.output_file import check_target, open_output
from swath.pipeline.results.flatten import cell_text
from swath.pipeline.results.verify.report import VerifyReport
from swath.settings import Settings

__all__ = ["CompareArgs", "ExportArgs", "compare_jobs", "export_job", "verify_job"]

MAX_LISTED_PROBLEMS = 50


def verify_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Prints what does not agree."""
    try:
        report = run_async(_verify(settings, job_id))
    except StoreDamaged as damage:
        report = VerifyReport.of_damage(job_id, str(damage))
    if as_json:
        print_json(report.as_json())
    else:
        _print_report(job_id, report)
    return ExitCode.COMPLETE if report.ok else ExitCode.VERIFY_FAILED


async def _verify(settings: Settings, job_id: str) -> VerifyReport:
    async with open_results(settings) as results:
        return await results.verify(job_id)


def _print_report(job_id: str, report: VerifyReport) -> None:
    if report.ok:
        checked = f"{report.counts.total:,} items and {report.artifacts:,} artifacts ({report.bytes:,} bytes) agree"
        click.echo(f"job {job_id} verifies: {checked}{'' if report.finished else '; it has not ended'}")
        return
    for problem in report.problems[:MAX_LISTED_PROBLEMS]:
        click.echo(f"{problem.code}: {problem.where}: {problem.message}")
    found = sum(report.found.values())
    if found > MAX_LISTED_PROBLEMS:
        click.echo(f"… and {found - MAX_LISTED_PROBLEMS:,} more")
    click.echo(f"job {job_id} does not verify: {found:,} problems", err=True)


_CHANGE_TEXT = {
    Change.NEW: "new",
    Change.CHANGED: "changed",
    Change.VANISHED: "vanished",
    Change.UNKNOWN: "unknown",
    Change.DUPLICATE_KEY: "duplicate key",
    Change.NO_KEY: "no key",
}
_REASON_TEXT = {UnknownReason.NOT_ASKED: "not asked for", UnknownReason.INCOMPLETE: "not complete"}
_PIECES = {"json": json_pieces, "csv": csv_pieces}
MAX_CELL_CHARS = 40


class CompareArgs(msgspec.Struct, frozen=True, kw_only=True):
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


async def compare_jobs(settings: Settings, a: str, b: str, wanted: CompareArgs) -> ExitCode:
    """Tells the differences; that there are some is no failure."""
    chosen = wanted.chosen
    target = None if wanted.output is None else check_target(Path(wanted.output), replace=wanted.force)
    question = CompareRequest(key=wanted.key, fields=_split_names(wanted.fields), ignore=_split_names(wanted.ignore))
    async with open_results(settings, only_looks=True) as results, results.compared(a, b, question) as found:
        await asyncio.to_thread(_print_comparison, found, chosen, target, wanted)
    return ExitCode.COMPLETE


def _split_names(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for part in given for name in part.split(",") if name.strip())


def _print_comparison(comparison: Differences, chosen: str, target: Path | None, wanted: CompareArgs) -> None:
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
        with open_output(target) as part:
            with part.path.open("wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            part.publish(replace=replace)
    except OSError as error:
        raise BadInput(f"{target} cannot be written: {error.strerror or error}") from error


def _print_summary(summary: CompareSummary, *, err: bool) -> None:
    for word, job in (("before", summary.a), ("after", summary.b)):
        click.echo(f"{word + ':':8} {_job_text(job)}", err=err)
    told = [
        f"{summary.counts[change]:,} {_CHANGE_TEXT[change]}" for change in (Change.NEW, Change.CHANGED, Change.VANISHED)
    ]
    if summary.counts[Change.UNKNOWN]:
        told.append(f"{summary.counts[Change.UNKNOWN]:,} unknown")
    click.echo(f"{', '.join(told)}, {summary.same:,} the same", err=err)
    for line in _warnings(summary):
        click.echo(line, err=err)


def _job_text(job: ComparedJob) -> str:
    version = f", version {job.version}" if job.version > 1 else ""
    return f"job {job.job_id} ({job.status}{version}), {plural(job.records, 'record')}"


def _warnings(summary: CompareSummary) -> Iterator[str]:
    counts = summary.counts
    if summary.unknown_because[UnknownReason.INCOMPLETE]:
        yield f"{_incomplete_text(summary.b)}: what it lacks may be there all the same, so it is unknown"
    not_asked = summary.unknown_because[UnknownReason.NOT_ASKED]
    if not_asked:
        lacked = f"{plural(not_asked, 'record')} of job {summary.a.job_id}"
        yield f"job {summary.b.job_id} was not asked for {lacked}, having no such item, so that is unknown"
    if counts[Change.NEW] and not summary.a.complete:
        yield f"{_incomplete_text(summary.a)}: what is new may have been there before"
    if counts[Change.DUPLICATE_KEY]:
        keys = plural(counts[Change.DUPLICATE_KEY], "key")
        yield f"{keys} with several records in one job, which are not compared; add another --key to tell them apart"
    if counts[Change.NO_KEY]:
        yield f"{plural(counts[Change.NO_KEY], 'record')} without the key {', '.join(summary.key)}"


def _incomplete_text(job: ComparedJob) -> str:
    return f"job {job.job_id} is not complete ({job.incomplete_because})"


def _print_differences(summary: CompareSummary, comparison: Differences, limit: int) -> None:
    if summary.fields:
        click.echo()
        changes = sorted(summary.fields.items(), key=lambda one: (-_total(one[1]), one[0]))
        rows = [(name, f"{one.changed:,}", f"{one.filled:,}", f"{one.lost:,}") for name, one in changes]
        print_table(("field", "changed", "filled", "lost"), rows, shorten=("field",))
    total = sum(summary.counts.values())
    if not total:
        return
    click.echo()
    shown = [cells for one in islice(comparison.differences(), limit) for cells in _difference_rows(one)]
    header = ("what", ", ".join(summary.key), "field", "before", "after")
    print_table(header, shown, shorten=header[1:])
    if total > limit:
        click.echo(f"… and {total - limit:,} more; --limit shows more here, --output FILE has all")


def _total(changes: msgspec.Struct) -> int:
    return sum(msgspec.structs.asdict(changes).values())


def _difference_rows(one: Difference) -> Iterator[tuple[str, ...]]:
    word = _CHANGE_TEXT[one.change]
    if one.change is Change.NO_KEY:
        yield word, "", "", *(f"item {item}" if item is not None else "" for item in one.items)
        return
    key = ", ".join(one.key)
    if one.change is Change.DUPLICATE_KEY:
        yield word, key, "", *(plural(number, "record") for number in one.records)
        return
    if not one.fields:
        yield word, key, "", "", "" if one.because is None else _REASON_TEXT[one.because]
    for name, pair in one.fields.items():
        yield word, key, name, *(_shortened(cell_text(value)) for value in format_change(*pair))


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CELL_CHARS else f"{text[: MAX_CELL_CHARS - 1]}…"


STDOUT = "-"


class ExportArgs(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command."""

    output: str
    format: str | None = None
    raw: bool = False
    state: str = "success"
    partial: bool = False
    force: bool = False
    as_json: bool = False

    @property
    def wish(self) -> ExportRequest:
        """Raises BadInput when nothing says which format it is to be, or it cannot go to stdout."""
        found = ExportFormat(self.format) if self.format is not None else ExportFormat.of_name(self.output)
        if found is None:
            known = ", ".join(ExportFormat)
            raise BadInput(f"what is {self.output!r} to be? Give --format ({known}), or a name such as records.csv")
        if self.output == STDOUT and not found.streams:
            raise BadInput(f"{found.value} cannot be written to stdout; name a file with --output")
        if self.output == STDOUT and self.as_json:
            raise BadInput(
                "--json tells of the export on stdout, where the records would be; name a file with --output"
            )
        return ExportRequest(found, raw=self.raw, everything=self.state == "all", partial=self.partial)


async def export_job(settings: Settings, job_id: str, order: ExportArgs) -> ExitCode:
    """Writes the file, and tells what is in it."""
    wish = order.wish
    if settings.server is not None:
        return await _export_remote(settings, job_id, order)
    async with open_services(settings, only_looks=True) as services:
        status = await services.store.status(job_id)
        started = time.monotonic()
        with show_steps(status.counts.total * wish.format.passes) as shown:
            done = await _export_local(services, status, order, shown)
    _print_export(status, order, done, time.monotonic() - started)
    return ExitCode.COMPLETE


async def _export_remote(settings: Settings, job_id: str, order: ExportArgs) -> ExitCode:
    from swath.entrypoints.cli.remote.client import ControllerClient
    from swath.entrypoints.cli.remote.http import ControllerAddress
    from swath.entrypoints.cli.remote.results import export_remote, remote_status

    assert settings.server is not None  # noqa: S101 the caller has looked
    client, started = ControllerClient(ControllerAddress.of(settings.server), settings.service_key), time.monotonic()
    status = await remote_status(client, job_id)
    target = None if order.output == STDOUT else Path(order.output)
    size = await export_remote(client, job_id, order.wish, target, replace=order.force)
    _print_export(status, order, ExportResult(None, size), time.monotonic() - started)
    return ExitCode.COMPLETE


async def _export_local(services: Services, status: JobStatus, order: ExportArgs, shown: StepCounter) -> ExportResult:
    export = Export(services.store, services.storage, status, order.wish, shown.add)
    if order.output != STDOUT:
        return await export.to_file(Path(order.output), replace=order.force)
    size = 0
    async with aclosing(export.pieces()) as pieces:
        async for piece in pieces:
            size += len(piece)
            await asyncio.to_thread(click.echo, piece, nl=False)
    return ExportResult(export.records, size)


def _print_export(status: JobStatus, order: ExportArgs, done: ExportResult, seconds: float) -> None:
    whole = status.state.terminal
    if order.as_json:
        told = msgspec.to_builtins(done) | {"output": order.output, "format": order.wish.format.value}
        print_json(told | {"complete": whole, "seconds": round(seconds, 3)})
        return
    what = "item" if order.wish.format is ExportFormat.FILES else "record"
    where = f"{done.bytes:,} bytes in {'stdout' if order.output == STDOUT else order.output}"
    if done.records is not None:
        where = f"{plural(done.records, what)}, {where} ({done.records / max(seconds, 0.001):,.0f}/s)"
    click.echo(where, err=True)
    if not whole:
        left = plural(status.counts.remaining, "item")
        click.echo(
            f"job {status.job.job_id} is {status.state.value}: {left} had not ended and may be missing", err=True
        )
    sys.stderr.flush()

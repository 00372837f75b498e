"""`swath jobs reextract|versions|use`: makes a new version of a job's results, lists versions, selects one (R6)."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, open_services
from swath.domain.errors import BadInput
from swath.domain.job import JobStatus
from swath.domain.result_versions import check_version, version_job_id, version_of
from swath.entrypoints.cli.exit_codes import ExitCode, exit_code_of
from swath.entrypoints.cli.jobs.client import ResultsClient, open_results
from swath.entrypoints.cli.output import command, describe, plural, print_json, print_table, status_json
from swath.entrypoints.cli.progress import ProgressDisplay, show_progress
from swath.entrypoints.cli.run import print_current_version, run_until_ended
from swath.entrypoints.cli.runtime import stop_on_signals
from swath.entrypoints.cli.worker import supervise_workers
from swath.pipeline.results.versions.diff import Diff, DiffExample, FieldDiff, read_diff
from swath.pipeline.results.versions.lifecycle import Version, VersionRequest, begin_version, load_version
from swath.pipeline.worker.sweeper import announce
from swath.sdk.registry import Registry
from swath.sdk.scraper import Scraper
from swath.settings import Settings

__all__ = [
    "ReextractArgs",
    "diff_json",
    "print_diff",
    "reextract_job",
    "resolve_scraper",
    "show_versions",
    "use_job_version",
]

CommandWriter = Callable[..., str]

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
        for line in [] if diff is None else _lost_records(diff):
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
        [_version_row(version) for version in found],
        shorten=("job", "scraper"),
    )
    compared = [one.number for one in found if one.number > 1 and one.status.state.terminal]
    if compared:
        click.echo(f"what is different: {results.command('jobs', 'versions', job_id, '--diff', str(compared[-1]))}")
    return ExitCode.COMPLETE


async def _show_diff(results: ResultsClient, job_id: str, number: int, *, as_json: bool) -> ExitCode:
    made = {one.number: one.status for one in await results.versions(job_id)}.get(number)
    diff = None if made is None or number == 1 else await results.diff(job_id, made.job.job_id)
    if diff is None:
        why = "it is not there any more" if made is None else f"it is {made.state}"
        why = "it is the first" if number == 1 else why
        raise BadInput(f"there is no diff of version {number} of job {job_id!r}: {why}")
    if as_json:
        print_json(diff_json(diff))
    else:
        print_diff(diff, results.command)
    return ExitCode.COMPLETE


def _version_row(version: Version) -> tuple[str, ...]:
    status = version.status
    ended = "" if status.ended_at is None else _time_text(status.ended_at)
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


def _time_text(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def _version_json(results: ResultsClient, job_id: str, version: Version) -> dict[str, Any]:
    status = version.status
    place = results.place_of_diff(job_id, status.job.job_id)
    return version.as_json(place if version.number > 1 and status.state.terminal else None)


def diff_json(diff: Diff | None) -> dict[str, Any] | None:
    """For machines; the same that is stored."""
    told: dict[str, Any] | None = msgspec.to_builtins(diff)
    return told


def print_diff(diff: Diff, command: CommandWriter = command) -> None:
    """A table by field, examples, and the items that have no record any more. `command` says how to look further."""
    click.echo(f"against version {diff.former_version}: {plural(diff.items, 'item')}, {diff.same_items:,} the same")
    if diff.fields:
        print_table(
            ("field", "same", *_CHANGES),
            [(name, *_numbers(field)) for name, field in diff.fields.items()],
            shorten=("field",),
        )
    for line in (*_examples(diff, command), *_lost_records(diff)):
        click.echo(line)
    if diff.gained:
        click.echo(f"{plural(diff.gained, 'item')} had no record before")
    if diff.unreadable:
        click.echo(
            f"{plural(diff.unreadable, 'item')} could not be compared: see `{command('jobs', 'verify', diff.job_id)}`"
        )


def _examples(diff: Diff, command: CommandWriter) -> list[str]:
    """Of the first fields that have some; where the others are."""
    fields = [(name, field) for name, field in diff.fields.items() if field.examples]
    lines = [
        f"  {name} {what}: {_printable(one.item_id)}: {_change_text(one)}"
        for name, field in fields[:_SHOWN_FIELDS]
        for what in _CHANGES
        for one in field.examples.get(what, ())
    ]
    left = len(fields) - _SHOWN_FIELDS
    if left > 0:
        all_of_them = command("jobs", "versions", diff.job_id, "--diff", str(diff.version), "--json")
        lines.append(f"  examples of {plural(left, 'more field')}: {all_of_them}")
    return lines


def _lost_records(diff: Diff) -> list[str]:
    """What readers of the version miss that they had in the one before it."""
    return [
        f"{plural(items, 'item')} had a record and {'has' if items == 1 else 'have'} none now ({why}): "
        + ", ".join(_printable(one.item_id) for one in diff.gone_examples.get(why, ()))
        for why, items in sorted(diff.gone.items())
    ]


def _numbers(field: FieldDiff) -> tuple[str, ...]:
    return tuple(f"{number:,}" for number in (field.same, field.filled, field.changed, field.lost))


def _change_text(example: DiffExample) -> str:
    shown = (_printable(json.dumps(value, ensure_ascii=False)) for value in (example.before, example.after))
    return " → ".join("nothing" if one == "null" else one for one in shown)


def _printable(text: str) -> str:
    """Text comes from sites, so it must not move the cursor."""
    return "".join(c if c.isprintable() else "·" for c in text)


class ReextractArgs(msgspec.Struct, frozen=True, kw_only=True):
    """Options as they were given."""

    scraper: str
    sample: int | None = None
    concurrency: int | None = None
    processes: int = 1
    quiet: bool = False


async def reextract_job(settings: Settings, job_id: str, asked: ReextractArgs, *, as_json: bool) -> ExitCode:
    """Makes the version, says what is different, and how to go back."""
    stop = asyncio.Event()
    stop_on_signals(stop, f"stopping; what runs has {settings.grace_seconds:g} s to finish", settings.grace_seconds)
    if settings.server is not None:
        return await _reextract_remote(settings, job_id, asked, stop, as_json=as_json)
    registry = make_registry(settings)
    async with open_services(settings) as services:
        async with show_progress(quiet=asked.quiet or as_json) as display:
            status = await _create_version_job(services, registry, job_id, asked, display)
            async with _extra_processes(settings, status.job.job_id, asked.processes - 1):
                if not stop.is_set():
                    status = await run_until_ended(services, registry, status, display, stop)
        scraped = await services.store.status(job_id)
        diff = await read_diff(services.storage, status.job.job_id)
        if as_json:
            print_json(status_json(status) | {"current": _is_current(scraped, status), "diff": diff_json(diff)})
        else:
            _print_result(scraped, status, diff, services.storage.location(status.job.job_id), command)
        return exit_code_of(status)


async def _reextract_remote(
    settings: Settings, job_id: str, asked: ReextractArgs, stop: asyncio.Event, *, as_json: bool
) -> ExitCode:
    from swath.entrypoints.cli.jobs.client import open_results
    from swath.entrypoints.cli.remote.client import ControllerClient
    from swath.entrypoints.cli.remote.http import ControllerAddress
    from swath.entrypoints.cli.remote.results import reextract_remote

    if asked.processes > 1:
        raise BadInput("--processes does not go with --server: the workers of the controller make the version")
    assert settings.server is not None  # noqa: S101 the caller has looked
    client = ControllerClient(ControllerAddress.of(settings.server), settings.service_key)
    wish = {"sample": asked.sample, "max_concurrent_workers": asked.concurrency}
    async with show_progress(quiet=asked.quiet or as_json) as display:
        status = await reextract_remote(client, job_id, asked.scraper, wish, display, stop)
    async with open_results(settings) as results:
        scraped, made = await results.status(job_id), status.job.job_id
        diff = await results.diff(job_id, made) if status.state.terminal else None
        if as_json:
            print_json(status_json(status) | {"current": _is_current(scraped, status), "diff": diff_json(diff)})
        else:
            place = client.address.url + client.address.path("jobs", made, "results")
            _print_result(scraped, status, diff, place, results.command)
    return exit_code_of(status)


async def _create_version_job(
    services: Services, registry: Registry, job_id: str, asked: ReextractArgs, display: ProgressDisplay
) -> JobStatus:
    scraper, source = resolve_scraper(registry, asked.scraper)
    wish = VersionRequest(
        scraper=scraper,
        source=source,
        source_sha256=None if source is None else _sha256_of(Path(source)),
        sample=asked.sample,
        concurrency=asked.concurrency,
    )
    status = await begin_version(services.store, services.clock.now(), job_id, wish)
    status = await load_version(services.store, status, display.loading)
    await announce(services.queue, services.clock, status)
    return status


def _sha256_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def resolve_scraper(registry: Registry, reference: str) -> tuple[Scraper, str | None]:
    """An id or a file, with `@version` behind it if it must be that one. Raises BadInput when it is another."""
    name, at, version = reference.rpartition("@")
    if not at or Path(reference).is_file():
        return registry.resolve(reference)
    scraper, source = registry.resolve(name)
    if scraper.version != version:
        have = f"version {scraper.version}" if scraper.version else "no version"
        where = "installed here" if source is None else f"in {Path(source).name}"
        raise BadInput(
            f"scraper {scraper.id!r} has {have} {where}, not {version}; install that, or leave out @{version}"
        )
    return scraper, source


@asynccontextmanager
async def _extra_processes(settings: Settings, job_id: str, processes: int) -> AsyncIterator[None]:
    """Further processes for as long as this one works."""
    enough = asyncio.Event()
    helping = asyncio.create_task(
        supervise_workers(processes, enough, job_id=job_id, grace_seconds=settings.grace_seconds)
    )
    try:
        yield
    finally:
        enough.set()
        await helping


def _is_current(scraped: JobStatus, made: JobStatus) -> bool:
    return scraped.current_version == version_of(made.job)


def _print_result(
    scraped: JobStatus, made: JobStatus, diff: Diff | None, place: str, command: Callable[..., str]
) -> None:
    job_id, number = scraped.job.job_id, version_of(made.job)
    click.echo(f"version {number} of job {job_id} is {describe(made)}")
    if not made.state.terminal:
        click.echo("run the same command again to go on", err=True)
        return
    if diff is not None:
        print_diff(diff, command)
    click.echo(f"results:  {place}")
    click.echo(f"check it: {command('jobs', 'verify', made.job.job_id)}")
    print_current_version(scraped, made, diff, command)

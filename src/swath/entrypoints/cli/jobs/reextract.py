"""`swath jobs reextract`: a new version of a job's results out of its stored pages, made here and now (R6).

After: `swath jobs versions` and `swath jobs use`, in versions.py. The same command goes on after any death.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import click
import msgspec

from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, open_services
from swath.domain.errors import BadInput
from swath.domain.job import JobStatus
from swath.domain.versions import version_of
from swath.entrypoints.cli.exit_codes import ExitCode, exit_code_of
from swath.entrypoints.cli.jobs.versions import diff_json, tell_diff
from swath.entrypoints.cli.output import command, describe, print_json, status_json
from swath.entrypoints.cli.processes import keep_workers
from swath.entrypoints.cli.progress import Display, watching
from swath.entrypoints.cli.readers import tell_readers
from swath.entrypoints.cli.run_job import work_until_ended
from swath.entrypoints.cli.session import stop_on_signals
from swath.kit.registry import Registry
from swath.kit.scraper import Scraper
from swath.pipeline.dispatch.announce import announce
from swath.pipeline.results.diff import Diff, read_diff
from swath.pipeline.results.version_load import load_version
from swath.pipeline.results.versions import Wish, begin_version
from swath.settings import Settings

__all__ = ["Asked", "reextract_job", "scraper_of"]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Options as they were given."""

    scraper: str
    sample: int | None = None
    concurrency: int | None = None
    processes: int = 1
    quiet: bool = False


async def reextract_job(settings: Settings, job_id: str, asked: Asked, *, as_json: bool) -> ExitCode:
    """Makes the version, says what is different, and how to go back."""
    stop = asyncio.Event()
    stop_on_signals(stop, f"stopping; what runs has {settings.grace_seconds:g} s to finish", settings.grace_seconds)
    if settings.server is not None:
        return await _reextract_there(settings, job_id, asked, stop, as_json=as_json)
    registry = make_registry(settings)
    async with open_services(settings) as services:
        async with watching(quiet=asked.quiet or as_json) as display:
            status = await _loaded(services, registry, job_id, asked, display)
            async with _helpers(settings, status.job.job_id, asked.processes - 1):
                if not stop.is_set():
                    status = await work_until_ended(services, registry, status, display, stop)
        scraped = await services.store.status(job_id)
        diff = await read_diff(services.storage, status.job.job_id)
        if as_json:
            print_json(status_json(status) | {"current": _is_current(scraped, status), "diff": diff_json(diff)})
        else:
            _tell(scraped, status, diff, services.storage.location(status.job.job_id), command)
        return exit_code_of(status)


async def _reextract_there(
    settings: Settings, job_id: str, asked: Asked, stop: asyncio.Event, *, as_json: bool
) -> ExitCode:
    from swath.entrypoints.cli.jobs.results import open_results
    from swath.entrypoints.cli.remote.address import Address
    from swath.entrypoints.cli.remote.answers import Client
    from swath.entrypoints.cli.remote.reextract import reextract_there

    if asked.processes > 1:
        raise BadInput("--processes does not go with --server: the workers of the controller make the version")
    assert settings.server is not None  # noqa: S101 the caller has looked
    client = Client(Address.of(settings.server), settings.service_key)
    wish = {"sample": asked.sample, "max_concurrent_workers": asked.concurrency}
    async with watching(quiet=asked.quiet or as_json) as display:
        status = await reextract_there(client, job_id, asked.scraper, wish, display, stop)
    async with open_results(settings) as results:
        scraped, made = await results.status(job_id), status.job.job_id
        diff = await results.diff(job_id, made) if status.state.terminal else None
        if as_json:
            print_json(status_json(status) | {"current": _is_current(scraped, status), "diff": diff_json(diff)})
        else:
            place = client.address.url + client.address.path("jobs", made, "results")
            _tell(scraped, status, diff, place, results.command)
    return exit_code_of(status)


async def _loaded(services: Services, registry: Registry, job_id: str, asked: Asked, display: Display) -> JobStatus:
    scraper, source = scraper_of(registry, asked.scraper)
    wish = Wish(
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


def scraper_of(registry: Registry, reference: str) -> tuple[Scraper, str | None]:
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
async def _helpers(settings: Settings, job_id: str, processes: int) -> AsyncIterator[None]:
    """Further processes for as long as this one works."""
    enough = asyncio.Event()
    helping = asyncio.create_task(keep_workers(processes, enough, job_id=job_id, grace_seconds=settings.grace_seconds))
    try:
        yield
    finally:
        enough.set()
        await helping


def _is_current(scraped: JobStatus, made: JobStatus) -> bool:
    return scraped.current_version == version_of(made.job)


def _tell(scraped: JobStatus, made: JobStatus, diff: Diff | None, place: str, command: Callable[..., str]) -> None:
    job_id, number = scraped.job.job_id, version_of(made.job)
    click.echo(f"version {number} of job {job_id} is {describe(made)}")
    if not made.state.terminal:
        click.echo("run the same command again to go on", err=True)
        return
    if diff is not None:
        tell_diff(diff, command)
    click.echo(f"results:  {place}")
    click.echo(f"check it: {command('jobs', 'verify', made.job.job_id)}")
    tell_readers(scraped, made, diff, command)

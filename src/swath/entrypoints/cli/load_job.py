"""Creates a job from the arguments of `run` or `jobs create`, and loads its items."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import re
import secrets
from pathlib import Path

import click
import msgspec

from swath.bootstrap.network import make_guard, make_network
from swath.bootstrap.services import Services, new_worker_id
from swath.domain.errors import BadInput, Conflict, Failed, UnknownName
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.job import Job, JobStatus
from swath.domain.storage_keys import Layout
from swath.domain.transitions import JobState
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.progress import ProgressDisplay
from swath.entrypoints.cli.run_args import RunArgs
from swath.fetch.proxies.selector import check_proxy_request
from swath.fetch.url import canonical
from swath.pipeline.ingest.job_spec import (
    check_callback_url,
    check_job_id,
    read_policy,
    refuse_if_robots_deny_all,
    sites_of,
)
from swath.pipeline.ingest.load import LoadOptions, LoadReport, OnBadRows, OnDuplicates, RowsRefused, load
from swath.pipeline.ingest.sources.file_and_stream import FileSource, InputFormat
from swath.pipeline.ingest.sources.rows import FirstRows, RowSource, SampledRows
from swath.pipeline.ingest.validate import RowChecker
from swath.pipeline.worker.sweeper import announce
from swath.sdk.registry import Registry
from swath.sdk.scraper import Scraper

__all__ = ["JobLoad", "canonical_callback_url", "default_job_id", "load_job", "policy_of", "with_concurrency"]

SILENT_SOURCE_SECONDS = 2.0  # how long a pipe may say nothing before we do
PACKING_HINT_ITEMS = 20_000  # above it another layout is suggested (R2)


class JobLoad(msgspec.Struct, frozen=True):
    """An Order made ready: the job, its rows, and how they are checked. `on_disk`: they cannot fail to come."""

    job: Job
    scraper: Scraper
    rows: RowSource
    checker: RowChecker
    options: LoadOptions
    on_disk: bool

    @classmethod
    def of(cls, order: RunArgs, registry: Registry, now: float) -> JobLoad:
        """Reads the policy, but not the items. Raises BadInput and UnknownName."""
        if order.items is None:
            raise BadInput("say what to run it on with --items FILE, or name a job of the store with --job-id")
        scraper, source = registry.resolve(order.scraper)
        rows: RowSource = FileSource(order.items, None if order.form is None else InputFormat(order.form))
        if order.limit is not None:
            rows = FirstRows(rows, order.limit)
        if order.sample is not None:
            rows = SampledRows(rows, order.sample)
        checker = RowChecker(scraper.Input, mapping=order.mapping, id_column=order.id_column)
        options = LoadOptions(on_bad_rows=OnBadRows(order.bad_rows), on_duplicates=OnDuplicates(order.duplicates))
        job = _job_of(order, scraper, source, now)
        return cls(job, scraper, rows, checker, options, on_disk=Path(order.items).is_file())

    async def load(self, services: Services, display: ProgressDisplay) -> LoadReport:
        """Reads, checks and stores all rows; says so when nothing comes for a while. Raises RowsRefused."""
        await _check_scraper_version(services, self.job)
        await _check_callback(services, self.job)
        begun = asyncio.Event()
        if self.on_disk:
            begun.set()  # it may take its time, but nobody has to be told to write to it

        def on_rows(rows: int) -> None:
            begun.set()
            display.loading(rows)

        async def vet(job: Job) -> None:
            reach = functools.partial(make_network, services, new_worker_id())
            await refuse_if_robots_deny_all(services.store, job, self.scraper, reach)

        told = asyncio.create_task(_note_silent_source(self.rows.name, begun, display))
        try:
            return await load(services.store, self.job, self.rows, self.checker, self.options, on_rows, vet)
        finally:
            told.cancel()


async def _check_scraper_version(services: Services, job: Job) -> None:
    """Raises Conflict for a job that is under way and was ordered with another version of the scraper."""
    try:
        status = await services.store.status(job.job_id)
    except UnknownName:
        return
    ordered = status.job.scraper_version
    if status.state.terminal or status.state is JobState.LOADING or ordered in (None, job.scraper_version):
        return
    raise Conflict(
        f"job {job.job_id!r} was ordered with version {ordered} of scraper {job.scraper_id!r}, which has version "
        f"{job.scraper_version} now: choose another job id, or go on with the new version by "
        f"`{command('run', '--job-id', job.job_id)}`"
    )


async def _check_callback(services: Services, job: Job) -> None:
    """Raises BadInput. A job that is there already goes on, whatever has become of the address since."""
    if job.callback_url is None:
        return
    with contextlib.suppress(UnknownName):
        await services.store.status(job.job_id)
        return
    try:
        await check_callback_url(make_guard(services), job.callback_url)
    except BadInput as error:
        raise BadInput(f"--callback-url: {error}") from None


async def _note_silent_source(name: str, begun: asyncio.Event, display: ProgressDisplay) -> None:
    try:
        await asyncio.wait_for(begun.wait(), SILENT_SOURCE_SECONDS)
    except TimeoutError:
        display.note(f"waiting for {name}: nothing that can be used has come from it yet; Ctrl-C stops")


async def load_job(
    services: Services, registry: Registry, order: RunArgs, display: ProgressDisplay, stop: asyncio.Event
) -> JobStatus:
    """Loads the job, or finds that it is loaded already. Returns early, still `loading`, when told to stop."""
    intake = JobLoad.of(order, registry, services.clock.now())
    check_proxy_request(services.settings.proxies, intake.job.policy.proxy)
    loading = asyncio.create_task(intake.load(services, display))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not loading.done():
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        return JobStatus(job=intake.job, state=JobState.LOADING)
    try:
        report = loading.result()
    except RowsRefused as refused:
        for line in refused.report.lines():
            click.echo(line, err=True)
        raise
    for line in report.lines():
        click.echo(f"left out: {line}", err=True)
    status = report.status or await services.store.status(intake.job.job_id)
    if status.counts.total > PACKING_HINT_ITEMS and status.job.layout is Layout.FILES and not status.counts.ended:
        display.note(f"{status.counts.total:,} items make many small files; --layout warc packs them")
    await announce(services.queue, services.clock, status)
    return status


def _job_of(order: RunArgs, scraper: Scraper, source: str | None, now: float) -> Job:
    job_id = default_job_id(order, scraper.id, source) if order.job_id is None else order.job_id
    check_job_id(job_id, "--job-id")
    return Job(
        job_id=job_id,
        scraper_id=scraper.id,
        scraper_version=scraper.version,
        scraper_source=source,
        sites=sites_of(scraper),
        name=order.name,
        labels=order.labels,
        callback_url=None if order.callback_url is None else canonical_callback_url(order.callback_url),
        priority=order.priority,
        layout=Layout(order.layout),
        policy=policy_of(order),
        created_at=now,
    )


def policy_of(order: RunArgs) -> ExecutionPolicy:
    """As the options say. Raises BadInput."""
    policy = read_policy(order.policy) if order.policy else ExecutionPolicy()
    return policy if order.concurrency is None else with_concurrency(policy, order.concurrency)


def canonical_callback_url(url: str) -> str:
    """In its one spelling; where it leads to is looked at later. Raises BadInput."""
    try:
        return canonical(url)
    except Failed as failed:
        raise BadInput(f"--callback-url: {failed.failure.message}") from None


def with_concurrency(policy: ExecutionPolicy, concurrency: int) -> ExecutionPolicy:
    """The policy with what `--concurrency` says. Raises BadInput."""
    try:
        return policy.with_concurrency(concurrency)
    except ValueError:
        raise BadInput(f"--concurrency must be between 1 and 10,000, not {concurrency}") from None


def default_job_id(order: RunArgs, scraper_id: str, source: str | None) -> str:
    """The same scraper, file and part of it give the same job, so that the same command goes on where it was."""
    items = order.items or ""
    if items == "-":
        return f"{scraper_id}-{secrets.token_hex(4)}"
    path = Path(items).resolve()
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", path.name.split(".")[0]).strip("-")[:60] or "items"
    parts = [f"{word}{rows}" for word, rows in (("first", order.limit), ("sample", order.sample)) if rows is not None]
    mark = hashlib.sha256(f"{scraper_id}\0{source}\0{path}".encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return "-".join([scraper_id, stem, *parts, mark])

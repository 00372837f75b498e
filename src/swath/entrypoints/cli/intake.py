"""From an Order to a loaded job. Before: order.py. After: `run` works on it, `jobs create` leaves it there."""

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
from swath.domain.job import Job, JobStatus
from swath.domain.layout import Layout
from swath.domain.policy import ExecutionPolicy
from swath.domain.transitions import JobState
from swath.entrypoints.cli.order import Order
from swath.entrypoints.cli.output import command
from swath.entrypoints.cli.progress import Display
from swath.kit.registry import Registry
from swath.kit.scraper import Scraper
from swath.pipeline.accept.callback import check_callback
from swath.pipeline.accept.check import RowChecker
from swath.pipeline.accept.file_source import FileSource, Format
from swath.pipeline.accept.load import load
from swath.pipeline.accept.new_job import check_job_id, sites_of
from swath.pipeline.accept.policy_file import read_policy
from swath.pipeline.accept.report import LoadOptions, LoadReport, OnBadRows, OnDuplicates, RowsRefused
from swath.pipeline.accept.robots_vet import refuse_if_robots_deny_all
from swath.pipeline.accept.rows import RowSource
from swath.pipeline.accept.sampling import FirstRows, SampledRows
from swath.pipeline.dispatch.announce import announce
from swath.proxies.ways import check_wish
from swath.web.address import canonical

__all__ = ["Intake", "checked_url", "derived_job_id", "policy_of", "take_in", "with_concurrency"]

SILENCE_SECONDS = 2.0  # how long a pipe may say nothing before we do
MANY_ITEMS = 20_000  # above it another layout is suggested (R2)


class Intake(msgspec.Struct, frozen=True):
    """An Order made ready: the job, its rows, and how they are checked. `on_disk`: they cannot fail to come."""

    job: Job
    scraper: Scraper
    rows: RowSource
    checker: RowChecker
    options: LoadOptions
    on_disk: bool

    @classmethod
    def of(cls, order: Order, registry: Registry, now: float) -> Intake:
        """Reads the policy, but not the items. Raises BadInput and UnknownName."""
        if order.items is None:
            raise BadInput("say what to run it on with --items FILE, or name a job of the store with --job-id")
        scraper, source = registry.resolve(order.scraper)
        rows: RowSource = FileSource(order.items, None if order.form is None else Format(order.form))
        if order.limit is not None:
            rows = FirstRows(rows, order.limit)
        if order.sample is not None:
            rows = SampledRows(rows, order.sample)
        checker = RowChecker(scraper.Input, mapping=order.mapping, id_column=order.id_column)
        options = LoadOptions(on_bad_rows=OnBadRows(order.bad_rows), on_duplicates=OnDuplicates(order.duplicates))
        job = _job_of(order, scraper, source, now)
        return cls(job, scraper, rows, checker, options, on_disk=Path(order.items).is_file())

    async def load(self, services: Services, display: Display) -> LoadReport:
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

        told = asyncio.create_task(_tell_silence(self.rows.name, begun, display))
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
        await check_callback(make_guard(services), job.callback_url)
    except BadInput as error:
        raise BadInput(f"--callback-url: {error}") from None


async def _tell_silence(name: str, begun: asyncio.Event, display: Display) -> None:
    try:
        await asyncio.wait_for(begun.wait(), SILENCE_SECONDS)
    except TimeoutError:
        display.note(f"waiting for {name}: nothing that can be used has come from it yet; Ctrl-C stops")


async def take_in(
    services: Services, registry: Registry, order: Order, display: Display, stop: asyncio.Event
) -> JobStatus:
    """Loads the job, or finds that it is loaded already. Returns early, still `loading`, when told to stop."""
    intake = Intake.of(order, registry, services.clock.now())
    check_wish(services.settings.proxies, intake.job.policy.proxy)
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
    if status.counts.total > MANY_ITEMS and status.job.layout is Layout.FILES and not status.counts.ended:
        display.note(f"{status.counts.total:,} items make many small files; --layout warc packs them")
    await announce(services.queue, services.clock, status)
    return status


def _job_of(order: Order, scraper: Scraper, source: str | None, now: float) -> Job:
    job_id = derived_job_id(order, scraper.id, source) if order.job_id is None else order.job_id
    check_job_id(job_id, "--job-id")
    return Job(
        job_id=job_id,
        scraper_id=scraper.id,
        scraper_version=scraper.version,
        scraper_source=source,
        sites=sites_of(scraper),
        name=order.name,
        labels=order.labels,
        callback_url=None if order.callback_url is None else checked_url(order.callback_url),
        priority=order.priority,
        layout=Layout(order.layout),
        policy=policy_of(order),
        created_at=now,
    )


def policy_of(order: Order) -> ExecutionPolicy:
    """As the options say. Raises BadInput."""
    policy = read_policy(order.policy) if order.policy else ExecutionPolicy()
    return policy if order.concurrency is None else with_concurrency(policy, order.concurrency)


def checked_url(url: str) -> str:
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


def derived_job_id(order: Order, scraper_id: str, source: str | None) -> str:
    """The same scraper, file and part of it give the same job, so that the same command goes on where it was."""
    items = order.items or ""
    if items == "-":
        return f"{scraper_id}-{secrets.token_hex(4)}"
    path = Path(items).resolve()
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", path.name.split(".")[0]).strip("-")[:60] or "items"
    parts = [f"{word}{rows}" for word, rows in (("first", order.limit), ("sample", order.sample)) if rows is not None]
    mark = hashlib.sha256(f"{scraper_id}\0{source}\0{path}".encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return "-".join([scraper_id, stem, *parts, mark])

"""From the options of `run` and `jobs create` to a loaded job. After: `run` works on it, `create` leaves it there."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from swath.bootstrap import Services
from swath.domain.errors import BadInput
from swath.domain.job import JOB_ID_LIMIT, Job, JobStatus
from swath.domain.policy import ExecutionPolicy
from swath.domain.transitions import JobState
from swath.entrypoints.cli.progress import Display
from swath.kit.registry import Registry
from swath.kit.scraper import HttpScraper
from swath.pipeline.accept.check import RowChecker
from swath.pipeline.accept.file_source import FileSource, Format
from swath.pipeline.accept.load import load
from swath.pipeline.accept.policy_file import read_policy
from swath.pipeline.accept.report import LoadOptions, OnBadRows, OnDuplicates, RowsRefused

__all__ = ["Order", "job_options", "take_in"]


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody typed."""

    scraper: str | None
    items: str
    job_id: str | None = None
    name: str | None = None
    labels: dict[str, str] = {}
    priority: int = 0
    concurrency: int | None = None
    policy: Path | None = None
    form: Format | None = None
    id_column: str | None = None
    mapping: dict[str, str] = {}
    load: LoadOptions = LoadOptions()
    as_json: bool = False
    quiet: bool = False


def job_options(command: Callable[[Order], Any]) -> Callable[..., Any]:
    """The options that say what a job is; the command gets them as one Order."""

    @functools.wraps(command)
    def with_order(**given: Any) -> Any:
        options = LoadOptions(
            on_bad_rows=OnBadRows(given.pop("bad_rows")),
            on_duplicates=OnDuplicates(given.pop("duplicates").replace("-", "_")),
        )
        form = given.pop("form")
        mapping, labels = _pairs(given.pop("mapping"), "--map"), _pairs(given.pop("labels"), "--label")
        return command(Order(**given, load=options, form=form and Format(form), mapping=mapping, labels=labels))

    decorated: Callable[..., Any] = with_order
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS = (
    click.argument("scraper", metavar="[SCRAPER]", required=False),
    click.option("--items", required=True, metavar="FILE", help="CSV, JSON or JSON Lines, gzip of each; - for stdin."),
    click.option("--job-id", metavar="ID", help="Name of the job. Default: from the scraper and the file."),
    click.option("--concurrency", type=int, metavar="N", help="Items at once (throttling.max_concurrent_workers)."),
    click.option("--policy", type=click.Path(path_type=Path), metavar="FILE", help="Execution policy, YAML or JSON."),
    click.option("--format", "form", type=click.Choice([f.value for f in Format]), help="Default: by the file name."),
    click.option("--id-column", metavar="COLUMN", help="Column that names each item. Default: from its input."),
    click.option("--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Which column an input field is."),
    click.option("--bad-rows", type=click.Choice(["refuse", "skip"]), default="refuse", show_default=True),
    click.option("--duplicates", type=click.Choice(["refuse", "keep-first"]), default="refuse", show_default=True),
    click.option("--name", metavar="TEXT", help="A name for people."),
    click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Marks the job; may be repeated."),
    click.option(
        "--priority",
        type=click.IntRange(-1_000_000, 1_000_000),
        default=0,
        show_default=True,
        help="Higher runs first.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the job's status as JSON at the end."),
    click.option("--quiet", is_flag=True, help="No progress."),
)


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise BadInput(f"{option} {text}: write it as KEY=VALUE")
        pairs[key] = value
    return pairs


async def take_in(
    services: Services, registry: Registry, order: Order, display: Display, stop: asyncio.Event
) -> JobStatus:
    """Loads the job, or finds that it is loaded already. Returns early, still `loading`, when told to stop."""
    scraper, source = registry.resolve(order.scraper)
    job = _job_of(order, scraper, source, services.clock.now())
    checker = RowChecker(scraper.Input, mapping=order.mapping, id_column=order.id_column)
    rows = FileSource(order.items, order.form)
    loading = asyncio.create_task(load(services.store, job, rows, checker, order.load, display.loading))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({loading, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not loading.done():
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)
        return JobStatus(job=job, state=JobState.LOADING)
    try:
        report = loading.result()
    except RowsRefused as refused:
        for line in refused.report.lines():
            click.echo(line, err=True)
        raise
    for line in report.lines():
        click.echo(f"left out: {line}", err=True)
    return report.status or await services.store.status(job.job_id)


def _job_of(order: Order, scraper: HttpScraper, source: str | None, now: float) -> Job:
    policy = read_policy(order.policy) if order.policy else ExecutionPolicy()
    if order.concurrency is not None:
        policy = _with_concurrency(policy, order.concurrency)
    for field in _not_acted_upon(policy):
        click.echo(f"note: {field} is kept with the job, but nothing acts upon it yet", err=True)
    job_id = _derived_job_id(scraper, source, order.items) if order.job_id is None else order.job_id
    _check_job_id(job_id)
    return Job(
        job_id=job_id,
        scraper_id=scraper.id,
        scraper_source=source,
        name=order.name,
        labels=order.labels,
        priority=order.priority,
        policy=policy,
        created_at=now,
    )


def _not_acted_upon(policy: ExecutionPolicy) -> list[str]:
    """What somebody set and would wrongly rely on."""
    given = policy.as_json()
    fields: list[str] = [name for name in ("circuit_breaker", "proxy") if name in given]
    if "requests_per_second" in given.get("throttling", {}):
        fields.append("requests_per_second")
    return fields


def _with_concurrency(policy: ExecutionPolicy, concurrency: int) -> ExecutionPolicy:
    try:
        return policy.with_concurrency(concurrency)
    except ValueError:
        raise BadInput(f"--concurrency must be between 1 and 10,000, not {concurrency}") from None


def _check_job_id(job_id: str) -> None:
    if not 0 < len(job_id) <= JOB_ID_LIMIT or not job_id.isprintable():
        raise BadInput(f"--job-id must be 1 to {JOB_ID_LIMIT} printable characters")


def _derived_job_id(scraper: HttpScraper, source: str | None, items: str) -> str:
    """The same scraper and file give the same job, so that the same command goes on where it was."""
    if items == "-":
        return f"{scraper.id}-{secrets.token_hex(4)}"
    path = Path(items).resolve()
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", path.name.split(".")[0]).strip("-")[:60] or "items"
    mark = hashlib.sha256(f"{scraper.id}\0{source}\0{path}".encode()).hexdigest()[:8]
    return f"{scraper.id}-{stem}-{mark}"

"""`--dry-run`: checks a job and prints its plan, without storing or fetching anything.

The items are loaded into a temporary store by the same code as ever. If the job exists already, they are compared
with
it, which changes nothing.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import msgspec
from msgspec import structs

from swath.backends.clock import SystemClock
from swath.backends.sqlite.read_only import store_file
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import open_services
from swath.domain.errors import Conflict, SwathError, UnknownName
from swath.domain.job import Job, JobStatus
from swath.domain.proxy_products import ProxyType
from swath.domain.transitions import JobState
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.load_job import JobLoad
from swath.entrypoints.cli.output import describe, duration_text, print_json
from swath.entrypoints.cli.progress import show_progress
from swath.entrypoints.cli.run_args import RunArgs
from swath.fetch.proxies.selector import check_proxy_request
from swath.pipeline.ingest.load import LoadReport, RowsRefused
from swath.settings import Settings, SqliteLocation

__all__ = ["DryRunPlan", "show_dry_run"]


class DryRunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the job would be. `eta_from` is the ended job whose pace the estimate is made of."""

    job_id: str
    scraper_id: str
    status: str | None
    rows: int
    items: int
    bad_rows: int
    duplicates: int
    concurrency: int
    eta_seconds: float | None
    eta_from: str | None
    cost: float | None  # None: it goes out by a paid way, and nothing says yet what that costs


async def show_dry_run(settings: Settings, order: RunArgs) -> ExitCode:
    """Prints the plan, and then raises what the load would: a plan for rows that are refused is no plan."""
    refused: RowsRefused | None = None
    intake = JobLoad.of(order, make_registry(settings), SystemClock().now())
    check_proxy_request(settings.proxies, intake.job.policy.proxy)
    known = await _earlier_jobs(settings, intake.job)
    loaded = known[0] is not None and known[0].state is not JobState.LOADING
    with tempfile.TemporaryDirectory(prefix="swath-plan-") as folder:
        async with (
            open_services(settings if loaded else _temporary_settings(settings, Path(folder))) as services,
            show_progress(quiet=order.quiet or order.as_json) as display,
        ):
            try:
                report = await intake.load(services, display)
            except RowsRefused as error:
                refused, report = error, error.report
    plan = _plan(intake.job, report, *known)
    if order.as_json:
        print_json(msgspec.to_builtins(plan))
    else:
        _print_plan(plan, report, known[0])
    if refused is not None:
        raise refused
    return ExitCode.COMPLETE


def _temporary_settings(settings: Settings, folder: Path) -> Settings:
    """The same for a store that nobody else knows, on this machine wherever the real one is."""
    return structs.replace(settings, data=folder, store=None, queue=None, results=None, fsync=False)


async def _earlier_jobs(settings: Settings, job: Job) -> tuple[JobStatus | None, JobStatus | None]:
    """The job itself if it exists already, and the last ended job of its scraper. Raises Conflict for another order."""
    place = settings.places.store
    if isinstance(place, SqliteLocation) and not store_file(place.folder).exists():
        return None, None
    try:
        async with open_services(settings) as services:
            try:
                same: JobStatus | None = await services.store.status(job.job_id)
                await services.store.submit(job)  # of one that is there this only compares
            except UnknownName:
                same = None
            recent = await services.store.jobs(limit=100)
    except Conflict:
        raise
    except SwathError as error:
        click.echo(f"note: the store does not answer, so nothing is known of earlier jobs: {error}", err=True)
        return None, None
    return same, next((one for one in recent if one.job.scraper_id == job.scraper_id and _rate_per_slot(one)), None)


def _rate_per_slot(status: JobStatus) -> float | None:
    """Items per second and slot of an ended job."""
    if not status.state.terminal or status.started_at is None or status.ended_at is None or not status.counts.success:
        return None
    seconds = max(status.ended_at - status.started_at, 0.001)
    return (
        (status.counts.success + status.counts.failed) / seconds / status.job.policy.throttling.max_concurrent_workers
    )


def _plan(job: Job, report: LoadReport, same: JobStatus | None, model: JobStatus | None) -> DryRunPlan:
    concurrency = job.policy.throttling.max_concurrent_workers
    left = report.items if same is None or same.state is JobState.LOADING else same.counts.remaining
    if same is not None and same.state.terminal:
        model = None
    pace = None if model is None else _rate_per_slot(model)
    return DryRunPlan(
        job_id=job.job_id,
        scraper_id=job.scraper_id,
        status=None if same is None else same.state.value,
        rows=report.rows,
        items=report.items,
        bad_rows=report.bad_rows,
        duplicates=report.duplicates,
        concurrency=concurrency,
        eta_seconds=None if pace is None else round(left / (pace * concurrency), 1),
        eta_from=None if model is None else model.job.job_id,
        cost=_cost(job, left, model),
    )


def _cost(job: Job, left: int, model: JobStatus | None) -> float | None:
    """What the items that are left cost, if they cost what those of the last job did."""
    if model is not None and model.counts.ended:
        return round(model.cost / model.counts.ended * left, 6)
    paid = job.policy.proxy.type is not ProxyType.NONE or bool(job.policy.proxy.ladder)
    return None if paid else 0.0


def _print_plan(plan: DryRunPlan, report: LoadReport, same: JobStatus | None) -> None:
    for line in report.lines():
        click.echo(line, err=True)
    stands = "new" if same is None else f"exists already, {describe(same)}"
    eta = f"not known: no job of {plan.scraper_id} has ended here; `--limit 20` tries it out"
    if same is not None and same.state.terminal:
        eta = "none: the job has ended, and the command would only say so"
    elif plan.eta_seconds is not None:
        eta = f"{duration_text(plan.eta_seconds)} at the pace of {plan.eta_from}"
    click.echo(f"job:          {plan.job_id} ({stands})")
    click.echo(f"scraper:      {plan.scraper_id}")
    click.echo(f"rows:         {plan.rows:,}, of which {plan.bad_rows:,} bad and {plan.duplicates:,} duplicates")
    click.echo(f"items:        {plan.items:,}")
    click.echo(f"concurrency:  {plan.concurrency:,}")
    click.echo(f"ETA:          {eta}")
    click.echo(
        f"cost:         {'not known before some of it has run' if plan.cost is None else format(plan.cost, 'g')}"
    )

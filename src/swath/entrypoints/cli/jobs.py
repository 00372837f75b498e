"""`swath jobs create|list|status|verify`: jobs in the store, whoever runs them."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from swath.bootstrap import make_registry, open_services
from swath.domain.errors import StoreDamaged
from swath.domain.job import Counts, JobStatus
from swath.domain.transitions import JobState
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.intake import Order, job_options, take_in
from swath.entrypoints.cli.output import command, describe, print_json, print_table, span
from swath.entrypoints.cli.progress import watching
from swath.entrypoints.cli.session import begin, run_async
from swath.pipeline.finish.verify import Problem, ProblemCode, VerifyReport, verify
from swath.settings import Settings

__all__ = ["jobs"]

MOST_PROBLEMS = 50


@click.group()
def jobs() -> None:
    """Create, list, look at and verify jobs."""


@jobs.command()
@job_options
def create(order: Order) -> None:
    """Load a job into the store; `swath worker` runs it."""
    settings = begin()
    status = run_async(_create(settings, order))
    if order.as_json:
        print_json(status.as_json())
    else:
        click.echo(f"job {status.job.job_id} is {describe(status)}; run it with `{command('worker')}`")


async def _create(settings: Settings, order: Order) -> JobStatus:
    async with open_services(settings) as services, watching(quiet=order.quiet or order.as_json) as display:
        return await take_in(services, make_registry(settings), order, display, asyncio.Event())


@jobs.command("list")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="The newest so many.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(limit: int, as_json: bool) -> None:
    """List jobs, the newest first."""
    found = run_async(_list(begin(), limit))
    if as_json:
        print_json([status.as_json() for status in found])
        return
    print_table(
        ("job", "status", "done", "failed", "items/s", "ETA", "scraper"),
        [
            (
                status.job.job_id,
                status.state.value,
                f"{status.counts.ended:,}/{status.counts.total:,}",
                f"{status.counts.failed:,}",
                f"{status.items_per_second:,.1f}",
                span(status.eta_seconds),
                status.job.scraper_id,
            )
            for status in found
        ],
    )


async def _list(settings: Settings, limit: int) -> list[JobStatus]:
    async with open_services(settings) as services:
        return await services.store.jobs(limit=limit)


@jobs.command("status")
@click.argument("job_id", metavar="JOB")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status_(job_id: str, as_json: bool) -> None:
    """Show where a job stands."""
    status, location = run_async(_status(begin(), job_id))
    if as_json:
        print_json(status.as_json())
        return
    click.echo(f"job {job_id} is {describe(status)}")
    if not status.state.terminal:
        click.echo(f"{status.items_per_second:,.1f} items/s, ETA {span(status.eta_seconds)}")
    click.echo(f"results: {location}")


async def _status(settings: Settings, job_id: str) -> tuple[JobStatus, str]:
    async with open_services(settings) as services:
        return await services.store.status(job_id), services.storage.location(job_id)


@jobs.command("verify")
@click.argument("job_id", metavar="JOB")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify_(job_id: str, as_json: bool) -> int:
    """Check that store, counters, manifest and artifacts agree. Exits 8 and lists what does not."""
    try:
        report = run_async(_verify(begin(), job_id))
    except StoreDamaged as damage:
        report = _damaged(job_id, damage)
    if as_json:
        print_json(_report_json(report))
    else:
        _print_report(job_id, report)
    return ExitCode.COMPLETE if report.ok else ExitCode.VERIFY_FAILED


async def _verify(settings: Settings, job_id: str) -> VerifyReport:
    async with open_services(settings) as services:
        return await verify(services.store, services.storage, job_id)


def _damaged(job_id: str, damage: StoreDamaged) -> VerifyReport:
    """What can be said when the rows themselves cannot be read."""
    code = ProblemCode.STORE_DAMAGED
    return VerifyReport(
        job_id=job_id,
        state=JobState.FAILED,
        counts=Counts(),
        artifacts=0,
        bytes=0,
        unpublished=0,
        problems=(Problem(code, job_id, str(damage)),),
        found={code.value: 1},
    )


def _report_json(report: VerifyReport) -> dict[str, Any]:
    return {"ok": report.ok, **msgspec.to_builtins(report)}


def _print_report(job_id: str, report: VerifyReport) -> None:
    if report.ok:
        checked = f"{report.counts.total:,} items and {report.artifacts:,} artifacts ({report.bytes:,} bytes) agree"
        click.echo(f"job {job_id} verifies: {checked}{'' if report.finished else '; it has not ended'}")
        return
    for problem in report.problems[:MOST_PROBLEMS]:
        click.echo(f"{problem.code}: {problem.where}: {problem.message}")
    found = sum(report.found.values())
    if found > MOST_PROBLEMS:
        click.echo(f"… and {found - MOST_PROBLEMS:,} more")
    click.echo(f"job {job_id} does not verify: {found:,} problems", err=True)

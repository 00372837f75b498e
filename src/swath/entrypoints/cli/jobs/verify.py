"""`swath jobs verify`: whether everything that is known of a job still agrees."""

from __future__ import annotations

import click

from swath.domain.errors import StoreDamaged
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.jobs.results import open_results
from swath.entrypoints.cli.output import print_json
from swath.entrypoints.cli.session import run_async
from swath.pipeline.finish.report import VerifyReport
from swath.settings import Settings

__all__ = ["verify_job"]

MOST_PROBLEMS = 50


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
    for problem in report.problems[:MOST_PROBLEMS]:
        click.echo(f"{problem.code}: {problem.where}: {problem.message}")
    found = sum(report.found.values())
    if found > MOST_PROBLEMS:
        click.echo(f"… and {found - MOST_PROBLEMS:,} more")
    click.echo(f"job {job_id} does not verify: {found:,} problems", err=True)

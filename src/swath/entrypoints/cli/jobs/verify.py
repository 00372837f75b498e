"""`swath jobs verify`: whether everything that is known of a job still agrees."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from swath.bootstrap.services import open_services
from swath.domain.errors import StoreDamaged
from swath.domain.job import Counts
from swath.domain.transitions import JobState
from swath.entrypoints.cli.exit_codes import ExitCode
from swath.entrypoints.cli.output import print_json
from swath.entrypoints.cli.session import run_async
from swath.pipeline.finish.verify import Problem, ProblemCode, VerifyReport, verify
from swath.settings import Settings

__all__ = ["verify_job"]

MOST_PROBLEMS = 50


def verify_job(settings: Settings, job_id: str, *, as_json: bool) -> ExitCode:
    """Prints what does not agree."""
    try:
        report = run_async(_verify(settings, job_id))
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

"""The product's own checker, after the independent count: it must agree."""

from __future__ import annotations

import subprocess

from swath.testing.chaos.findings import Findings, Kind
from swath.testing.chaos.job import ChaosJob

__all__ = ["verify_job"]


def verify_job(job: ChaosJob, findings: Findings) -> int:
    """The exit code of `swath jobs verify`."""
    done = subprocess.run(
        job.command(["jobs", "verify", job.job_id]), env=job.environment(), capture_output=True, text=True, check=False
    )
    said = (done.stdout + done.stderr).strip().splitlines()
    findings.expect(
        done.returncode == 0, Kind.WRONG, f"jobs verify {job.job_id}", f"code {done.returncode}: {said[-1:]}"
    )
    return done.returncode

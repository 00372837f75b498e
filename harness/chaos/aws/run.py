"""One storm from the first server to the last count: makes the jobs, lets storm.py loose, and has everything checked.

Before: __main__.py has the servers and the options. After: report.py shows the figures.
"""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from harness.chaos.aws.chaos_run import ChaosPlan
from harness.chaos.aws.check import check
from harness.chaos.aws.disturbed_run import DisturbancePlan, DisturbedRun
from harness.chaos.aws.job import AwsJob, make_job
from harness.chaos.aws.job_parts import shared_out
from harness.chaos.aws.queue_messages import Messages, injected
from harness.chaos.aws.report import Figures
from harness.chaos.aws.site import read_log, served
from harness.chaos.aws.site_rate import measure_site_rates
from harness.chaos.aws.sizes import BUCKET_RATES, Size
from harness.chaos.findings import Findings, Kind
from harness.fakes.aws import Endpoints

__all__ = ["Setting", "run_storm"]


@dataclass(frozen=True)
class Setting:
    """Where a storm takes place."""

    folder: Path
    endpoints: Endpoints
    broken: str | None
    seed: int

    @property
    def site_log(self) -> Path:
        """What the site saw."""
        return self.folder / "site.log"

    @property
    def denied(self) -> Path:
        """What the forwarder in front of the bucket refuses now."""
        return self.folder / "denied.json"

    def environment(self, job: AwsJob, size: Size) -> dict[str, str]:
        """What arms the workers, and whoever orders jobs."""
        return {
            "SWATH_FAULTS": msgspec.json.encode(size.rates).decode(),
            "SWATH_FAULTS_SEED": str(self.seed),
            "SWATH_FAULTS_LOG": str(job.faults),
            **({"SWATH_BROKEN": self.broken} if self.broken else {}),
        }

    def plan(self, job: AwsJob, size: Size) -> ChaosPlan:
        """Without the fence jobs may never end, and nobody needs to wait long to know."""
        return ChaosPlan(
            kills=size.kills,
            freezes=size.freezes,
            processes=size.processes,
            seed=self.seed,
            stall_seconds=12.0 if self.broken else size.stall_seconds,
            environment=self.environment(job, size),
        )


def run_storm(setting: Setting, size: Size, findings: Findings, figures: Figures) -> None:
    """What is wrong is among the findings, what was counted among the figures."""
    with _made(setting, size) as job:
        disturbed = DisturbancePlan() if setting.broken else size.disturbed
        plan = setting.plan(job, size)
        storm = DisturbedRun(job, plan, findings, disturbed=disturbed, denied=setting.denied)
        _must(job, job.command(["aws", "init"]))
        _must(job, job.command(job.create_arguments(job.parts[0]), armed=True), storm.plan.environment)
        storm.run()
    job = storm.all_jobs
    checked = check(job, storm.killed_pids)
    findings.take(checked.findings, "check")
    faults = injected(job.faults)
    messages = Messages.of(faults)
    if size.must_lose_messages:
        messages.judge(findings)
    figures.add_storm(storm, checked, faults, _verify(job, findings))
    figures.messages = asdict(messages)
    seen, lag_seconds = read_log(setting.site_log)
    visits = measure_site_rates(seen, storm.strikes, size.site, lag_seconds)
    findings.expect(visits.well(size.site), Kind.WRONG, "the site", f"its policy was not kept: {asdict(visits)}")
    figures.add_pace(job, visits)


@contextmanager
def _made(setting: Setting, size: Size) -> Iterator[AwsJob]:
    """The jobs, while the site and the bucket are there for them."""
    rates = msgspec.json.encode(BUCKET_RATES).decode()
    bucket = ("bucket", setting.endpoints.s3_url, str(setting.seed), rates, str(setting.denied))
    county = ("county", str(setting.site_log), str(size.site.page_ms))
    with served(*county) as site_url, served(*bucket) as bucket_url:
        yield make_job(
            AwsJob(
                folder=setting.folder / "job",
                items=size.items,
                parts=shared_out(size.items, 2 * size.site.concurrency),
                name=f"chaos-{secrets.token_hex(3)}",
                endpoints=setting.endpoints,
                site=size.site,
                site_url=site_url,
                detours={"AWS_ENDPOINT_URL_S3": bucket_url},
            )
        )


def _must(job: AwsJob, command: list[str], more: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=job.environment(more), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[2:]}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def _verify(job: AwsJob, findings: Findings) -> int:
    """The product's own checker must agree with ours, of every job; the worst of its exit codes."""
    done = subprocess.run(
        job.commands,
        input="".join(json.dumps(["jobs", "verify", part.job_id]) + "\n" for part in job.parts),
        env=job.environment(direct=True),
        capture_output=True,
        text=True,
        check=False,
    )
    agreed = sum(" verifies: " in line for line in done.stdout.splitlines())
    fine = done.returncode == 0 and agreed == len(job.parts)
    told = f"{agreed} of {len(job.parts)} jobs verify, code {done.returncode}: {done.stderr.splitlines()[-1:]}"
    findings.expect(fine, Kind.WRONG, "jobs verify", told)
    return done.returncode

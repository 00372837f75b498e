"""`python -m swath.testing.chaos_aws` (`make chaos-aws`): a storm on the local AWS servers, then the count.

`--outages` takes store, queue and bucket away for a minute each instead. Exits 0 when nothing was lost, counted twice,
torn, left about or wrong and the site's policy was kept, and 1 otherwise; `--help` names the options.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from swath.testing.aws_faults import Rates
from swath.testing.aws_s3_faults import S3Rates
from swath.testing.aws_servers import Endpoints, running_servers
from swath.testing.chaos import interruption
from swath.testing.chaos.findings import Findings, Kind
from swath.testing.chaos_aws import report
from swath.testing.chaos_aws.check import check
from swath.testing.chaos_aws.job import JOB_ID, AwsJob, SitePlan, make_job
from swath.testing.chaos_aws.outages import run_outages
from swath.testing.chaos_aws.pace import paced
from swath.testing.chaos_aws.site import read_log, served
from swath.testing.chaos_aws.storm import Storm, StormPlan

__all__ = ["main"]

PRINTED: Final = 20
RATES: Final = Rates(
    throttled=0.01,
    conflict=0.01,
    server_error=0.005,
    lost_answer=0.005,
    unprocessed=0.1,
    lost=0.01,
    duplicated=0.05,
    late=0.05,
    reordered=0.05,
)
BUCKET_RATES: Final = S3Rates(slow_down=0.01, server_error=0.005, cut_request=0.002, cut_answer=0.002, withheld=0.002)


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a form of the run differs by; options replace single values."""

    items: int
    kills: int
    freezes: int
    processes: int
    site: SitePlan
    stall_seconds: float
    outage_seconds: float


# What the policies allow is less than the workers could do, or nothing would be shown about them.
FULL: Final = Size(
    items=20_000,
    kills=100,
    freezes=20,
    processes=4,
    site=SitePlan(rate=30.0, concurrency=8, page_ms=150.0),
    stall_seconds=300.0,  # suspects run alone, and a busy machine takes its time
    outage_seconds=60.0,
)
SHORT: Final = Size(
    items=180,
    kills=3,
    freezes=1,
    processes=4,
    site=SitePlan(rate=15.0, concurrency=4, page_ms=150.0),
    stall_seconds=40.0,
    outage_seconds=6.0,
)


def main(arguments: list[str] | None = None) -> int:
    """Runs what the options ask for, prints a table, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    interruption.install()  # so that processes are ended on the way out
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="swath-chaos-aws-", dir=options.folder))
    findings, began = Findings(), time.monotonic()
    figures = report.Figures(command=_command_line(options, seed), seed=seed)
    print(f"chaos on AWS in {folder}, seed {seed}", flush=True)
    with running_servers() as servers:
        if options.outages:
            figures.outages = run_outages(folder, servers.endpoints, _size(options).outage_seconds, findings)
        else:
            _storm(_Setting(folder, servers.endpoints, options.broken, seed), _size(options), findings, figures)
    figures.finish(findings, time.monotonic() - began)
    _tell(options, figures, findings)
    if findings.clean and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"everything is left in {folder}")
    return 0 if findings.clean else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m swath.testing.chaos_aws", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--short", action="store_true", help="the small form, which is part of the tests")
    parser.add_argument("--outages", action="store_true", help="take store, queue and bucket away instead of workers")
    parser.add_argument("--items", type=int, metavar="N", help=f"items of the job ({FULL.items:,})")
    parser.add_argument("--kills", type=int, metavar="N", help=f"kill -9 at random times ({FULL.kills})")
    parser.add_argument("--freezes", type=int, metavar="N", help=f"SIGSTOP beyond the lease ({FULL.freezes})")
    parser.add_argument("--processes", type=int, metavar="N", help=f"worker processes ({FULL.processes})")
    parser.add_argument("--seed", type=int, metavar="S", help="of whom is struck when; printed when chosen by chance")
    parser.add_argument("--broken", choices=["fence"], help="switch a guard off: the run must then find problems")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the run's folder is made (the system's own)")
    parser.add_argument("--keep", action="store_true", help="leave the folder there after a clean run too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")
    return parser


def _size(options: argparse.Namespace) -> Size:
    names = ("items", "kills", "freezes", "processes")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    return replace(SHORT if options.short else FULL, **given)


def _command_line(options: argparse.Namespace, seed: int) -> str:
    """What makes the same run again; where its files and figures go does not matter."""
    names = ("short", "outages", "items", "kills", "freezes", "processes", "broken")
    given = [(name, getattr(options, name)) for name in names]
    words = [f"--{name}" if value is True else f"--{name} {value}" for name, value in given if value]
    return f'make chaos-aws ARGS="{" ".join([*words, f"--seed {seed}"])}"'


@dataclass(frozen=True)
class _Setting:
    """Where a storm takes place."""

    folder: Path
    endpoints: Endpoints
    broken: str | None
    seed: int

    def environment(self, faults: Path) -> dict[str, str]:
        """What arms the workers."""
        return {
            "SWATH_FAULTS": msgspec.json.encode(RATES).decode(),
            "SWATH_FAULTS_SEED": str(self.seed),
            "SWATH_FAULTS_LOG": str(faults),
            **({"SWATH_BROKEN": self.broken} if self.broken else {}),
        }


def _storm(setting: _Setting, size: Size, findings: Findings, figures: report.Figures) -> None:
    site_log = setting.folder / "site.log"
    bucket = ("bucket", setting.endpoints.s3_url, str(setting.seed), msgspec.json.encode(BUCKET_RATES).decode())
    with ExitStack() as stack:
        site_url = stack.enter_context(served("county", str(site_log), str(size.site.page_ms)))
        bucket_url = stack.enter_context(served(*bucket))
        named = AwsJob(
            folder=setting.folder / "job",
            items=size.items,
            name=f"chaos-{secrets.token_hex(3)}",
            endpoints=setting.endpoints,
            site=size.site,
            site_url=site_url,
            detours={"AWS_ENDPOINT_URL_S3": bucket_url},
        )
        job = make_job(named, concurrency=2 * size.site.concurrency)
        armed = setting.environment(job.faults)
        _must(job, job.command(["aws", "init"]))
        _must(job, job.command(job.create_arguments, armed=True), armed)
        plan = StormPlan(
            kills=size.kills,
            freezes=size.freezes,
            processes=size.processes,
            seed=setting.seed,
            stall_seconds=12.0 if setting.broken else size.stall_seconds,
            environment=armed,
        )
        storm = Storm(job, plan, findings)
        storm.run()
    checked = check(job)
    findings.take(checked.findings, "check")
    figures.add_storm(job, storm, checked, _verify(job, findings))
    seen, lag_seconds = read_log(site_log)
    visits = paced(seen, storm.strikes, size.site, lag_seconds)
    findings.expect(visits.well(size.site), Kind.WRONG, "the site", f"its policy was not kept: {asdict(visits)}")
    figures.add_pace(job, visits)


def _must(job: AwsJob, command: list[str], more: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=job.environment(more), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[2:]}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def _verify(job: AwsJob, findings: Findings) -> int:
    """The product's own checker must agree with ours."""
    done = subprocess.run(
        job.command(["jobs", "verify", JOB_ID]),
        env=job.environment(direct=True),
        capture_output=True,
        text=True,
        check=False,
    )
    said = (done.stdout + done.stderr).strip().splitlines()
    findings.expect(done.returncode == 0, Kind.WRONG, "jobs verify", f"code {done.returncode}: {said[-1:]}")
    return done.returncode


def _tell(options: argparse.Namespace, figures: report.Figures, findings: Findings) -> None:
    print(report.table(figures))
    for problem in findings.problems[:PRINTED]:
        print(problem)
    if (more := findings.found.total() - PRINTED) > 0:
        print(f"… and {more:,} more")
    if options.json:
        options.json.write_text(json.dumps(asdict(figures), indent=2) + "\n", encoding="utf-8")
    if options.page:
        report.write_page(options.page, figures)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m harness.chaos` (`make chaos`): a storm over one large job, then every named point, then the count.

Exits 0 when nothing was lost, counted twice, torn, left about or wrong, and 1 otherwise; `--help` names the options.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path

from harness import interruption
from harness.chaos import report
from harness.chaos.chaos_run import ChaosPlan
from harness.chaos.check import check, verify_job
from harness.chaos.crash_runs import cases, retry_cases, run_cases
from harness.chaos.disturbed_run import DisturbancePlan, DisturbedRun
from harness.chaos.findings import Findings, add_options, conclude
from harness.chaos.job import make_job
from harness.chaos.user_actions import UserActionPlan
from swath.observability.crash_points import ENDING_POINTS, POINTS

__all__ = ["main"]


DISTURBANCES = tuple(kind.name for kind in fields(DisturbancePlan))


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a form of the run differs by; options replace single values."""

    items: int
    kills: int
    stops: int
    freezes: int
    load_kills: int
    ending_kills: int
    workers: int
    concurrency: int
    mean_seconds: float
    hits: int
    stall_seconds: float
    orders: UserActionPlan
    disturbed: DisturbancePlan
    retried_points: tuple[int, int]  # in the ending, and elsewhere


FULL = Size(
    items=100_000,
    kills=1_030,  # those aimed at the load and the ending may find no moment, and 1,000 must be made
    stops=100,
    freezes=120,
    load_kills=20,
    ending_kills=10,
    workers=6,
    concurrency=32,
    mean_seconds=0.15,
    hits=5,
    stall_seconds=300.0,  # the last kills may fall on the ending, and a busy machine takes its time over each
    orders=UserActionPlan(pauses=30, policies=30, cancels=6, retries=3),
    disturbed=DisturbancePlan(points=30, presence=40, clocks=40, poison=5, folders=10),
    retried_points=(len(ENDING_POINTS), len(POINTS)),
)
SHORT = Size(
    items=1_500,
    kills=15,
    stops=2,
    freezes=3,
    load_kills=2,
    ending_kills=1,
    workers=4,
    concurrency=16,
    mean_seconds=0.05,
    hits=1,
    stall_seconds=120.0,
    orders=UserActionPlan(pauses=2, policies=2, cancels=1, retries=1),
    disturbed=DisturbancePlan(points=1, presence=3, clocks=6, poison=1, folders=1),
    retried_points=(4, 1),
)


def main(arguments: list[str] | None = None) -> int:
    """Runs what the options ask for, prints a table, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    interruption.install()  # so that processes are ended on the way out
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="swath-chaos-", dir=options.folder))
    findings = Findings()
    began = time.monotonic()
    figures = report.Figures(command=report.command_line(vars(options), seed), seed=seed)
    print(f"chaos in {folder}, seed {seed}", flush=True)
    if options.part != "points":
        _storm(folder / "storm", options, seed, findings, figures)
    if options.part != "storm" and not options.broken:
        _points(folder / "points", options, seed, findings, figures)
    figures.finish(findings, time.monotonic() - began)
    return conclude(
        options,
        folder,
        findings,
        table=report.table(figures),
        figures=figures.as_json(),
        write_page=lambda page: report.write_page(page, figures),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.chaos", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="the small form, which is part of the tests")
    parser.add_argument("--items", type=int, metavar="N", help=f"items of the job ({FULL.items:,})")
    parser.add_argument("--kills", type=int, metavar="N", help=f"kill -9 at random times ({FULL.kills:,})")
    parser.add_argument("--stops", type=int, metavar="N", help=f"SIGTERM at random times ({FULL.stops})")
    parser.add_argument("--freezes", type=int, metavar="N", help=f"SIGSTOP beyond the lease ({FULL.freezes})")
    parser.add_argument("--workers", type=int, metavar="N", help=f"processes, `swath run` among them ({FULL.workers})")
    parser.add_argument("--seed", type=int, metavar="S", help="of whom is struck when; printed when chosen by chance")
    parser.add_argument("--part", choices=["storm", "points"], help="only one half")
    parser.add_argument("--layout", choices=["files", "warc"], default="files", help="of the results")
    kinds = [*DISTURBANCES, "none"]
    parser.add_argument("--disturb", nargs="+", choices=kinds, help="only these disturbances beside the signals")
    parser.add_argument("--broken", choices=["fence"], help="switch a guard off: the run must then find problems")
    add_options(parser)
    return parser


def _size(options: argparse.Namespace) -> Size:
    size = SHORT if options.short else FULL
    names = ("items", "kills", "stops", "freezes", "workers")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    return replace(size, **given)


def _storm(folder: Path, options: argparse.Namespace, seed: int, findings: Findings, figures: report.Figures) -> None:
    size = _size(options)
    job = make_job(
        folder,
        items=size.items,
        mean_seconds=size.mean_seconds,
        concurrency=size.concurrency,
        layout=options.layout,
    )
    plan = ChaosPlan(
        kills=size.kills,
        stops=size.stops,
        freezes=size.freezes,
        workers=size.workers,
        seed=seed,
        load_kills=min(size.load_kills, size.kills),
        ending_kills=size.ending_kills,
        stall_seconds=8.0 if options.broken else size.stall_seconds,
        orders=UserActionPlan() if options.broken else size.orders,
        broken=options.broken,
    )
    storm = DisturbedRun(job, plan, findings, disturbed=_disturbed(size, options), mean_seconds=size.mean_seconds)
    storm.run()
    checked = check(job, storm.killed_pids)
    findings.take(checked.findings, "check")
    code = verify_job(job, findings)
    for neighbour in storm.place.jobs.values():
        findings.take(check(neighbour, storm.killed_pids).findings, neighbour.job_id)
        code = max(code, verify_job(neighbour, findings))
    figures.add_storm(storm, checked, code)


def _disturbed(size: Size, options: argparse.Namespace) -> DisturbancePlan:
    """Of the kinds that the options leave; none when a guard is off, which has to be found out by itself."""
    wanted = () if options.broken else (options.disturb or DISTURBANCES)
    return replace(size.disturbed, **{kind: 0 for kind in DISTURBANCES if kind not in wanted})


def _points(folder: Path, options: argparse.Namespace, seed: int, findings: Findings, figures: report.Figures) -> None:
    size = _size(options)
    chosen = cases(size.hits, freeze=True, layout=options.layout)
    chosen += retry_cases(seed, *size.retried_points, layout=options.layout)
    began = time.monotonic()
    before = findings.found.total()
    asyncio.run(run_cases(folder, chosen, findings))
    figures.add_points(chosen, findings.found.total() - before, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())

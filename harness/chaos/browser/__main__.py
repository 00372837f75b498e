"""`python -m harness.chaos.browser` (`make chaos-browser`): one job in browsers that are killed all the time.

Exits 0 when nothing was lost, counted twice, stuck, torn, left behind or wrong, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from harness import interruption
from harness.chaos.browser import report
from harness.chaos.browser.browser_killer import KillPlan
from harness.chaos.browser.chaos_run import BrowserChaosRun
from harness.chaos.browser.check import check_attempts, check_left_behind, check_memory
from harness.chaos.browser.job import make_browser_job
from harness.chaos.browser.pages import stored
from harness.chaos.browser.site import ChaosSite
from harness.chaos.chaos_run import ChaosPlan
from harness.chaos.check import check, verify_job
from harness.chaos.findings import Findings, add_options, conclude
from harness.chaos.job import ChaosJob
from harness.chaos.user_actions import UserActionPlan
from swath.fetch.browser.chromium.orphans import reap
from swath.fetch.browser.chromium.process_tag import family_of

__all__ = ["main"]

MEASURED_ITEMS = 1_000  # fewer are over before memory could show anything


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a form of the run differs by."""

    items: int
    workers: int
    concurrency: int
    worker_kills: int
    worker_stops: int
    hunted: KillPlan
    stall_seconds: float


FULL = Size(
    items=2_000,
    workers=2,
    concurrency=4,
    worker_kills=4,
    worker_stops=2,
    hunted=KillPlan(browsers=26, renderers=24, drivers=6, frozen=4),
    stall_seconds=180.0,
)
SHORT = Size(
    items=50,
    workers=2,
    concurrency=4,
    worker_kills=1,
    worker_stops=0,
    hunted=KillPlan(browsers=4, renderers=2, drivers=1, frozen=0),
    stall_seconds=60.0,
)


def main(arguments: list[str] | None = None) -> int:
    """Runs it, prints a table, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    interruption.install()  # so that processes are ended on the way out
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    size = SHORT if options.short else FULL
    size = size if options.items is None else replace(size, items=options.items)
    folder = Path(tempfile.mkdtemp(prefix="swath-chaos-", dir=options.folder))
    findings, figures = Findings(), report.Figures(command=_command(options, seed))
    print(f"chaos in {folder}, seed {seed}", flush=True)
    with ChaosSite(size.items) as site:
        job = make_browser_job(folder / "job", items=size.items, site=site.base_url, concurrency=size.concurrency)
        try:
            _run(job, size, seed, options.broken, findings, figures)
        finally:
            reap(family_of(job.data))  # what a broken or interrupted run leaves in the system's folder
    figures.finish(findings)
    return conclude(
        options,
        folder,
        findings,
        table=report.table(figures),
        figures=figures.as_json(),
        write_page=lambda page: report.write_page(page, figures),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.chaos.browser", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--short", action="store_true", help="the small form, which is part of the tests")
    parser.add_argument("--items", type=int, metavar="N", help=f"items of the job ({FULL.items:,})")
    parser.add_argument("--seed", type=int, metavar="S", help="of whom is struck when; printed when chosen by chance")
    parser.add_argument("--broken", choices=["replacement", "reaper"], help="switch a guard off: it must be found out")
    add_options(parser)
    return parser


def _command(options: argparse.Namespace, seed: int) -> str:
    words = ["--short"] if options.short else []
    words += [f"--{name} {value}" for name in ("items", "broken") if (value := getattr(options, name))]
    return f'make chaos-browser ARGS="{" ".join([*words, f"--seed {seed}"])}"'


def _run(job: ChaosJob, size: Size, seed: int, broken: str | None, findings: Findings, figures: report.Figures) -> None:
    plan = ChaosPlan(
        kills=size.worker_kills,
        stops=size.worker_stops,
        freezes=0,
        workers=size.workers,
        seed=seed,
        load_kills=0,
        ending_kills=0,
        stall_seconds=20.0 if broken else size.stall_seconds,
        orders=UserActionPlan(),
        broken=broken,
        last_percent=75,  # whoever comes in the place of a killed worker needs work, to clear away what is left of it
    )
    storm = BrowserChaosRun(job, plan, findings, hunted=size.hunted)
    storm.run()
    check_left_behind(job.data, findings)
    checked = check(job, storm.killed_pids, stored)
    findings.take(checked.findings, "check")
    figures.add_storm(storm, checked, check_attempts(job, findings))
    if size.items >= MEASURED_ITEMS:
        figures.growth = check_memory(storm.memory, size.items, findings)
    figures.verify_exit_code = verify_job(job, findings)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m harness.recordings` (`make recordings`): one imported recording over many parcels, beside a scraper
that was written by hand, on a county that spoils some of its answers.

Exits 0 when every item came to what the county knows and every failure names the step that failed, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness import interruption
from harness.bench.browser_cost import inherit_orphans
from harness.chaos.findings import Findings, Kind, add_options, conclude
from harness.recordings import report
from harness.recordings.check import check_outcomes, check_steps
from harness.recordings.flow import make_flow
from harness.recordings.jobs import CountyJob, ItemResult
from harness.recordings.site import injected_faults, served
from swath.fetch.browser.chromium.orphans import reap
from swath.fetch.browser.chromium.process_tag import family_of
from swath.recordings.document import read_recording

__all__ = ["main"]

BY_HAND: Final = "demo-county-browser"


@dataclass(frozen=True, kw_only=True)
class Size:
    """What a form of the run differs by. `by_hand`: so many of the items at most are run by hand too, to compare with.
    `patience_seconds` is how long a step waits for what was spoiled."""

    items: int
    by_hand: int
    concurrency: int = 4
    failure_rate: float = 0.05
    patience_seconds: float = 6.0


FULL: Final = Size(items=1_000, by_hand=1_000)
SHORT: Final = Size(items=20, by_hand=10)


def main(arguments: list[str] | None = None) -> int:
    """Runs it, prints a table, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    interruption.install()  # so that processes are ended on the way out
    inherit_orphans()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    size = SHORT if options.short else FULL
    size = replace(
        size, **{name: value for name in ("items", "failure_rate") if (value := getattr(options, name)) is not None}
    )
    folder = Path(tempfile.mkdtemp(prefix="swath-recordings-", dir=options.folder))
    findings = Findings()
    figures = report.Figures(
        command=_command(options, seed), items=size.items, failure_rate=size.failure_rate, concurrency=size.concurrency
    )
    print(f"recordings in {folder}, seed {seed}", flush=True)
    try:
        _run(folder, size, seed, findings, figures)
    finally:
        for job in ("recording", "by-hand"):
            reap(family_of(folder / job / "data"))  # what an interrupted run leaves in the system's folder
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
        prog="python -m harness.recordings", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("--short", action="store_true", help="the small form, which is part of the tests")
    parser.add_argument("--items", type=int, metavar="N", help=f"parcels of each job ({FULL.items:,})")
    parser.add_argument("--failure-rate", type=float, metavar="SHARE", help=f"answers spoiled ({FULL.failure_rate})")
    parser.add_argument("--seed", type=int, metavar="S", help="of what is spoiled; printed when chosen by chance")
    add_options(parser)
    return parser


def _command(options: argparse.Namespace, seed: int) -> str:
    words = ["--short"] if options.short else []
    if options.items is not None:
        words.append(f"--items {options.items}")
    if options.failure_rate is not None:
        words.append(f"--failure-rate {options.failure_rate}")
    return f'make recordings ARGS="{" ".join([*words, f"--seed {seed}"])}"'


def _run(folder: Path, size: Size, seed: int, findings: Findings, figures: report.Figures) -> None:
    """The recording first; each has a county of its own, with the same luck."""
    parcels = [f"{501 + number // 1_000}-22-{number % 1_000:03}" for number in range(size.items)]
    jobs = (
        ("recording", "an imported recording", parcels),
        ("by-hand", f"{BY_HAND}, by hand", parcels[: size.by_hand]),
    )
    for name, told, wanted in jobs:
        here, log = folder / name, folder / f"{name}.log"
        here.mkdir()
        with served(log, size.failure_rate, seed) as site:
            flow = make_flow(here, site, size.patience_seconds) if name == "recording" else None
            job = CountyJob(
                here,
                BY_HAND if flow is None else str(flow),
                site,
                concurrency=size.concurrency,
                patience_seconds=size.patience_seconds,
            )
            cost = job.run(wanted)
        came, spoilt = job.came_to(), injected_faults(log)
        found = Findings()
        ended = check_outcomes(wanted, came, found, fails=bool(spoilt))
        if flow is not None:
            figures.failed_steps = check_steps(read_recording(flow), came, spoilt, found)
            figures.spoilt = dict(Counter(kind for kind, _ in spoilt.elements()))
        code = job.verify()
        found.expect(code == 0, Kind.WRONG, "jobs verify", f"exit code {code}")
        findings.take(found, told)
        figures.ran.append(report.JobFigures.of(told, ended, _failed_attempts(came), cost, code))
        print(f"  {told}: {figures.ran[-1].items_per_second:.2f} items/s", flush=True)


def _failed_attempts(came: dict[str, ItemResult]) -> int:
    return sum(len(item.failures) for item in came.values())


if __name__ == "__main__":
    sys.exit(main())

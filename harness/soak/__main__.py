"""`python -m harness.soak` (`make soak`): a million items, measured against bare loops and against a small job.

Exits 0 when nothing was lost and every aim was met, 1 otherwise. A run of few items is only counted, not judged.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from harness import interruption
from harness.processes import dying_with_parent
from harness.soak import measured_run, report
from harness.soak.aims import JUDGED_ITEMS, LOADS, aims_of
from harness.soak.job import SoakJob

__all__ = ["main"]

SMALL_ITEMS: Final = 10_000
LOAD_TRIALS: Final = 2
LOOK_SECONDS: Final = 0.05


def main(arguments: list[str] | None = None) -> int:
    """Runs everything, prints a table, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    interruption.install()  # so that processes are ended on the way out
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="swath-soak-", dir=options.folder))
    print(f"soak in {folder}", flush=True)
    figures = _soak(folder, options)
    print(report.table(figures))
    if options.json:
        options.json.write_text(json.dumps(figures.as_json(), indent=2) + "\n", encoding="utf-8")
    if options.page:
        report.write_page(options.page, figures)
    if options.chart:
        options.chart.write_text(report.draw(figures.large, figures.items), encoding="utf-8")
    judged = figures.items >= JUDGED_ITEMS
    good = not figures.problems and (not judged or all(aim.met for aim in figures.aims))
    if not judged:
        print(f"  below {JUDGED_ITEMS:,} items the ratios say little, and are not judged")
    if figures.problems or options.keep:
        print(f"everything is left in {folder}")
    else:
        shutil.rmtree(folder)
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=1_000_000, metavar="N", help="items of the large job (1,000,000)")
    parser.add_argument("--small", type=int, default=SMALL_ITEMS, metavar="N", help="of the small one (10,000)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="worker processes (2)")
    parser.add_argument("--kills", type=int, default=5, metavar="N", help="workers killed during the large job (5)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the files are made (the system's own)")
    parser.add_argument("--keep", action="store_true", help="leave the files there after a clean run too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="write the picture, as SVG")
    return parser


def _soak(folder: Path, options: argparse.Namespace) -> report.Figures:
    began = time.monotonic()
    steps: dict[str, dict[str, Any]] = {}
    for suffix in LOADS.values():
        steps |= _load_trials(folder / "load", options.items, suffix)
    small = _run(steps, SoakJob(folder=folder / "small", items=options.small), options.workers, 0, suffix="-small")
    job = SoakJob(folder=folder / "large", items=options.items)
    large = _run(steps, job, options.workers, options.kills, suffix="-large")
    _take(steps, job, "bare-manifests", "verify", "count", suffix="")
    return report.Figures(
        command=_command_line(options),
        items=options.items,
        workers=options.workers,
        aims=aims_of(steps, small, large),
        problems=_problems(steps),
        steps=steps,
        large=large,
        seconds=round(time.monotonic() - began, 1),
    )


def _load_trials(folder: Path, items: int, suffix: str) -> dict[str, dict[str, Any]]:
    """The best of some loads and bare loops in turn: the machine may be busy with something else for a while."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(LOAD_TRIALS):
        job, answers = SoakJob(folder=folder, items=items), dict[str, dict[str, Any]]()
        job.write_items(shuffled=suffix == LOADS["shuffled"])
        _take(answers, job, "bare-load", "load", suffix=suffix)
        best = {name: min(answer, best.get(name, answer), key=_seconds) for name, answer in answers.items()}
        shutil.rmtree(folder)
    return best


def _seconds(answer: dict[str, Any]) -> float:
    return float(answer["seconds"])


def _run(steps: dict[str, dict[str, Any]], job: SoakJob, workers: int, kills: int, *, suffix: str) -> measured_run.Run:
    job.write_items()
    _take(steps, job, "load", "store-work", suffix=suffix)
    print(f"  {job.items:,} items, {workers} workers", flush=True)
    return measured_run.run(job, workers, kills)


def _take(steps: dict[str, dict[str, Any]], job: SoakJob, *names: str, suffix: str) -> None:
    """Runs steps, each in a process of its own, and keeps what they answer."""
    for name in names:
        steps[name + suffix] = _watched(job, name)
        print(f"  {name}{suffix}: {steps[name + suffix]['seconds']:,.1f} s", flush=True)


def _watched(job: SoakJob, name: str) -> dict[str, Any]:
    log_bytes = 0
    with subprocess.Popen(
        job.command(name),
        env=job.environment(),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=dying_with_parent(),  # noqa: PLW1509 the supervisor has one thread
    ) as process:
        while process.poll() is None:
            log_bytes = max(log_bytes, job.log_bytes())
            time.sleep(LOOK_SECONDS)
        said = "" if process.stdout is None else process.stdout.read()
    if process.returncode:
        raise SystemExit(f"the step {name} ended with code {process.returncode}; everything is left in {job.folder}")
    return {**json.loads(said.splitlines()[-1]), "log_bytes": log_bytes}


def _problems(steps: dict[str, dict[str, Any]]) -> list[str]:
    problems: list[str] = list(steps["count"]["problems"])
    if not steps["verify"]["ok"]:
        problems.append(f"verify found {steps['verify']['found']}")
    if not steps["bare-manifests"]["same_bytes"]:
        problems.append("the bare loop made other manifest parts than the product")
    return problems


def _command_line(options: argparse.Namespace) -> str:
    words = f"--items {options.items} --workers {options.workers} --kills {options.kills}"
    return f'make soak ARGS="{words}"'


if __name__ == "__main__":
    sys.exit(main())

"""`python -m harness.simulate` (`make simulate`): a fleet on a fake clock, with the store's own dispatch code.

Exits 0 when every limit held, every item ended once and nobody starved, and 1 otherwise; `--help` names the options.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
from pathlib import Path
from typing import Final

import msgspec

from harness.simulate import report
from harness.simulate.plan import FULL, SHORT, Size, make_plan
from harness.simulate.simulation import DisabledRule, simulate
from harness.simulate.world import World

__all__ = ["main"]

PRINTED: Final = 20
TELL_SECONDS: Final = 60  # of fake time
GC_THRESHOLD: Final = (200_000, 50, 100)  # a million of living objects are not to be looked through all the time
SIZES: Final = ("workers", "items", "jobs", "sites", "kills", "items_at_once")


def main(arguments: list[str] | None = None) -> int:
    """Runs what the options ask for, prints a table, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    print(f"simulation, seed {seed}", flush=True)
    gc.set_threshold(*GC_THRESHOLD)
    broken = None if options.broken is None else DisabledRule(options.broken)
    simulated = asyncio.run(simulate(make_plan(_size(options), seed), broken, _tell))
    figures = report.figures_of(simulated, _command_line(options, seed))
    print(report.table(figures))
    for problem in figures.problems[:PRINTED]:
        print(problem)
    if (more := len(figures.problems) - PRINTED) > 0:
        print(f"… and {more:,} more")
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")
    if options.page:
        report.write_page(options.page, figures)
    return 1 if figures.problems else 0


def _tell(world: World) -> None:
    seconds = round(world.events.elapsed)
    if seconds % TELL_SECONDS == 0:
        ended, there = world.ended, len(world.arrived)
        print(f"  {seconds:,} s: {ended:,} items of {there} jobs ended", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.simulate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="the small form, which is part of the tests")
    for name in SIZES:
        text = f"{name.replace('_', ' ')} ({getattr(FULL, name):,})"
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=text)
    parser.add_argument("--seed", type=int, metavar="S", help="of everything; printed when chosen by chance")
    parser.add_argument(
        "--broken", choices=list(DisabledRule), help="switch a rule off: the run must then find problems"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")
    return parser


def _size(options: argparse.Namespace) -> Size:
    given = {name: value for name in SIZES if (value := getattr(options, name)) is not None}
    return msgspec.structs.replace(SHORT if options.short else FULL, **given)


def _command_line(options: argparse.Namespace, seed: int) -> str:
    """What makes the same run again."""
    words = ["--short"] if options.short else []
    words += [f"--{name.replace('_', '-')} {value}" for name in SIZES if (value := getattr(options, name)) is not None]
    words += [] if options.broken is None else [f"--broken {options.broken}"]
    return f'make simulate ARGS="{" ".join([*words, f"--seed {seed}"])}"'


if __name__ == "__main__":
    sys.exit(main())

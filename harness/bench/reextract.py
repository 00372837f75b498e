"""`make bench-reextract`: how fast stored pages are read again in one process, against a bare parse loop over the same.

The pages are the benchmark's own, stored by a real run from memory, in each layout. Then the real command reads them
again, one and all of them: the difference is what pages cost, without the start of a process. It includes loading,
leases, commits, manifests and the diff. A sample of more would not do: looking for its items costs more than loading
all, and taken off it would flatter us.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.bench.cost import measured
from harness.bench.run_order import Order
from harness.bench.swath_runs import SCRAPER
from harness.tables import Row, as_text, put_into
from swath.domain.storage_keys import Layout

__all__ = ["Speed", "main"]

AIM: Final = 0.55
JOB_ID: Final = "pages"
_HEAD: Final = ("layout", "pages/s", "bare loop", "ratio", "CPU ms a page", "bare loop", "ratio")
_SWATH: Final = (sys.executable, "-m", "swath.entrypoints.cli.main")


@dataclass(frozen=True)
class Speed:
    """Of one page."""

    seconds: float
    cpu_seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each layout; 1 if the CPU of a page is more than the aim allows."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.reextract", description="make bench-reextract")
    parser.add_argument("--pages", type=int, default=10_000, metavar="N", help="how many (10000)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="of which the median counts (5)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    ratios: list[float] = []
    with tempfile.TemporaryDirectory(prefix="swath-bench-reextract-") as folder:
        for layout in Layout:
            order = _stored(Path(folder) / layout.value, options.pages, layout)
            rounds = [(_read_again(order), _bare(order)) for _ in range(options.rounds)]
            ratio = _ratio(rounds)
            rows.append(
                _row(layout, _median([ours for ours, _ in rounds]), _median([bare for _, bare in rounds]), ratio)
            )
            ratios.append(ratio.cpu_seconds)
    section = (_HEAD, rows)
    print(as_text([section]))
    print(f"  aim: {AIM:.0%} of the bare loop, by CPU, which other work on the machine changes least")
    if options.page:
        put_into(options.page, [section], "reextract")
    return int(min(ratios) < AIM)


def _stored(folder: Path, pages: int, layout: Layout) -> Order:
    """A job that has ended with so many pages."""
    order = Order(folder=folder, items=pages)
    order.write()
    shutil.copy(Path(__file__).with_name(SCRAPER), folder)
    options = ("--job-id", JOB_ID, "--layout", layout.value, "--concurrency", "64", "--quiet")
    command = [*_SWATH, "run", f"./{SCRAPER}", "--items", str(order.items_file), *options]
    measured(command, _environment(order), order.log)
    return order


def _environment(order: Order) -> dict[str, str]:
    return order.environment(SWATH_DATA=str(order.folder / "data"))


def _read_again(order: Order) -> Speed:
    command = [*_SWATH, "jobs", "reextract", JOB_ID, "--scraper", f"./{SCRAPER}", "--quiet"]
    less = measured([*command, "--sample", "1"], _environment(order), order.log)
    more = measured(command, _environment(order), order.log)
    pages = order.items - 1
    return Speed((more.seconds - less.seconds) / pages, (more.cpu_seconds - less.cpu_seconds) / pages)


def _bare(order: Order) -> Speed:
    log = order.folder / "bare.txt"
    log.unlink(missing_ok=True)
    results = order.folder / "data" / "results" / JOB_ID
    command = [sys.executable, "-m", "harness.bench.bare_parse", str(results), str(order.order_file)]
    measured(command, _environment(order), log)
    told = json.loads(log.read_text(encoding="utf-8"))
    if told["pages"] != order.items:
        raise SystemExit(f"{told['pages']:,} of {order.items:,} pages were parsed")
    return Speed(told["seconds"] / order.items, told["cpu_seconds"] / order.items)


def _median(speeds: Sequence[Speed]) -> Speed:
    return Speed(statistics.median(one.seconds for one in speeds), statistics.median(one.cpu_seconds for one in speeds))


def _ratio(rounds: Sequence[tuple[Speed, Speed]]) -> Speed:
    """How near we come, as the median of the rounds: the two of a round ran one after the other, so what slowed the
    machine for a while slowed both."""
    return _median(
        [Speed(bare.seconds / ours.seconds, bare.cpu_seconds / ours.cpu_seconds) for ours, bare in rounds],
    )


def _row(layout: Layout, ours: Speed, bare: Speed, ratio: Speed) -> Row:
    return (
        layout.value,
        f"{1 / ours.seconds:,.0f}",
        f"{1 / bare.seconds:,.0f}",
        f"{ratio.seconds:.0%}",
        f"{1_000 * ours.cpu_seconds:.2f}",
        f"{1_000 * bare.cpu_seconds:.2f}",
        f"{ratio.cpu_seconds:.0%}",
    )


if __name__ == "__main__":
    sys.exit(main())

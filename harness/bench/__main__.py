"""`python -m harness.bench` (`make bench`): Swath, its peers and a hand-written script, round by round.

Exits 0 when every record was right and every aim was met, 1 otherwise. A short run is only checked, not judged.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from harness import interruption
from harness.bench import report
from harness.bench.contestants import Contestant, Kind, all_contestants, own_contestants
from harness.bench.cost import with_disk
from harness.bench.figures import Figures, Result, Sample, aims_of, problems, sample_of
from harness.bench.run_order import Order
from harness.bench.site import Site

__all__ = ["main"]

JUDGED_ITEMS: Final = 2_000  # a smaller difference is lost in the noise
MEMORY_FACTOR: Final = 4  # nothing is fetched: more items in the same time


def main(arguments: list[str] | None = None) -> int:
    """Runs all rounds, prints a table, and answers with the exit code."""
    options = _options(arguments)
    interruption.install()  # so that processes are ended on the way out
    folder = Path(tempfile.mkdtemp(prefix="swath-bench-", dir=options.folder))
    print(f"benchmark in {folder}", flush=True)
    figures = _Benchmark(folder, options).run()
    print(report.table(figures))
    if options.json:
        options.json.write_text(json.dumps(figures.as_json(), indent=2) + "\n", encoding="utf-8")
    if options.page:
        report.write_page(options.page, figures)
    if options.chart:
        options.chart.write_text(report.draw(figures.results), encoding="utf-8")
    if not _is_judged(options):
        print("  with so few items the figures say little, and are not judged")
    if figures.problems or options.keep:
        print(f"everything is left in {folder}")
    else:
        shutil.rmtree(folder)  # not before: deleting many files makes new ones slower for a while
    return 0 if not figures.problems and all(aim.met for aim in figures.aims) else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m harness.bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often everybody runs (5)")
    parser.add_argument("--small", type=int, default=1_000, metavar="N", help="items that pay for the start (1,000)")
    parser.add_argument("--large", type=int, default=5_000, metavar="N", help="items of the measured runs (5,000)")
    parser.add_argument("--load", type=int, default=100_000, metavar="N", help="rows that are only loaded (100,000)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="contestants by name, or the first word of it")
    parser.add_argument("--short", action="store_true", help="200 items, one round, without the peers")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"), metavar="DIR", help="the peers' environment")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the files are made (the system's own)")
    parser.add_argument("--keep", action="store_true", help="leave the files there after a clean run too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, those of every round too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="write the picture, as SVG")
    options = parser.parse_args(arguments)
    if options.short:
        options.rounds, options.small, options.large = 1, 40, 200
    if not 0 < options.small < options.large or options.rounds < 1:
        parser.error("--large must be more than --small, and there must be a round")
    return options


class _Benchmark:
    """The rounds: everybody in turn, each in a fresh folder, first the small order and then the large one."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._folder = folder
        self._options = options
        self._contestants = _chosen(options)
        self._samples: dict[str, list[Sample]] = {contestant.name: [] for contestant in self._contestants}
        self._problems: list[str] = []
        self._pages = 0

    def run(self) -> Figures:
        began = time.monotonic()
        with Site(self._options.large) as site:
            started_with = site.cpu_seconds()
            for number in range(self._options.rounds):
                turn = number % len(self._contestants)  # nobody always comes after the same one
                for contestant in (*self._contestants[turn:], *self._contestants[:turn]):
                    self._compete(contestant, number, site.base_url)
            site_cpu_ms = 1_000 * (site.cpu_seconds() - started_with) / max(self._pages, 1)
        results = [
            Result(
                name=contestant.name,
                told=contestant.told,
                kind=contestant.kind,
                items=self._sizes(contestant)[1],
                samples=tuple(self._samples[contestant.name]),
            )
            for contestant in self._contestants
        ]
        return Figures(
            command=_command_line(self._options),
            rounds=self._options.rounds,
            results=results,
            site_cpu_ms=site_cpu_ms,
            aims=aims_of(results) if _is_judged(self._options) else [],
            problems=self._problems,
            seconds=round(time.monotonic() - began, 1),
        )

    def _compete(self, contestant: Contestant, number: int, base_url: str) -> None:
        costs = []
        small, large = self._sizes(contestant)
        for items in (small, large):
            name = f"{number}-{contestant.name.replace(' ', '-')}-{items}"
            order = Order(
                folder=self._folder / name, items=items, base_url="" if contestant.kind == "memory" else base_url
            )
            order.write()
            if not self._options.short:
                os.sync()  # or what the one before has left to be written would be on this one's bill
            costs.append(with_disk(contestant.run(order), order.folder))
            self._problems += problems(contestant, order)
            if contestant.kind == "pages":
                self._pages += items
        sample = sample_of(costs[0], costs[1], large - small)
        self._samples[contestant.name].append(sample)
        told = f"{sample.cpu_ms:.3f} ms CPU, {sample.items_per_second:,.0f} items/s"
        print(f"  round {number + 1}: {contestant.told}: {told}", flush=True)

    def _sizes(self, contestant: Contestant) -> tuple[int, int]:
        options = self._options
        sizes: dict[Kind, tuple[int, int]] = {
            "pages": (options.small, options.large),
            "memory": (MEMORY_FACTOR * options.small, MEMORY_FACTOR * options.large),
            "load": (options.load // 100, options.load),
        }
        small, large = sizes[contestant.kind]
        return max(1, round(small * contestant.share)), round(large * contestant.share)


def _chosen(options: argparse.Namespace) -> list[Contestant]:
    python = options.peers.absolute() / "bin" / "python"
    found = own_contestants() if options.short else all_contestants(python)
    if options.only:
        found = [one for one in found if one.name in options.only or one.name.split()[0] in options.only]
    if not found:
        raise SystemExit(f"no contestant is named {' or '.join(options.only)}")
    if not python.exists() and any(one.name.startswith(("scrapy", "crawlee")) for one in found):
        raise SystemExit(f"the peers are not installed in {options.peers}: `make bench` does it")
    return found


def _is_judged(options: argparse.Namespace) -> bool:
    return int(options.large) - int(options.small) >= JUDGED_ITEMS


def _command_line(options: argparse.Namespace) -> str:
    words = f"--rounds {options.rounds} --small {options.small} --large {options.large} --load {options.load}"
    return f'make bench ARGS="{words}"'


if __name__ == "__main__":
    sys.exit(main())

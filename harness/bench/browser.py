"""`python -m harness.bench.browser` (`make bench-browser`): Swath and Crawlee in one Chromium, round by round.

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
from harness.bench import browser_report as report
from harness.bench.browser_contestants import CONCURRENCY, all_contestants, own_contestants
from harness.bench.browser_cost import inherit_orphans
from harness.bench.browser_site import BrowserSite
from harness.bench.contestants import Contestant
from harness.bench.cost import Cost
from harness.bench.figures import Figures, Result, Sample, problems, sample_of, speed_aim
from harness.bench.run_order import Order
from swath.fetch.browser.chromium.find import find_binary

__all__ = ["PAIRS", "main"]

JUDGED_ITEMS: Final = 100  # a smaller difference is lost in the noise
WANTED: Final = 1.5
PAIRS: Final = (("swath fresh", "crawlee incognito"), ("swath kept", "crawlee default"))


def main(arguments: list[str] | None = None) -> int:
    """Runs all rounds, prints a table, and answers with the exit code."""
    options = _options(arguments)
    interruption.install()  # so that processes are ended on the way out
    inherit_orphans()
    folder = Path(tempfile.mkdtemp(prefix="swath-bench-", dir=options.folder))
    print(f"benchmark in {folder}", flush=True)
    figures = _run(folder, options)
    print(report.table(figures, options.concurrency))
    if options.json:
        options.json.write_text(json.dumps(figures.as_json(), indent=2) + "\n", encoding="utf-8")
    if options.page:
        report.write_page(options.page, figures, options.concurrency)
    if not _is_judged(options):
        print("  with so few pages the figures say little, and are not judged")
    if figures.problems or options.keep:
        print(f"everything is left in {folder}")
    else:
        shutil.rmtree(folder)
    return 0 if not figures.problems and all(aim.met for aim in figures.aims) else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m harness.bench.browser", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often everybody runs (3)")
    parser.add_argument("--small", type=int, default=40, metavar="N", help="pages that pay for the start (40)")
    parser.add_argument("--large", type=int, default=200, metavar="N", help="pages of the measured runs (200)")
    parser.add_argument(
        "--concurrency", type=int, default=CONCURRENCY, metavar="N", help=f"pages at once ({CONCURRENCY})"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="contestants by name, or the first word of it")
    parser.add_argument("--short", action="store_true", help="6 pages, one round, start-up included")
    parser.add_argument("--peers", type=Path, default=Path(".venv-peers"), metavar="DIR", help="the peers' environment")
    parser.add_argument("--chromium", type=Path, metavar="FILE", help="which browser (found by itself)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the files are made (the system's own)")
    parser.add_argument("--keep", action="store_true", help="leave the files there after a clean run too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, those of every round too")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")
    options = parser.parse_args(arguments)
    if options.short:
        options.rounds, options.small, options.large = 1, 0, 6
    if not (options.short or 0 < options.small < options.large) or options.rounds < 1 or options.concurrency < 1:
        parser.error("--large must be more than --small, and there must be a round and a page at once")
    return options


def _run(folder: Path, options: argparse.Namespace) -> Figures:
    """Everybody in turn, each in a fresh folder, first the small order and then the large one."""
    began, contestants, wrong = time.monotonic(), _chosen(options), list[str]()
    samples: dict[str, list[Sample]] = {contestant.name: [] for contestant in contestants}
    with BrowserSite(options.large) as site:
        for number in range(options.rounds):
            turn = number % len(contestants)  # nobody always comes after the same one
            for contestant in (*contestants[turn:], *contestants[:turn]):
                sample, found = _compete(contestant, folder / f"{number}", site.base_url, options)
                samples[contestant.name].append(sample)
                wrong += found
                told = f"{sample.cpu_ms:.0f} ms CPU, {sample.items_per_second:.2f} pages/s"
                print(f"  round {number + 1}: {contestant.told}: {told}", flush=True)
        site_cpu_ms = 1_000 * site.cpu_seconds() / (len(contestants) * options.rounds * (options.small + options.large))
    results = [
        Result(name=one.name, told=one.told, kind="pages", items=options.large, samples=tuple(samples[one.name]))
        for one in contestants
    ]
    by_name = {result.name: result for result in results}
    aims = [speed_aim(by_name, ours, theirs, WANTED) for ours, theirs in PAIRS] if _is_judged(options) else []
    return Figures(
        command=_command_line(options),
        rounds=options.rounds,
        results=results,
        site_cpu_ms=site_cpu_ms,
        aims=[aim for aim in aims if aim is not None],
        problems=wrong,
        seconds=round(time.monotonic() - began, 1),
    )


def _compete(
    contestant: Contestant, folder: Path, base_url: str, options: argparse.Namespace
) -> tuple[Sample, list[str]]:
    costs, wrong = [], list[str]()
    for items in (options.small, options.large):
        if not items:
            costs.append(Cost(0.0, 0.0, 0))
            continue
        order = Order(
            folder=folder / f"{contestant.name.replace(' ', '-')}-{items}",
            items=items,
            base_url=base_url,
            concurrency=options.concurrency,
        )
        order.write()
        if not options.short:
            os.sync()  # or what the one before has left to be written would be on this one's bill
        costs.append(contestant.run(order))
        wrong += problems(contestant, order)
    return sample_of(costs[0], costs[1], options.large - options.small), wrong


def _chosen(options: argparse.Namespace) -> list[Contestant]:
    chromium, python = find_binary(options.chromium), options.peers.absolute() / "bin" / "python"
    with_peers = python.exists() or not options.short
    found = all_contestants(chromium, python) if with_peers else own_contestants(chromium)
    if options.short:
        found = [one for one in found if one.name != "crawlee incognito"]  # one of the peer's shows that it runs
    if options.only:
        found = [one for one in found if one.name in options.only or one.name.split()[0] in options.only]
    if not found:
        raise SystemExit(f"no contestant is named {' or '.join(options.only)}")
    if not python.exists() and any(one.name.startswith("crawlee") for one in found):
        raise SystemExit(f"the peers are not installed in {options.peers}: `make bench-browser` does it")
    return found


def _is_judged(options: argparse.Namespace) -> bool:
    return int(options.large) - int(options.small) >= JUDGED_ITEMS


def _command_line(options: argparse.Namespace) -> str:
    words = f"--rounds {options.rounds} --small {options.small} --large {options.large}"
    return f'make bench-browser ARGS="{words} --concurrency {options.concurrency}"'


if __name__ == "__main__":
    sys.exit(main())

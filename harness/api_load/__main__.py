"""`python -m harness.api_load` (`make load`): a million items over HTTP, a kill on the way, and how it answers.

Exits 0 when every row was there once and the aims were met, 1 otherwise. `--short` is only counted, not judged.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import interruption
from harness.api_load import report
from harness.api_load.latency import Timed, end_items, measure_latency
from harness.api_load.loading import FORMS, NDJSON, KilledLoad, WholeLoad, load, load_killed
from harness.bench import sync_scrape

__all__ = ["main"]


@dataclass(frozen=True)
class Sizes:
    """How much of each; `judged`: it is enough for the aims to mean something."""

    items: int = 1_000_000
    small: int = 10_000
    asks: int = 300
    scrapes: int = 60
    judged: bool = True


SHORT: Final = Sizes(items=20_000, small=2_000, asks=20, scrapes=5, judged=False)
PAUSE_SECONDS: Final = 0.1  # between two scrapes, in which the last is wound up


def main(arguments: list[str] | None = None) -> int:
    """Runs everything, prints tables, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    interruption.install()  # so that processes are ended on the way out
    sizes = SHORT if options.short else Sizes(items=options.items)
    folder = Path(tempfile.mkdtemp(prefix="swath-load-", dir=options.folder))
    print(f"load in {folder}", flush=True)
    figures = _measured(folder, sizes, _command_line(options))
    print(report.table(figures))
    if options.json:
        options.json.write_text(report.as_json(figures), encoding="utf-8")
    if options.page:
        report.write_page(options.page, figures)
    found = report.problems(figures)
    if found or options.keep:
        print(f"everything is left in {folder}")
    else:
        shutil.rmtree(folder)
    good = not found and (not sizes.judged or all(aim.met for aim in report.aims_of(figures)))
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.api_load", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--items", type=int, default=Sizes.items, metavar="N", help="of the large job (1,000,000)")
    parser.add_argument("--short", action="store_true", help="the small form, which is part of the tests")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the run's folder is made (the system's own)")
    parser.add_argument("--keep", action="store_true", help="leave the folder there after a good run too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")
    return parser


def _command_line(options: argparse.Namespace) -> str:
    """What makes the same run again; where its files and figures go does not matter."""
    words = "--short" if options.short else f"--items {options.items}" if options.items != Sizes.items else ""
    return f'make load ARGS="{words}"' if words else "make load"


def _measured(folder: Path, sizes: Sizes, command: str) -> report.Figures:
    began, load_before = time.monotonic(), os.getloadavg()[0]
    wholes: list[WholeLoad] = []
    killed: list[KilledLoad] = []
    for form in FORMS:
        with _write_results(f"{sizes.items:,} items as {form.name}"):
            wholes.append(load(folder / form.suffix, form, sizes.items))
        with _write_results("the same, killed on the way"):
            killed.append(load_killed(folder / f"{form.suffix}-killed", form, sizes.items))
    timed = _measure_latency(folder, sizes)
    with _write_results(f"{sizes.scrapes} scrapes"):
        scraped = folder / "sync"
        scraped.mkdir()
        sync = asyncio.run(sync_scrape.measure(scraped, sizes.scrapes, PAUSE_SECONDS))
    return report.Figures(
        command=command,
        items=sizes.items,
        small=sizes.small,
        judged=sizes.judged,
        load_before=load_before,
        wholes=wholes,
        killed=killed,
        timed=timed,
        sync=sync,
        seconds=round(time.monotonic() - began, 1),
    )


def _measure_latency(folder: Path, sizes: Sizes) -> list[Timed]:
    large, small = folder / NDJSON.suffix / "data", folder / "small" / "data"
    load(small.parent, NDJSON, sizes.small)
    with _write_results("items are ended"):
        for data, items in ((small, sizes.small), (large, sizes.items)):
            end_items(data, items)
    with _write_results("questions"):
        return measure_latency((small, sizes.small), (large, sizes.items), sizes.asks)


@contextmanager
def _write_results(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"  {what}: {time.monotonic() - began:,.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m harness.fleet` (`make fleet`): jobs on the local AWS servers, measured; `--help` names the options.

Exits 0 when every row and item was accounted for and the aims were met, 1 otherwise.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness import interruption
from harness.chaos.aws.site import served
from harness.fakes.aws import Endpoints, running_servers
from harness.fleet import report
from harness.fleet.job_run import MeasuredPlan, run_job
from harness.fleet.loading import load
from harness.fleet.measured_job import MeasuredJob
from harness.fleet.slots import scale, use_slots
from swath.domain.storage_keys import Layout

__all__ = ["main"]

MOCK: Final = MeasuredPlan(scraper="example-mock", items=100_000, workers=2, concurrency=64, keep="data")
COUNTY: Final = MeasuredPlan(scraper="demo-county", items=5_000, workers=2, concurrency=32)
PROCESSES: Final = (1, 2, 4)
ITEMS_EACH: Final = 800
SLOT_ITEMS: Final = 1_000
LOAD_ROWS: Final = 1_000_000
PARTS: Final = ("cost", "scale", "slots", "load")
LAYOUTS: Final = tuple(layout.value for layout in Layout)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much of each, and the layouts in which pages are kept."""

    mock: int = MOCK.items
    county: int = COUNTY.items
    each: int = ITEMS_EACH
    slots: int = SLOT_ITEMS
    rows: int = LOAD_ROWS
    layouts: tuple[str, ...] = LAYOUTS


SHORT: Final = Sizes(mock=400, county=60, each=40, slots=80, rows=30_000)


def main(arguments: list[str] | None = None) -> int:
    """Measures what the options ask for, prints tables, and answers with the exit code."""
    options = _parser().parse_args(arguments)
    interruption.install()  # so that processes are ended on the way out
    folder = Path(tempfile.mkdtemp(prefix="swath-fleet-", dir=options.folder))
    print(f"fleet in {folder}", flush=True)
    began = time.monotonic()
    figures = report.Figures(command=_command_line(options), judged=not options.short)
    sizes = _sizes(options)
    for part in [part for part in PARTS if getattr(options, part)] or PARTS:
        with running_servers() as servers:
            _MEASURES[part](folder / part, servers.endpoints, sizes, figures)
        figures.seconds = round(time.monotonic() - began, 1)
        _write(options, figures)  # after each part: a later one may fail
    print(report.table(figures))
    good = not report.problems(figures)
    if good and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"everything is left in {folder}")
    return 0 if good else 1


def _write(options: argparse.Namespace, figures: report.Figures) -> None:
    if options.json:
        options.json.write_text(report.as_json(figures), encoding="utf-8")
    if options.page:
        report.write_page(options.page, figures)
    if options.cost_page:
        report.write_cost(options.cost_page, figures)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harness.fleet", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cost", action="store_true", help="only this: requests and dollars, CPU against embedded")
    parser.add_argument("--scale", action="store_true", help="only this: slow pages with 1, 2 and 4 processes")
    parser.add_argument("--slots", action="store_true", help="only this: what two processes use of a limit")
    parser.add_argument("--load", action="store_true", help="only this: a large load, killed on the way")
    parser.add_argument("--short", action="store_true", help="the small form, which is part of the tests")
    parser.add_argument("--items", type=int, metavar="N", help=f"items without a network ({MOCK.items:,})")
    parser.add_argument("--pages", type=int, metavar="N", help=f"items of the demo county ({COUNTY.items:,})")
    parser.add_argument("--layout", choices=LAYOUTS, help="pages of the demo county only in this layout (in both)")
    parser.add_argument("--rows", type=int, metavar="N", help=f"rows of the load ({LOAD_ROWS:,})")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the run's folder is made (the system's own)")
    parser.add_argument("--keep", action="store_true", help="leave the folder there after a good run too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the figures into a Markdown page")
    parser.add_argument("--cost-page", type=Path, metavar="FILE", help="put what it costs into a Markdown page")
    return parser


def _sizes(options: argparse.Namespace) -> Sizes:
    layouts = (options.layout,) if options.layout else None
    given = {"mock": options.items, "county": options.pages, "rows": options.rows, "layouts": layouts}
    return replace(SHORT if options.short else Sizes(), **{name: one for name, one in given.items() if one is not None})


def _command_line(options: argparse.Namespace) -> str:
    """What makes the same run again; where its files and figures go does not matter."""
    given = [(name, getattr(options, name)) for name in (*PARTS, "short", "items", "pages", "layout", "rows")]
    words = [f"--{name}" if value is True else f"--{name} {value}" for name, value in given if value]
    return f'make fleet ARGS="{" ".join(words)}"' if words else "make fleet"


def _cost(folder: Path, endpoints: Endpoints, sizes: Sizes, figures: report.Figures) -> None:
    """Results of the many items are files in both cases, so that only the stores differ; those of pages are in S3."""
    mock = replace(MOCK, items=sizes.mock)
    with _told(f"{mock.items:,} items on AWS"):
        figures.mock = run_job(MeasuredJob(folder=folder / "mock", endpoints=endpoints, results_in_files=True), mock)
    with _told(f"{mock.items:,} items, embedded"):
        figures.embedded = run_job(MeasuredJob(folder=folder / "embedded"), mock)
    folder.mkdir(exist_ok=True)
    for layout in sizes.layouts:
        county = replace(COUNTY, items=sizes.county, layout=layout)
        place = MeasuredJob(folder=folder / f"county-{layout}", endpoints=endpoints)
        with _told(f"{county.items:,} pages on AWS, {layout}"), served("county", str(folder / "site.log"), "0") as url:
            figures.county.append(run_job(replace(place, site_url=url), county))


def _scale(folder: Path, endpoints: Endpoints, sizes: Sizes, figures: report.Figures) -> None:
    for processes in PROCESSES:
        with _told(f"slow pages, {processes} processes"):
            figures.scaled.append(scale(folder / str(processes), endpoints, processes, sizes.each))


def _slots(folder: Path, endpoints: Endpoints, sizes: Sizes, figures: report.Figures) -> None:
    with _told("slow pages, one limit"):
        figures.slots = use_slots(folder, endpoints, sizes.slots)


def _load(folder: Path, endpoints: Endpoints, sizes: Sizes, figures: report.Figures) -> None:
    with _told(f"load of {sizes.rows:,} rows"):
        figures.loaded = load(MeasuredJob(folder=folder, endpoints=endpoints), sizes.rows)


_MEASURES: Final[dict[str, Callable[[Path, Endpoints, Sizes, report.Figures], None]]] = {
    "cost": _cost,
    "scale": _scale,
    "slots": _slots,
    "load": _load,
}


@contextmanager
def _told(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"  {what}: {time.monotonic() - began:,.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())

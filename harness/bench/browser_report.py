"""The figures of `make bench-browser`: as tables for people, and inside a Markdown page between two marks."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

from harness.bench.figures import Figures, Result
from harness.bench.report import reached
from harness.tables import NO_HEAD, Row, Section, as_text, put_into

__all__ = ["table", "write_page"]

_HEAD: Final = ("", "pages/s", "CPU ms a page", "peak MB of all processes", "MB for each page at once")


def table(figures: Figures, concurrency: int) -> str:
    """For a terminal."""
    return as_text(_sections(figures, concurrency))


def write_page(page: Path, figures: Figures, concurrency: int) -> None:
    """Replaces what stands between the marks of a page."""
    put_into(page, _sections(figures, concurrency))


def _sections(figures: Figures, concurrency: int) -> list[Section]:
    sections: list[Section] = [(_HEAD, [_cells(result, concurrency) for result in figures.results])]
    if figures.aims:
        aims = [(aim.name, reached(aim), aim.told) for aim in figures.aims]
        sections.append((("aim", "reached", "figures"), aims))
    return [*sections, (NO_HEAD, _facts(figures, concurrency))]


def _cells(result: Result, concurrency: int) -> Row:
    return (
        result.told,
        f"{result.items_per_second:.2f}",
        f"{result.cpu_ms:.0f}",
        f"{result.peak_bytes / 1e6:,.0f}",
        f"{result.peak_bytes / 1e6 / concurrency:,.0f}",
    )


def _facts(figures: Figures, concurrency: int) -> list[Row]:
    items = max(result.items for result in figures.results)
    return [
        ("rounds, pages of the large runs, pages at once", f"{figures.rounds}; {items:,}; {concurrency}"),
        ("records", "; ".join(figures.problems) or "all there, and what the pages say"),
        ("the site", f"{figures.site_cpu_ms:.2f} ms CPU a page, in a process of its own and in nobody's figures"),
        ("wall time", f"{figures.seconds:,.0f} s"),
        ("made by", f"`{figures.command}`"),
        ("machine", f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"),
    ]

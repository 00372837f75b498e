"""The figures of a benchmark: as a table for people, and inside a Markdown page between two marks."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

from swath.testing.bench.figures import Figures, Result, ceiling_of
from swath.testing.soak.aims import Aim
from swath.testing.tables import NO_HEAD, Section, put_into

__all__ = ["reached", "table", "write_page"]

HEADS: Final = {"pages": "pages over HTTP", "memory": "pages from memory", "load": "rows loaded, nothing fetched"}


def table(figures: Figures) -> str:
    """For a terminal."""
    rows = [("", "CPU ms", "items/s", "peak MB", "disk MB", "files"), *(_cells(result) for result in figures.results)]
    width = max(len(row[0]) for row in rows)
    lines = [f"  {row[0]:<{width}}  " + "  ".join(f"{cell:>9}" for cell in row[1:]) for row in rows]
    lines += ["", *(f"  {aim.name}: {reached(aim)}  {aim.told}" for aim in figures.aims)]
    lines += ["", *(f"  {name}: {value}" for name, value in _facts(figures))]
    return "\n".join(lines)


def write_page(page: Path, figures: Figures) -> None:
    """Replaces what stands between the marks of a page."""
    sections: list[Section] = []
    for kind, head in HEADS.items():
        if results := [_cells(result) for result in figures.results if result.kind == kind]:
            sections.append(((head, "CPU ms an item", "items/s", "peak MB", "MB on disk", "files"), results))
    if figures.aims:
        aims = [(aim.name, reached(aim), aim.told) for aim in figures.aims]
        sections.append((("aim", "reached", "figures"), aims))
    put_into(page, [*sections, (NO_HEAD, _facts(figures))])


def _cells(result: Result) -> tuple[str, ...]:
    """The last two are for 10,000 items."""
    return (
        result.told,
        f"{result.cpu_ms:.3f}",
        f"{result.items_per_second:,.0f}",
        f"{result.peak_bytes / 1e6:,.0f}",
        f"{result.disk_bytes * 10_000 / 1e6:,.1f}",
        f"{result.files * 10_000:,.0f}",
    )


def reached(aim: Aim) -> str:
    """Beside what was wanted."""
    side = "at least" if aim.at_least else "at most"
    return f"{aim.reached:.2f} ({side} {aim.wanted:.2f}{'' if aim.met else ': MISSED'})"


def _facts(figures: Figures) -> list[tuple[str, str]]:
    items = " and ".join(sorted({f"{result.items:,}" for result in figures.results}, key=len))
    ceiling = ceiling_of(figures.results)
    return [
        *([("items a second against the tuned script", ceiling)] if ceiling else []),
        ("rounds, and items of the large runs", f"{figures.rounds}; {items}"),
        ("records", "; ".join(figures.problems) or "all there, and what the pages say"),
        ("the site", f"{figures.site_cpu_ms:.2f} ms CPU a page, in a process of its own and in nobody's figures"),
        ("wall time", f"{figures.seconds:,.0f} s"),
        ("made by", f"`{figures.command}`"),
        ("machine", f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"),
    ]

"""The figures of a benchmark: as a table, inside a Markdown page, and as an SVG chart."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from harness.bench.figures import Figures, Result, ceiling_of
from harness.soak.aims import Aim
from harness.tables import NO_HEAD, Section, put_into

__all__ = ["draw", "reached", "table", "write_page"]

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


WIDTH: Final = 760
LEFT, RIGHT, TOP = 230, 70, 30
BAR, STEP, GAP = 16, 22, 44

Value = Callable[[Result], float]


def draw(results: Sequence[Result]) -> str:
    """Three panels, one above the other, of those who fetch pages over HTTP."""
    shown = [result for result in results if result.kind == "pages"]
    panels = (
        ("CPU ms an item (less is better)", lambda result: result.cpu_ms, "{:,.2f}"),
        ("items a second (more is better)", lambda result: result.items_per_second, "{:,.0f}"),
        ("peak memory, MB (less is better)", lambda result: result.peak_bytes / 1e6, "{:,.0f}"),
    )
    panel_height = STEP * len(shown) + GAP
    height = TOP + len(panels) * panel_height
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *(
                _panel(TOP + n * panel_height, title, shown, value, form)
                for n, (title, value, form) in enumerate(panels)
            ),
            "</svg>",
            "",
        ]
    )


def _panel(top: int, title: str, results: Sequence[Result], value: Value, form: str) -> str:
    longest = max((value(result) for result in results), default=0.0) or 1.0
    lines = [f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title}</text>']
    for number, result in enumerate(results):
        y = top + number * STEP
        length = max(0.0, value(result)) / longest * (WIDTH - LEFT - RIGHT)
        middle = f'y="{y + BAR / 2:.0f}" dy="4"'
        lines += [
            f'<text x="{LEFT - 8}" {middle} text-anchor="end">{escape(result.told)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{_colour(result)}"/>',
            f'<text x="{LEFT + length + 6:.1f}" {middle}>{form.format(value(result))}</text>',
        ]
    return "\n".join(lines)


def _colour(result: Result) -> str:
    """Ours, the ceiling, theirs."""
    return {"swath": "#1f6feb", "script": "#1a7f37"}.get(result.name.split()[0], "#9a6700")

"""The figures of a soak: as a table, as JSON, inside a Markdown page, and as an SVG chart."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from harness.soak.aims import Aim
from harness.soak.measured_run import Run
from harness.tables import NO_HEAD, Section, as_text, put_into

__all__ = ["Figures", "draw", "table", "write_page"]


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Everything that is reported. `problems` is what must not be; an aim that was missed is none of them."""

    command: str
    items: int
    workers: int
    aims: list[Aim]
    problems: list[str]
    steps: dict[str, dict[str, Any]]
    large: Run
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """All of it but the single looks."""
        large = {name: value for name, value in asdict(self.large).items() if name != "samples"}
        return asdict(self) | {"large": large, "aims": [asdict(aim) | {"met": aim.met} for aim in self.aims]}


def table(figures: Figures) -> str:
    """For a terminal."""
    return as_text(_sections(figures))


def write_page(page: Path, figures: Figures) -> None:
    """Replaces what stands between the marks of a page."""
    put_into(page, _sections(figures))


def _sections(figures: Figures) -> list[Section]:
    return [(("aim", "reached", "figures"), _aim_rows(figures)), (NO_HEAD, _rows(figures))]


def _aim_rows(figures: Figures) -> list[tuple[str, str, str]]:
    return [(aim.name, _reached(aim), aim.told) for aim in figures.aims]


def _reached(aim: Aim) -> str:
    side = "at least" if aim.at_least else "at most"
    return f"{aim.reached:.2f} ({side} {aim.wanted:.2f}{'' if aim.met else ': MISSED'})"


def _rows(figures: Figures) -> list[tuple[str, str]]:
    run, steps = figures.large, figures.steps
    python, sqlite, system = platform.python_version(), sqlite3.sqlite_version, platform.system()
    return [
        ("items, worker processes, kill -9", f"{figures.items:,}, {figures.workers}, {run.kills}"),
        ("run", f"{figures.items / run.seconds:,.0f} items/s for {run.seconds:,.0f} s"),
        ("CPU of the workers", f"{1e6 * run.cpu_seconds / figures.items:,.0f} µs an item"),
        ("ending", f"{run.ending_seconds:,.0f} s"),
        ("verify", f"{'clean' if steps['verify']['ok'] else 'NOT CLEAN'}, {steps['verify']['seconds']:,.0f} s"),
        ("count by plain SQL", "; ".join(figures.problems) or f"all {figures.items:,} accounted for"),
        ("wall time", f"{figures.seconds:,.0f} s"),
        ("made by", f"`{figures.command}`"),
        ("machine", f"{os.cpu_count()} cores, Python {python}, SQLite {sqlite}, {system}"),
    ]


WIDTH: Final = 760
PANEL_HEIGHT: Final = 130
LEFT, TOP, GAP = 70, 30, 40
BUCKETS: Final = 100

Points = Sequence[tuple[float, float]]


def draw(run: Run, items: int) -> str:
    """Three panels, one above the other."""
    memory = [(sample.ended, sample.resident_bytes / (1 << 20)) for sample in run.samples]
    log = [(sample.ended, sample.log_bytes / (1 << 20)) for sample in run.samples]
    panels = [
        _panel(0, "memory of the largest worker, MiB", _thinned(memory, items), items, "#1f6feb"),
        _panel(1, "items per second", _thinned(_pace(run), items), items, "#1a7f37"),
        _panel(2, "write-ahead log of the store, MiB", _thinned(log, items), items, "#9a6700"),
    ]
    height = TOP + 3 * (PANEL_HEIGHT + GAP)
    middle = LEFT + (WIDTH - LEFT - 20) / 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            *panels,
            f'<text x="{middle:.0f}" y="{height - 6}" text-anchor="middle">items done, of {items:,}</text>',
            "</svg>",
            "",
        ]
    )


def _pace(run: Run) -> list[tuple[float, float]]:
    pairs = zip(run.samples, run.samples[1:], strict=False)
    return [(b.ended, (b.ended - a.ended) / (b.seconds - a.seconds)) for a, b in pairs if b.ended > a.ended]


def _thinned(points: Points, items: int) -> list[tuple[float, float]]:
    """The mean of each hundredth of the job, so that the file stays small."""
    buckets: dict[int, list[float]] = {}
    for ended, value in points:
        buckets.setdefault(int(ended * BUCKETS / items), []).append(value)
    return [(bucket / BUCKETS, sum(values) / len(values)) for bucket, values in sorted(buckets.items())]


def _panel(number: int, title: str, points: Points, items: int, colour: str) -> str:
    top = TOP + number * (PANEL_HEIGHT + GAP)
    bottom, width = top + PANEL_HEIGHT, WIDTH - LEFT - 20
    highest = _round_up(max((value for _, value in points), default=1.0))
    drawn = " ".join(
        f"{LEFT + share * width:.1f},{bottom - value / highest * PANEL_HEIGHT:.1f}" for share, value in points
    )
    marks = []
    for part in (0, 0.5, 1):
        y = f"{bottom - part * PANEL_HEIGHT:.0f}"
        marks.append(f'<line x1="{LEFT}" x2="{LEFT + width}" y1="{y}" y2="{y}" stroke="#d0d7de"/>')
        marks.append(f'<text x="{LEFT - 8}" y="{y}" dy="4" text-anchor="end">{part * highest:,g}</text>')
    shares = [
        f'<text x="{LEFT + share * width:.0f}" y="{bottom + 16}" text-anchor="middle">{share * items:,.0f}</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    return "\n".join(
        [
            f'<text x="{LEFT}" y="{top - 8}" font-weight="bold">{title}</text>',
            *marks,
            *shares,
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{drawn}"/>',
        ]
    )


def _round_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    power = 1.0
    while power * 10 <= value:
        power *= 10
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value)

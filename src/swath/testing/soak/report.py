"""The figures of a soak: as a table for people, as JSON, and inside a Markdown page between two marks."""

from __future__ import annotations

import os
import platform
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from swath.testing.soak.aims import Aim
from swath.testing.soak.watch import Run
from swath.testing.tables import NO_HEAD, Section, as_text, put_into

__all__ = ["Figures", "table", "write_page"]


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

"""The figures of a chaos run: as a table for people, as JSON, and inside a Markdown page between two marks."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.chaos.chaos_run import ChaosRun
from harness.chaos.check import Checked
from harness.chaos.crash_runs import Case
from harness.chaos.disturbed_run import DisturbedRun
from harness.chaos.findings import Findings, Kind
from harness.chaos.recovery import Spread
from harness.tables import NO_HEAD, as_text, put_into

__all__ = ["Figures", "command_line", "machine", "table", "write_page"]


def machine() -> str:
    """What the figures were measured on."""
    cores = os.cpu_count()
    return f"{cores} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.system()}"


@dataclass
class Figures:
    """Everything that is reported. Times in seconds."""

    command: str
    seed: int
    storm: dict[str, Any] = field(default_factory=dict)
    points: dict[str, Any] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    machine: str = field(default_factory=machine)

    def add_storm(self, storm: ChaosRun, checked: Checked, verify_code: int) -> None:
        """What the storm did, and how long it took to get over it."""
        begun, kept = checked.attempts_begun, checked.attempts_kept
        self.storm = {
            "items": storm.job.items,
            "workers": storm.plan.workers,
            "strikes": dict(sorted(storm.strikes.items())),
            "disturbances": dict(sorted(storm.made.items())) if isinstance(storm, DisturbedRun) else {},
            "orders": dict(sorted(storm.orders.given.items())),
            "woken_without_lease": storm.woken_without_lease,
            "killed_freed": asdict(storm.killed.freed),
            "killed_re_leased": asdict(storm.killed.re_leased),
            "frozen_freed": asdict(storm.frozen.freed),
            "frozen_re_leased": asdict(storm.frozen.re_leased),
            "blamed_for_our_kills": checked.blamed,
            "attempts": begun,
            "wasted_attempts": begun - kept,
            "wasted_percent": round(100 * (begun - kept) / begun, 2) if begun else 0.0,
            "seconds": round(storm.working_seconds, 1),
            "items_per_second": round(storm.job.items / storm.working_seconds, 1),
            "verify_exit_code": verify_code,
        }

    def add_points(self, cases: list[Case], problems: int, seconds: float) -> None:
        """How many named points were tried how often."""
        self.points = {
            "points": len({case.point for case in cases}),
            "crashes": sum(case.deaths for case in cases if not case.freeze),
            "freezes": sum(case.freeze and not case.retry for case in cases),
            "freezes_with_retry": sum(case.retry for case in cases),
            "problems": problems,
            "seconds": round(seconds, 1),
        }

    def finish(self, findings: Findings, seconds: float) -> None:
        """The count of problems, at the end."""
        self.found = {kind.value: findings.found[kind] for kind in Kind}
        self.problems = [str(problem) for problem in findings.problems]
        self.seconds = round(seconds, 1)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def command_line(options: Mapping[str, object], seed: int) -> str:
    """What makes the same run again; where its files and figures go does not matter."""
    names = ("short", "items", "kills", "stops", "freezes", "workers", "part", "layout", "broken", "disturb")
    given = [(name, options.get(name)) for name in names]
    told = ((name, " ".join(value) if isinstance(value, list) else value) for name, value in given if value)
    words = [f"--{name}" if value is True else f"--{name} {value}" for name, value in told]
    return f'make chaos ARGS="{" ".join([*words, f"--seed {seed}"])}"'


def table(figures: Figures) -> str:
    """Two columns for a terminal."""
    return as_text([(NO_HEAD, _rows(figures))])


def write_page(page: Path, figures: Figures) -> None:
    """Replaces what stands between the marks of a page."""
    put_into(page, [(NO_HEAD, _rows(figures))])


def _rows(figures: Figures) -> list[tuple[str, str]]:
    return [
        *(_storm_rows(figures.storm) if figures.storm else ()),
        *(_point_rows(figures.points) if figures.points else ()),
        *((f"{name.replace('_', ' ')}", f"{count:,}") for name, count in figures.found.items()),
        ("wall time", f"{figures.seconds:,.0f} s"),
        ("made by", f"`{figures.command}`"),
        ("machine", figures.machine),
    ]


def _storm_rows(storm: dict[str, Any]) -> list[tuple[str, str]]:
    strikes: dict[str, int] = storm["strikes"]

    def struck(name: str, *parts: str) -> str:
        shown = ", ".join(f"{strikes.get(f'{name} {part}', 0):,} {part}" for part in parts)
        return f"{strikes.get(name, 0):,} ({shown})"

    return [
        ("items, processes", f"{storm['items']:,}, {storm['workers']}"),
        ("kill -9 of", struck("SIGKILL", "run", "worker")),
        ("kill -9 while", struck("SIGKILL", "loading", "working", "ending", "with lease")),
        ("SIGTERM", struck("SIGTERM", "run", "worker")),
        ("SIGSTOP beyond the lease", struck("SIGSTOP", "run", "worker", "with lease")),
        ("orders carried out", ", ".join(f"{count} {name}" for name, count in storm["orders"].items()) or "none"),
        ("disturbances", ", ".join(f"{count} {name}" for name, count in storm["disturbances"].items()) or "none"),
        ("woke up without their lease", f"{storm['woken_without_lease']:,}"),
        ("kill to lease freed", _spread(storm["killed_freed"])),
        ("kill to item re-leased", _spread(storm["killed_re_leased"])),
        ("SIGSTOP to lease freed", _spread(storm["frozen_freed"])),
        ("SIGSTOP to item re-leased", _spread(storm["frozen_re_leased"])),
        ("taken for poison by 3 kills", f"{storm['blamed_for_our_kills']:,}"),
        ("attempts, wasted", f"{storm['attempts']:,}, {storm['wasted_attempts']:,} ({storm['wasted_percent']} %)"),
        ("items/s under fire", f"{storm['items_per_second']:,.1f} for {storm['seconds']:,.0f} s"),
        ("swath jobs verify", f"exit code {storm['verify_exit_code']}"),
    ]


def _point_rows(points: dict[str, Any]) -> list[tuple[str, str]]:
    frozen = f"{points['freezes']} freezes, {points['freezes_with_retry']} freezes with a retry before the waking"
    crashes = f"{points['crashes']} crashes, {frozen}"
    what = f"{crashes} at {points['points']} named points, {points['problems']} problems, {points['seconds']:,.0f} s"
    return [("crash points", what)]


def _spread(spread: dict[str, float]) -> str:
    shown = Spread(int(spread["count"]), spread["p50"], spread["p95"], spread["longest"])
    return f"p50 {shown.p50:.2f} s, p95 {shown.p95:.2f} s, longest {shown.longest:.2f} s (of {shown.count:,})"

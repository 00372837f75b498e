"""The figures of a chaos run in browsers, as rows of a table and as JSON."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.chaos.browser.chaos_run import BrowserChaosRun
from harness.chaos.browser.check import Tries
from harness.chaos.check import Checked
from harness.chaos.findings import Findings, Kind
from harness.chaos.recovery import Spread
from harness.chaos.report import machine
from harness.tables import NO_HEAD, as_text, put_into

__all__ = ["Figures", "table", "write_page"]

MIB = 1 << 20


@dataclass
class Figures:
    """Everything that is reported."""

    command: str
    items: int = 0
    processes: int = 0
    struck: dict[str, int] = field(default_factory=dict)
    strikes: dict[str, int] = field(default_factory=dict)
    frozen_gone: Spread = field(default_factory=lambda: Spread.of([]))
    attempts: dict[str, int] = field(default_factory=dict)
    longest_attempt_seconds: float = 0.0
    begun: int = 0
    kept: int = 0
    items_per_second: float = 0.0
    seconds: float = 0.0
    worker_mib: dict[int, int] = field(default_factory=dict)
    all_mib: dict[int, int] = field(default_factory=dict)
    growth: tuple[float, float] | None = None
    verify_exit_code: int = 0
    found: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    machine: str = field(default_factory=lambda: f"{machine()} {platform.machine()}")

    def add_storm(self, storm: BrowserChaosRun, checked: Checked, tries: Tries) -> None:
        """What was struck, and what it cost."""
        items = self.items = storm.job.items
        self.processes = storm.plan.workers
        self.struck = dict(storm.hunt.made)
        self.strikes = dict(storm.strikes)
        self.frozen_gone = Spread.of(storm.hunt.frozen_seconds)
        self.attempts, self.longest_attempt_seconds = tries.by_kind, tries.longest_seconds
        self.begun, self.kept = checked.attempts_begun, checked.attempts_kept
        self.seconds = round(storm.working_seconds, 1)
        self.items_per_second = round(items / storm.working_seconds, 2)
        for number in range(1, 6):
            seen = storm.memory.of_fifth(number, items)
            if seen is not None:
                self.worker_mib[number], self.all_mib[number] = (round(size / MIB) for size in seen)

    def finish(self, findings: Findings) -> None:
        """The count of problems, at the end."""
        self.found = {kind.value: findings.found[kind] for kind in Kind}
        self.problems = [str(problem) for problem in findings.problems]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def table(figures: Figures) -> str:
    """Two columns for a terminal."""
    return as_text([(NO_HEAD, _rows(figures))])


def write_page(page: Path, figures: Figures) -> None:
    """Replaces what stands between the marks of a page."""
    put_into(page, [(NO_HEAD, _rows(figures))])


def _rows(figures: Figures) -> list[tuple[str, str]]:
    struck, strikes, gone = figures.struck, figures.strikes, figures.frozen_gone
    growth = figures.growth
    return [
        ("items, processes", f"{figures.items:,}, {figures.processes} with 2 browsers each"),
        ("kill -9", ", ".join(f"{struck.get(name, 0)} {name}s" for name in ("browser", "renderer", "driver"))),
        (
            "SIGSTOP of a browser",
            f"{struck.get('frozen browser', 0)}, gone after p50 {gone.p50:.1f} s, longest {gone.longest:.1f} s",
        ),
        ("workers struck", f"{strikes.get('SIGKILL', 0)} kill -9, {strikes.get('SIGTERM', 0)} SIGTERM"),
        ("attempts by how they ended", ", ".join(f"{count:,} {name}" for name, count in figures.attempts.items())),
        ("fetches begun, attempts kept", f"{figures.begun:,}, {figures.kept:,}"),
        ("longest attempt", f"{figures.longest_attempt_seconds:.1f} s"),
        ("items/s under fire", f"{figures.items_per_second:.2f} for {figures.seconds:,.0f} s"),
        ("MiB of a worker, by fifths", _fifths(figures.worker_mib)),
        ("MiB of all processes, by fifths", _fifths(figures.all_mib)),
        ("growth, worker and all", "not measured" if growth is None else f"{growth[0]:.2f}, {growth[1]:.2f}"),
        ("swath jobs verify", f"exit code {figures.verify_exit_code}"),
        *((name.replace("_", " "), f"{count:,}") for name, count in figures.found.items()),
        ("made by", f"`{figures.command}`"),
        ("machine", figures.machine),
    ]


def _fifths(sizes: dict[int, int]) -> str:
    return ", ".join(f"{sizes[number]:,}" if number in sizes else "-" for number in range(1, 6))

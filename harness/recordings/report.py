"""The figures of a run of recordings, as rows of a table and as JSON."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.bench.cost import Cost
from harness.chaos.findings import Findings, Kind
from harness.chaos.report import machine
from harness.tables import NO_HEAD, Section, as_text, put_into

__all__ = ["Figures", "JobFigures", "table", "write_page"]

MIB = 1 << 20


@dataclass
class JobFigures:
    """One of the two jobs. `attempts` and CPU are of all its items, those that failed and were tried again too."""

    told: str
    ended: dict[str, int]
    failed_attempts: int
    seconds: float
    items_per_second: float
    cpu_ms_per_item: float
    peak_mib: int
    verify_exit_code: int

    @classmethod
    def of(
        cls, told: str, ended: dict[str, int], failed_attempts: int, cost: Cost, verify_exit_code: int
    ) -> JobFigures:
        """Everything is per item that has ended, the start of the browsers included."""
        items = max(sum(ended.values()), 1)
        return cls(
            told=told,
            ended=dict(sorted(ended.items())),
            failed_attempts=failed_attempts,
            seconds=round(cost.seconds, 1),
            items_per_second=round(items / cost.seconds, 2),
            cpu_ms_per_item=round(1_000 * cost.cpu_seconds / items, 1),
            peak_mib=round(cost.peak_bytes / MIB),
            verify_exit_code=verify_exit_code,
        )


@dataclass
class Figures:
    """Everything that is reported."""

    command: str
    items: int = 0
    failure_rate: float = 0.0
    concurrency: int = 0
    ran: list[JobFigures] = field(default_factory=list)
    failed_steps: dict[str, int] = field(default_factory=dict)
    spoilt: dict[str, int] = field(default_factory=dict)
    found: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    machine: str = field(default_factory=lambda: f"{machine()} {platform.machine()}")

    def finish(self, findings: Findings) -> None:
        """The count of problems, at the end."""
        self.found = {kind.value: findings.found[kind] for kind in Kind}
        self.problems = [str(problem) for problem in findings.problems]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def table(figures: Figures) -> str:
    """For a terminal."""
    return as_text(_sections(figures))


def write_page(page: Path, figures: Figures) -> None:
    """Replaces what stands between the marks of a page."""
    put_into(page, _sections(figures))


def _sections(figures: Figures) -> list[Section]:
    jobs = [
        (
            ran.told,
            f"{ran.items_per_second:.2f}",
            f"{ran.cpu_ms_per_item:,.0f}",
            f"{ran.peak_mib:,}",
            _told(ran.ended),
            f"{ran.failed_attempts:,}",
            f"exit code {ran.verify_exit_code}",
        )
        for ran in figures.ran
    ]
    about = [
        ("items, at once", f"{figures.items:,}, {figures.concurrency}"),
        ("spoiled by the county", f"{figures.failure_rate:.0%} of its answers: {_told(figures.spoilt)}"),
        *((f"failed at step {name}", f"{count:,} attempts") for name, count in figures.failed_steps.items()),
        *((name.replace("_", " "), f"{count:,}") for name, count in figures.found.items()),
        ("made by", f"`{figures.command}`"),
        ("machine", figures.machine),
    ]
    head = ("", "items/s", "CPU ms an item", "MiB at most", "items", "failed attempts", "swath jobs verify")
    return [(head, jobs), (NO_HEAD, about)]


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items()) or "nothing"

"""ChaosJob: a folder with everything one job needs, and the environment and arguments of the processes that run it.

Made by the supervisor before anything is started; the checker reads the same folder at the end.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.chaos import expected

__all__ = ["JOB_ID", "ChaosJob", "make_job"]

JOB_ID: Final = "chaos"

LEASE_SECONDS: Final = 2.0
HEARTBEAT_SECONDS: Final = 0.5
GRACE_SECONDS: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class ChaosJob:
    """Where the parts of a job lie. `settings` are those of its processes beside the ones that every job has. `first`:
    its items begin after so many others, those of jobs in the same folder."""

    folder: Path
    items: int
    layout: str = "files"
    scraper: str = "chaos_scraper.py"
    settings: Mapping[str, str] = field(default_factory=dict)
    job_id: str = JOB_ID
    first: int = 0

    @property
    def data(self) -> Path:
        """SWATH_DATA of its processes."""
        return self.folder / "data"

    @property
    def database(self) -> Path:
        """The store."""
        return self.data / "swath.db"

    @property
    def items_file(self) -> Path:
        """One name a row."""
        return self.folder / ("items.csv" if self.job_id == JOB_ID else f"{self.job_id}.csv")

    @property
    def item_ids(self) -> list[str]:
        """Of its items, in their order."""
        return expected.item_ids(self.first + self.items)[self.first :]

    @property
    def results(self) -> Path:
        """Its own results folder."""
        return self.data / "results" / self.job_id

    @property
    def attempts_log(self) -> Path:
        """One line for every attempt that any process began."""
        return self.folder / "attempts.log"

    @property
    def run_arguments(self) -> list[str]:
        """`swath run …`: the controlling process, which loads, works and ends the job."""
        scraper, policy = self.folder / self.scraper, self.folder / "policy.json"
        return [
            "run",
            *map(str, (scraper, "--items", self.items_file, "--policy", policy)),
            "--job-id",
            self.job_id,
            "--layout",
            self.layout,
            "--quiet",
        ]

    def command(self, arguments: list[str], *, armed: bool = False) -> list[str]:
        """The real command line, or the same through harness.armed_cli."""
        module = ["harness.armed_cli", "--"] if armed else ["swath.entrypoints.cli.main"]
        return [sys.executable, "-m", *module, *arguments]

    def environment(self, **more: str) -> dict[str, str]:
        """Ours without its SWATH_* variables, short leases, and what is given."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
        return inherited | {
            "SWATH_DATA": str(self.data),
            "SWATH_LEASE_SECONDS": str(LEASE_SECONDS),
            "SWATH_HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS),
            "SWATH_GRACE_SECONDS": str(GRACE_SECONDS),
            **self.settings,
            **more,
        }

    @property
    def retries(self) -> dict[int, list[int]]:
        """Which items each later generation must have run, by number; written before the order was given."""
        file = self._retries_file
        noted = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        return {int(generation): seqs for generation, seqs in noted.items()}

    def note_retry(self, generation: int, seqs: list[int]) -> None:
        """That a retry is about to be ordered."""
        noted = self.retries | {generation: sorted(seqs)}
        self._retries_file.write_text(json.dumps(noted), encoding="utf-8")

    @property
    def _retries_file(self) -> Path:
        return self.folder / ("retries.json" if self.job_id == JOB_ID else f"{self.job_id}-retries.json")

    def set_pace(self, mean_seconds: float, slow: Mapping[str, float] | None = None) -> None:
        """How long an item takes, for processes that start from now on; `slow` are the seconds of single items."""
        paces = {"mean_seconds": mean_seconds, "slow": dict(slow or {})}
        (self.folder / "chaos.json").write_text(json.dumps(paces), encoding="utf-8")

    def beside(self, job_id: str, *, first: int, items: int) -> ChaosJob:
        """Another job in the same folder and store, with items of its own; nobody has ordered it yet."""
        other = replace(self, job_id=job_id, first=first, items=items)
        other.write_items()
        return other

    def write_items(self) -> None:
        """Writes its items file."""
        with self.items_file.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["name"])
            rows.writerows([name] for name in self.item_ids)


def make_job(folder: Path, *, items: int, mean_seconds: float, concurrency: int, layout: str = "files") -> ChaosJob:
    """Writes items, policy and scraper into a new folder."""
    folder.mkdir(parents=True)
    job = ChaosJob(folder=folder, items=items, layout=layout)
    job.write_items()
    policy = {
        "throttling": {"max_concurrent_workers": concurrency},
        # Flaky items fail once in every process that meets them; those that must fail do so after two retries.
        "retries": {
            "max_retries": 100,
            "backoff": "fixed",
            "base_delay_seconds": 0.05,
            "kinds": {"server_error": {"max_retries": 2}},
        },
        # Some items must fail, and a job that stops because of them would prove nothing.
        "circuit_breaker": {"failure_threshold_percentage": 1.0, "consecutive_failures": 100_000},
    }
    (folder / "policy.json").write_text(json.dumps(policy), encoding="utf-8")
    job.set_pace(mean_seconds)
    shutil.copy(Path(__file__).with_name("chaos_scraper.py"), folder)
    job.attempts_log.touch()
    return job

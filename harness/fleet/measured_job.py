"""Where a measured job is stored, on AWS or in files, and how its processes are started and observed."""

from __future__ import annotations

import csv
import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from harness.chaos.aws.raw_store import HeadAt, PlainTable
from harness.fakes.aws import Endpoints
from harness.fakes.aws.endpoints import DISTURBING
from harness.processes import dying_with_parent
from harness.soak.job import COLUMN, item_ids

__all__ = ["JOB_ID", "MeasuredJob", "MeasuredProgress", "cpu_seconds", "peak_bytes"]

JOB_ID: Final = "fleet"
ENDED: Final = frozenset({"completed", "partially_completed", "failed", "cancelled"})
_COUNTED: Final = (HeadAt.SUCCESS, HeadAt.FAILED, HeadAt.SKIPPED)


class MeasuredProgress(NamedTuple):
    """A job at one look."""

    state: str
    total: int
    done: int

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.state in ENDED


@dataclass(frozen=True, kw_only=True)
class MeasuredJob:
    """Without `endpoints` everything is in files; with them `results` may still be, under the data folder."""

    folder: Path
    endpoints: Endpoints | None = None
    results_in_files: bool = False
    site_url: str = ""

    @property
    def name(self) -> str:
        """Of the table, and of the prefix in the bucket; another one in every folder."""
        return f"fleet-{self.folder.name}-{zlib.crc32(bytes(self.folder)):08x}"

    @property
    def data(self) -> Path:
        """SWATH_DATA."""
        return self.folder / "data"

    @property
    def items_file(self) -> Path:
        """One id a row."""
        return self.folder / "items.csv"

    @property
    def log(self) -> Path:
        """What all processes say."""
        return self.folder / "processes.log"

    def write_items(self, items: int) -> None:
        """Makes the folder and the file."""
        self.data.mkdir(parents=True)
        with self.items_file.open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow([COLUMN])
            rows.writerows([item_id] for item_id in item_ids(items))

    def environment(self) -> dict[str, str]:
        """Ours without its SWATH_* variables; every setting is the default but for where things are."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SWATH_")}
        kept |= {"SWATH_DATA": str(self.data)} | ({"SWATH_DEMO_URL": self.site_url} if self.site_url else {})
        if self.endpoints is None:
            return kept
        for name in DISTURBING:
            kept.pop(name, None)
        kept |= self.endpoints.environment | {"SWATH_STORE": f"dynamodb://{self.name}"}
        if not self.results_in_files:
            kept["SWATH_RESULTS"] = f"s3://{self.endpoints.bucket}/{self.name}"
        return kept

    def start(self, *arguments: str, meters: str | None = None) -> subprocess.Popen[bytes]:
        """Starts `swath` with these arguments. On AWS it leaves its meters in a folder, if that is named."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self._command(meters), *arguments],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dying_with_parent(),  # noqa: PLW1509 the supervisor has one thread
            )

    def must(self, *arguments: str, meters: str | None = None) -> None:
        """Runs `swath` to its end, which must be a good one."""
        if code := self.start(*arguments, meters=meters).wait():
            said = self.log.read_text(encoding="utf-8", errors="replace")
            raise SystemExit(f"swath {' '.join(arguments)}: exit code {code}\n{said[-2_000:]}")

    def meters(self, name: str) -> Path:
        """The folder of that name."""
        folder = self.folder / f"meters-{name}"
        folder.mkdir(exist_ok=True)
        return folder

    def _command(self, meters: str | None) -> Sequence[str]:
        if meters is None or self.endpoints is None:
            return [sys.executable, "-m", "swath.entrypoints.cli.main"]
        return [sys.executable, "-m", "harness.fleet.metered_cli", str(self.meters(meters))]

    def look(self) -> MeasuredProgress:
        """The job now; one that is not there yet is empty."""
        if self.endpoints is None:
            return _look_into(self.data / "swath.db")
        table = PlainTable(self.endpoints, self.name)
        number = table.number(JOB_ID)
        if number is None:
            return MeasuredProgress("unknown", 0, 0)
        head = table.head(number)
        return MeasuredProgress(head[HeadAt.STATE], head[HeadAt.TOTAL], sum(head[at] for at in _COUNTED))


def _look_into(database: Path) -> MeasuredProgress:
    with sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True) as store:
        row = store.execute("SELECT state, total, success + failed + skipped FROM jobs").fetchone()
    return MeasuredProgress(*row) if row else MeasuredProgress("unknown", 0, 0)


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, in user and system time."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_bytes(pid: int) -> int:
    """The most memory that was resident at once; 0 when the process has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)

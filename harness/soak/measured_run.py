"""Runs a loaded job with real worker processes, some of them killed on the way, and measures progress, memory and log
size.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.processes import dying_with_parent
from harness.soak.job import SoakJob

__all__ = ["Run", "Sample", "run"]

LOOK_SECONDS: Final = 0.5
STALL_SECONDS: Final = 120.0
LEAVE_SECONDS: Final = 60.0
LAST_KILL: Final = 0.9  # of the items; later there might be nobody left to kill


@dataclass(frozen=True)
class Sample:
    """One look. `resident` is the memory of the largest worker, `log` the size of the store's write-ahead log."""

    seconds: float
    ended: int
    resident_bytes: int
    log_bytes: int


@dataclass
class Run:
    """What was seen. `seconds` is until the last item had ended, `ending_seconds` from then until the job had."""

    samples: list[Sample] = field(default_factory=list)
    peak_bytes: int = 0
    kills: int = 0
    seconds: float = 0.0
    ending_seconds: float = 0.0
    cpu_seconds: float = 0.0  # of all workers, those that were killed too

    @property
    def largest_log_bytes(self) -> int:
        """At any look."""
        return max(sample.log_bytes for sample in self.samples)

    @property
    def ending_bytes(self) -> int:
        """The most that the largest worker had at any look after the last item."""
        last = self.samples[-1].ended
        return max(sample.resident_bytes for sample in self.samples if sample.ended == last)

    def resident_at(self, share: float) -> int:
        """The memory of the largest worker when so much of the job was done."""
        wanted = share * max(sample.ended for sample in self.samples)
        return next(sample.resident_bytes for sample in self.samples if sample.ended >= wanted)


class _Workers:
    """The processes at work. One that ends by itself before it is told to is a failure of the run."""

    def __init__(self, job: SoakJob) -> None:
        self._job = job
        self.alive: list[subprocess.Popen[bytes]] = []
        self._cpu_seconds: dict[int, float] = {}

    def start(self) -> None:
        with (self._job.folder / "workers.log").open("ab") as log:
            self.alive.append(
                subprocess.Popen(
                    self._job.command("work"),
                    env=self._job.environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=dying_with_parent(),  # noqa: PLW1509 the supervisor has one thread
                )
            )

    def replace_killed(self) -> None:
        victim = self.alive.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        self.start()

    def check(self) -> None:
        for process in self.alive:
            if process.poll() is not None:
                raise SystemExit(f"a worker ended by itself with code {process.returncode}: see {self._job.folder}")

    def stop(self) -> None:
        for process in self.alive:
            process.send_signal(signal.SIGTERM)
        for process in self.alive:
            process.wait(LEAVE_SECONDS)

    def kill(self) -> None:
        for process in self.alive:
            process.kill()
            process.wait()

    def cpu_seconds(self) -> float:
        """Of all that ever were, up to now or to the last look at them."""
        self._cpu_seconds |= {process.pid: _cpu_seconds(process.pid) for process in self.alive}
        return sum(self._cpu_seconds.values())

    def memory(self, line: str) -> int:
        """Of the largest of them: VmRSS for now, VmHWM for the most so far."""
        return max(_memory(process.pid, line) for process in self.alive)


def run(job: SoakJob, workers: int, kills: int) -> Run:
    """Until the job has ended. Raises SystemExit when nothing happens any more."""
    seen = Run()
    marks = [(number + 1) * LAST_KILL * job.items / (kills + 1) for number in range(kills)]
    with _started(job, workers) as pack, sqlite3.connect(f"{job.database.as_uri()}?mode=ro", uri=True) as store:
        began = moved = time.monotonic()
        state = "pending"
        while state in {"pending", "running"}:
            time.sleep(LOOK_SECONDS)
            pack.check()
            state, ended = store.execute("SELECT state, success + failed + skipped + cancelled FROM jobs").fetchone()
            now = time.monotonic()
            if not seen.samples or ended > seen.samples[-1].ended or ended == job.items:
                moved = now
            seen.samples.append(_look(job, pack, now - began, ended))
            seen.peak_bytes = max(seen.peak_bytes, pack.memory("VmHWM"))
            if ended < job.items:
                seen.cpu_seconds = pack.cpu_seconds()
            if seen.kills < kills and ended >= marks[seen.kills]:
                pack.replace_killed()
                seen.kills += 1
            if now - moved > STALL_SECONDS:
                raise SystemExit(f"nothing has ended for {STALL_SECONDS:g} s: see {job.folder}")
        pack.stop()
        seen.seconds, seen.ending_seconds = store.execute(
            "SELECT last - started_at, jobs.ended_at - last FROM jobs, (SELECT max(ended_at) AS last FROM outcomes)"
        ).fetchone()
    return seen


@contextmanager
def _started(job: SoakJob, workers: int) -> Iterator[_Workers]:
    pack = _Workers(job)
    try:
        for _ in range(workers):
            pack.start()
        yield pack
    finally:
        pack.kill()


def _look(job: SoakJob, pack: _Workers, seconds: float, ended: int) -> Sample:
    return Sample(round(seconds, 1), ended, pack.memory("VmRSS"), job.log_bytes())


def _memory(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0  # it has just ended


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

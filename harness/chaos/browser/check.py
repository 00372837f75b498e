"""Checks after a run in browsers: attempts within bounds, no process left behind, and stable memory."""

from __future__ import annotations

import json
import sqlite3
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from harness.chaos.browser.browser_killer import left_behind
from harness.chaos.browser.job import ITEM_SECONDS
from harness.chaos.findings import Findings, Kind
from harness.chaos.job import ChaosJob
from harness.processes import RigProcess
from swath.fetch.browser.chromium.launch import tree_bytes

__all__ = ["Memory", "Sample", "Tries", "check_attempts", "check_left_behind", "check_memory"]

EVERY_SECONDS: Final = 2.0
GROWN_UP_SECONDS: Final = 15.0  # a younger worker has not loaded everything yet


@dataclass(frozen=True)
class Sample:
    """At one moment: how many items were done, what workers have each on the average, and what all have with their
    browsers."""

    done: int
    worker_bytes: float
    all_bytes: int


@dataclass
class Memory:
    """A row of samples."""

    samples: list[Sample] = field(default_factory=list)
    _last: float = 0.0

    def look(self, now: float, done: int, workers: Sequence[RigProcess]) -> None:
        """If it is time again."""
        old = [worker for worker in workers if now - worker.started_at > GROWN_UP_SECONDS]
        if now - self._last < EVERY_SECONDS or not old:
            return
        self._last = now
        own = [size for worker in old if (size := _rss(worker.pid))]
        if own:
            everything = sum(tree_bytes(worker.pid) for worker in workers)
            self.samples.append(Sample(done, statistics.mean(own), everything))

    def of_fifth(self, number: int, items: int) -> tuple[float, float] | None:
        """Medians of worker and all, in that fifth of the items; None when nobody looked."""
        part = [one for one in self.samples if number - 1 <= 5 * one.done / items < number]
        if not part:
            return None
        middle = statistics.median
        return middle(one.worker_bytes for one in part), middle(one.all_bytes for one in part)


def _rss(pid: int) -> int:
    with suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


MOST_GROWTH: Final = 1.25
CLOSE_SECONDS: Final = 20.0  # beyond the item's own time: closing what hangs, and a machine with other work
GONE_SECONDS: Final = 3.0


@dataclass(frozen=True)
class Tries:
    """All attempts that were kept: how many ended how, and the longest of them."""

    by_kind: dict[str, int]
    longest_seconds: float


def check_attempts(job: ChaosJob, findings: Findings) -> Tries:
    """None took longer than an attempt may."""
    kinds: Counter[str] = Counter()
    longest = 0.0
    with closing(sqlite3.connect(f"file:{job.database}?mode=ro", uri=True)) as db:
        for (ended,) in db.execute("SELECT ended FROM outcomes"):
            for tried in json.loads(ended).get("attempts", ()):
                kinds[(tried.get("failure") or {}).get("kind", "none")] += 1
                longest = max(longest, tried["ended_at"] - tried["started_at"])
    most = ITEM_SECONDS + CLOSE_SECONDS
    findings.expect(longest <= most, Kind.WRONG, "attempts", f"one took {longest:.1f} s, and {most:g} s are allowed")
    return Tries(dict(sorted(kinds.items())), round(longest, 1))


def check_left_behind(data: Path, findings: Findings) -> None:
    """No process and no folder of a browser. The system may need a moment to bury the last."""
    deadline = time.monotonic() + GONE_SECONDS
    while (left := left_behind(data)) != ([], []) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left[0]:
        findings.add(Kind.STRAY, f"process {pid}", "a browser has outlived its worker")
    for name in left[1]:
        findings.add(Kind.STRAY, name, "the folder of a browser was left behind")


def check_memory(memory: Memory, items: int, findings: Findings) -> tuple[float, float] | None:
    """How much more there is in the last fifth of the items than in the second: workers, and all. None: too short."""
    early, late = memory.of_fifth(2, items), memory.of_fifth(5, items)
    if early is None or late is None:
        return None
    for name, before, after in zip(("workers", "all processes"), early, late, strict=True):
        what = f"{after / 2**20:.0f} MiB at the end, {before / 2**20:.0f} MiB early on"
        findings.expect(after <= MOST_GROWTH * before, Kind.WRONG, f"memory of {name}", what)
    return late[0] / early[0], late[1] / early[1]

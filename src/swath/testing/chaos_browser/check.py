"""What must hold after a run in browsers, beside the independent count: attempts within their bounds, nothing left
behind, and as much memory at the end as early on. Called by `__main__`."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from swath.testing.chaos.findings import Findings, Kind
from swath.testing.chaos.job import ChaosJob
from swath.testing.chaos_browser.hunt import left_behind
from swath.testing.chaos_browser.job import ITEM_SECONDS
from swath.testing.chaos_browser.memory import Memory

__all__ = ["Tries", "check_attempts", "check_left_behind", "check_memory"]

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

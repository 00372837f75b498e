"""Processes that stop themselves at a named point of the product, drawn at random.

The points come from observe/crash_points.py, so a new one is covered by itself. Before: the process runs under a module
that reads SWATH_FREEZE_AT (swath.testing.crash, chaos_aws.armed). After: whoever started it wakes it with SIGCONT.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final, NamedTuple

from swath.observe.crash_points import ENDING_POINTS, POINTS

__all__ = ["FREEZE_AT", "WORKER_POINTS", "PlannedFreeze", "draw_freeze", "is_stopped"]

FREEZE_AT: Final = "SWATH_FREEZE_AT"
# What workers do begins when the job is loaded.
WORKER_POINTS: Final = tuple(dict.fromkeys((*POINTS[POINTS.index("before_seal") + 1 :], *ENDING_POINTS)))
_OF_THE_ENDING: Final = 0.75


class PlannedFreeze(NamedTuple):
    """A process stops when it reaches the point for the `hit`-th time. Not every ending comes by every point of one, so
    whoever has missed it stops at the last, by which all come."""

    point: str
    hit: int

    @property
    def in_the_ending(self) -> bool:
        """Whether the process stops while it ends a job."""
        return self.point in ENDING_POINTS

    @property
    def environment(self) -> dict[str, str]:
        """What arms the process."""
        last = f",{ENDING_POINTS[-1]}:1" if self.in_the_ending else ""
        return {FREEZE_AT: f"{self.point}:{self.hit}{last}"}


def draw_freeze(luck: random.Random, *, anywhere: bool = True) -> PlannedFreeze:
    """Most are in the ending, where a process that wakes up late can do the most harm; all, unless `anywhere`."""
    if not anywhere or luck.random() < _OF_THE_ENDING:
        return PlannedFreeze(luck.choice(ENDING_POINTS), 1)
    others = [point for point in WORKER_POINTS if point not in ENDING_POINTS and point != "after_rescue"]
    return PlannedFreeze(luck.choice(others), luck.randint(1, 3))


def is_stopped(pid: int) -> bool:
    """Whether the process stands still, by its own SIGSTOP or by another's."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False

"""Bounds against what hangs or runs away; wide enough that no test fails because the machine is slow or busy."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["HANGING_SECONDS", "RUNAWAY_CPU_SECONDS", "cpu_seconds"]

HANGING_SECONDS = 60.0
RUNAWAY_CPU_SECONDS = 30.0
"""Work that is bounded takes milliseconds of CPU; work that is not takes minutes."""


def cpu_seconds(work: Callable[[], object], *, tries: int = 3) -> float:
    """The least CPU time of some tries. Compare it with that of other work in the same test, never with a figure."""
    spent: list[float] = []
    for _ in range(tries):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)

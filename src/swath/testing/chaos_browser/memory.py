"""Memory: what the processes of a chaos run have, looked at every few seconds; is it as much at the end as early on?

storm.py samples; report.py shows the figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import psutil

from swath.browser.chromium.memory import tree_bytes
from swath.testing.chaos.processes import Process

__all__ = ["Memory", "Sample"]

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

    def look(self, now: float, done: int, workers: Sequence[Process]) -> None:
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

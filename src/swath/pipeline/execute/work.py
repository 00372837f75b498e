"""Work: an item in this worker's hands. Running: one attempt at it, until it ends or is given up."""

from __future__ import annotations

import asyncio

from swath.domain.attempt import Attempt, Tries
from swath.domain.errors import LeaseLost
from swath.domain.lease import LeasedItem
from swath.pipeline.execute.attempt import Tried

__all__ = ["Running", "Work"]


class Work:
    """An item with its history so far."""

    __slots__ = ("attempts", "item", "tries")

    def __init__(self, item: LeasedItem) -> None:
        self.item = item
        self.tries: Tries = item.tries
        self.attempts: tuple[Attempt, ...] = item.attempts


class Running:
    """An attempt under way. What a scraper does after `end` was called has no effect and reaches no site."""

    __slots__ = ("over", "started_at", "task", "timer", "work")

    def __init__(self, work: Work, started_at: float) -> None:
        self.work = work
        self.started_at = started_at
        self.over = False
        self.task: asyncio.Task[Tried] | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def seq(self) -> int:
        """The item's number."""
        return self.work.item.seq

    def check(self) -> None:
        """Raises LeaseLost when the attempt was given up: its scraper did not stop when it was told to."""
        if self.over:
            raise LeaseLost(f"the attempt at item {self.seq} was given up")

    def end(self) -> None:
        """Its outcome is settled."""
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None and not self.task.done():
            self.task.cancel()

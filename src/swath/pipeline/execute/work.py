"""Work: an item in this worker's hands. Running: one attempt at it, until it ends or is given up."""

from __future__ import annotations

import asyncio

from swath.domain.attempt import Attempt, Tries
from swath.domain.lease import LeasedItem
from swath.pipeline.execute.attempt import Tried
from swath.pipeline.execute.browsers import Place
from swath.pipeline.execute.patience import Patience

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

    __slots__ = (
        "asked_at",
        "held_back",
        "interrupted",
        "over",
        "patience",
        "place",
        "sent",
        "seq",
        "started_at",
        "task",
        "timer",
        "work",
    )

    def __init__(self, work: Work, started_at: float, asked_at: float, place: Place | None, patience: Patience) -> None:
        self.work = work
        self.seq = work.item.seq
        self.place = place
        self.started_at = started_at
        self.asked_at = asked_at  # when the book let it start, on the boot clock
        self.patience = patience
        self.over = False
        self.interrupted = False  # by us, because the worker stops
        self.held_back = False  # a request of it was refused, because the lease may be over or the job has stopped
        self.sent = False  # a request of it has left
        self.task: asyncio.Task[Tried] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        """Its outcome is settled."""
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
        if self.task is not None and not self.task.done():
            self.task.cancel()

"""What the memory store keeps of each job, item and lease. shelves.py holds all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from swath.domain.attempt import Ended, Finding
from swath.domain.item import Item
from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.domain.transitions import ItemState, JobState
from swath.ports.job_store import Batch, Loaded

__all__ = ["StoredItem", "StoredJob", "StoredLease", "StoredShare"]

PACE_SECONDS = 5.0


@dataclass(slots=True)
class StoredItem:
    """An item. `fence` is that of the lease which holds it or has ended it, 0 when nobody does.

    `came_back` orders items that were leased before (they go first); `due` is when it may be leased, by the boot clock.
    """

    item: Item
    fence: int = 0
    due: float = 0.0
    came_back: bool = False
    progress: LeasedItem | None = None
    ended: Ended | None = None

    def leased(self) -> LeasedItem:
        """The item as its next worker gets it."""
        return self.progress or LeasedItem(self.item.seq, self.item.item_id, self.item.input)

    def give_back(self, due: float, progress: LeasedItem) -> None:
        """Nobody holds it any more."""
        self.fence, self.due, self.came_back, self.progress = 0, due, True, progress


@dataclass(slots=True)
class StoredLease:
    """A lease. `worker_id` is who answers for it: its worker, or, once `rescued`, the one that cleans up after it."""

    fence: int
    job_id: str
    worker_id: str
    ending: bool
    heard_at: float
    expires_at: float
    seqs: tuple[int, ...] = ()
    rescued: bool = False


@dataclass(slots=True)
class StoredShare:
    """What a worker with leases of a job has of its concurrency, and what it last reported, over all these leases."""

    slots: int = 0
    demand: int = 0
    queued: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()


@dataclass(slots=True)
class StoredJob:
    """A job with its items by `seq`, its batches in order, and its counters."""

    order: Job
    state: JobState = JobState.LOADING
    cancelling: bool = False
    shares: dict[str, StoredShare] = field(default_factory=dict)  # by worker
    items: dict[int, StoredItem] = field(default_factory=dict)
    seqs: dict[str, int] = field(default_factory=dict)
    batches: list[tuple[Batch, Loaded]] = field(default_factory=list)
    ended: dict[ItemState, int] = field(default_factory=lambda: dict.fromkeys(ItemState, 0))
    not_found: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    marks: list[tuple[float, int]] = field(default_factory=list)  # the last two: when (boot), and how many had ended
    last_pace: float = 0.0
    manifest: Mapping[str, Any] | None = None

    @property
    def limit(self) -> int:
        """Items that may run at once."""
        return self.order.policy.throttling.max_concurrent_workers

    @property
    def remaining(self) -> int:
        """Items that have not ended, by the counters."""
        return len(self.items) - sum(self.ended.values())

    def claimable(self, boot: float) -> list[StoredItem]:
        """Items that may be leased now: what came back first, by the time it was due, then the fresh ones."""
        free = [i for i in self.items.values() if i.ended is None and not i.fence and i.due <= boot]
        return sorted(free, key=lambda i: (not i.came_back, i.due, i.item.seq))

    def count(self, end: Ended) -> None:
        """Moves the counters by one ended item."""
        self.ended[end.state] += 1
        self.not_found += end.finding is Finding.NOT_FOUND
        if end.state is ItemState.FAILED and end.failure is not None:
            kind = end.failure.kind.value
            self.failures[kind] = self.failures.get(kind, 0) + 1

    def mark(self, boot: float) -> None:
        """Notes how far the job is, no more than once in some seconds."""
        if not self.marks or boot - self.marks[-1][0] >= PACE_SECONDS:
            self.marks = [*self.marks[-1:], (boot, sum(self.ended.values()))]

    def items_per_second(self, boot: float) -> float:
        """The pace since the mark before the last one; a job that is over keeps the one it ended with."""
        if self.state.terminal:
            return self.last_pace
        if not self.marks or boot <= self.marks[0][0]:
            return 0.0
        since, ended = self.marks[0]
        return (sum(self.ended.values()) - ended) / (boot - since)

"""What the memory store keeps of each job, item and lease. shelves.py holds all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from swath.domain.attempt import Attempt, Ended, Finding, HandedBack, Tries
from swath.domain.circuit import Circuit, unreleased
from swath.domain.ending import EndingProgress
from swath.domain.item import Item, PastEnd
from swath.domain.job import Job, Stopping
from swath.domain.lease import LeasedItem
from swath.domain.pace import Pace, begun, overall, per_second
from swath.domain.transitions import ItemState, JobState
from swath.domain.webhook import Webhook
from swath.ports.job_store import Batch, Loaded, LoadStart

__all__ = ["Right", "StoredItem", "StoredJob", "StoredLease", "StoredShare"]


@dataclass(slots=True)
class StoredItem:
    """An item. `fence` is that of the lease which holds it or has ended it, 0 when nobody does.

    `came_back` orders items that were leased before (they go first); `due` is when it may be leased, by the boot clock.
    `past` is its end in this generation, if it has ended, and `earlier` are those before.
    """

    item: Item
    fence: int = 0
    due: float = 0.0
    came_back: bool = False
    tries: Tries = field(default_factory=Tries)
    attempts: tuple[Attempt, ...] = ()
    suspect: bool = False
    silences: int = 0  # of its workers while it ran alone, since it was last tried
    past: PastEnd | None = None
    earlier: tuple[PastEnd, ...] = ()

    @property
    def ended(self) -> Ended | None:
        """How it has ended in this generation."""
        return None if self.past is None else self.past.end

    @property
    def never_began(self) -> bool:
        """Whether no attempt at it is known."""
        return not self.suspect and not self.attempts and self.tries == Tries()

    def leased(self) -> LeasedItem:
        """The item as its next worker gets it."""
        return LeasedItem(self.item.seq, self.item.item_id, self.item.input, self.tries, self.attempts)

    def give_back(self, due: float = 0.0) -> None:
        """Nobody holds it any more."""
        self.fence, self.due, self.came_back = 0, due, True

    def take_progress(self, back: HandedBack) -> None:
        """What its worker did to it; a suspect that was tried and killed nobody is none any more."""
        tried = (back.tries, back.attempts) != (self.tries, self.attempts)
        self.suspect = self.suspect and not tried
        self.silences = 0 if tried else self.silences
        self.tries, self.attempts = back.tries, back.attempts

    def begin_again(self) -> None:
        """A new generation: its end becomes one of the earlier ones."""
        assert self.past is not None  # noqa: S101 only ended items are selected
        self.earlier += (self.past,)
        self.past, self.fence, self.due, self.came_back = None, 0, 0.0, False
        self.tries, self.attempts, self.suspect, self.silences = Tries(), (), False, 0


class Right(Enum):
    """What a lease allows its worker."""

    RUN = "run"
    END = "end"
    DELETE = "delete"


@dataclass(slots=True)
class StoredLease:
    """A lease. `worker_id` is who answers for it: its worker, or, once `rescued`, the one that cleans up after it."""

    fence: int
    job_id: str
    worker_id: str
    right: Right
    revision: int
    heard_at: float = 0.0
    expires_at: float = 0.0
    seqs: tuple[int, ...] = ()
    alone: bool = False
    running: set[int] = field(default_factory=set)  # begun and not left
    rescued: bool = False
    progress: EndingProgress | None = None  # of the right to end a job


@dataclass(slots=True)
class StoredShare:
    """What a worker with leases of a job has of its concurrency, and what it last reported, over all these leases."""

    slots: int = 0
    demand: int = 0
    queued: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()


@dataclass(slots=True)
class StoredJob:
    """A job with its items by `seq`, its batches in order, and its counters. `first_order` is what was submitted.

    `served` is how many leases had been granted in all when it last got one, or when it became ready to run.
    """

    order: Job
    number: int
    first_order: Job
    revision: int = 0
    state: JobState = JobState.LOADING
    stopping: Stopping | None = None
    deleting: bool = False
    generation: int = 1
    circuit: Circuit = field(default_factory=Circuit)
    served: int = 0
    shares: dict[str, StoredShare] = field(default_factory=dict)  # by worker
    items: dict[int, StoredItem] = field(default_factory=dict)
    total: int = 0
    seqs: dict[str, int] = field(default_factory=dict)
    batches: list[tuple[Batch, Loaded]] = field(default_factory=list)
    load_starts: dict[str, LoadStart] = field(default_factory=dict)  # by key
    ending_deaths: int = 0
    ending_due: float = 0.0  # by the boot clock: before then nobody tries to end it
    ended: dict[ItemState, int] = field(default_factory=lambda: dict.fromkeys(ItemState, 0))
    not_found: int = 0
    cost: float = 0.0  # of its ended items, over all generations
    failures: dict[str, int] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    pace: Pace = field(default_factory=Pace)
    ran_before: int = 0  # items that were run by earlier generations
    manifest: Mapping[str, Any] | None = None
    webhooks: dict[int, Webhook] = field(default_factory=dict)  # by generation
    versions: int = 1
    current_version: int = 1
    scraper_versions: tuple[str, ...] = ()

    @property
    def limit(self) -> int:
        """Items that may run at once."""
        return self.order.policy.throttling.max_concurrent_workers

    @property
    def rows(self) -> int:
        """Of its source, so far."""
        return sum(batch.rows for batch, _ in self.batches)

    @property
    def remaining(self) -> int:
        """Items that have not ended, by the counters."""
        return self.total - sum(self.ended.values())

    @property
    def may_start(self) -> bool:
        """Whether items of it may be leased and started."""
        return self.state in (JobState.PENDING, JobState.RUNNING) and self.stopping is None and not self.deleting

    def claimable(self, boot: float) -> list[StoredItem]:
        """Items that may be leased now: suspects, then what came back, by the time it was due, then the fresh ones.

        Of those that never began only as many as the circuit has not yet released.
        """
        free = [i for i in self.items.values() if i.past is None and not i.fence and i.due <= boot]
        free.sort(key=lambda i: (not i.suspect, not i.came_back, i.due, i.item.seq))
        most = unreleased(self.circuit, self.order.policy.circuit_breaker)
        held_back = {i.item.seq for i in [i for i in free if i.never_began][most:]} if most is not None else set()
        return [i for i in free if i.item.seq not in held_back]

    def count(self, end: Ended, by: int = 1) -> None:
        """Moves the counters by one ended item, or back."""
        self.ended[end.state] += by
        self.not_found += by if end.finding is Finding.NOT_FOUND else 0
        if end.state is ItemState.FAILED and end.failure is not None:
            kind = end.failure.kind.value
            self.failures[kind] = self.failures.get(kind, 0) + by
            if not self.failures[kind]:
                del self.failures[kind]

    def release(self, items: int) -> None:
        """So many items that never began were handed out, or came back if negative."""
        self.circuit = msgspec.structs.replace(self.circuit, released=self.circuit.released + items)

    def close_circuit(self) -> None:
        """A new one, to which all that is held, or has begun and waits, was released."""
        unfinished = [stored for stored in self.items.values() if stored.past is None]
        self.circuit = Circuit(released=sum(bool(i.fence) or not i.never_began for i in unfinished))

    def mark(self, boot: float) -> None:
        """Its pace is measured from now on: it has started, or goes on after a break."""
        self.pace = begun(boot)

    @property
    def ran(self) -> int:
        """Items that ended otherwise than by being cancelled, by the counters."""
        return sum(self.ended.values()) - self.ended[ItemState.CANCELLED]

    def items_per_second(self, boot: float) -> float:
        """The present pace; a job that is over has that of its last generation as a whole."""
        if self.state.terminal and self.ended_at is not None:
            return overall(self.ran - self.ran_before, self.started_at, self.ended_at)
        return per_second(self.pace, boot, self.limit)

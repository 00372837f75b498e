"""Hand: one lease in a worker's hands, and what is to be committed of it. Decides nothing about slots or time.

worker.py moves items through it: ready, running, perhaps waiting for a retry, then in the outbox.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from swath.domain.attempt import Attempt, Ended, Finding, HandedBack, Tries
from swath.domain.failure import Failure
from swath.domain.lease import Lease
from swath.domain.retry import RetryIn, decide
from swath.domain.transitions import ItemState
from swath.pipeline.execute.slots import JobSlots
from swath.pipeline.execute.work import Work

__all__ = ["Hand"]

RETRY_IN_PLACE_SECONDS = 10.0


class Hand:
    """`is_closed` says whether a suspect keeps its items from starting. `announced`: of a suspect the commit under way
    says that it has begun; `committed`: it is durable."""

    def __init__(self, lease: Lease, slots: JobSlots, is_closed: Callable[[Hand], bool]) -> None:
        self.lease = lease
        self.slots = slots
        self.queue = deque(Work(item) for item in lease.items)
        self.running: dict[int, Work] = {}
        self.waiting: dict[int, Work] = {}
        self.outbox: list[Ended | HandedBack] = []
        self.stopping = False
        self.lost = False
        self.announced = False
        self.committed = False
        self.heard_at = 0.0  # when its last word was sent that has an answer, on the boot clock
        self._is_closed = is_closed

    @property
    def ready(self) -> int:
        """Items that could start at once, had they slots."""
        return 0 if self._is_closed(self) else len(self.queue)

    @property
    def drained(self) -> bool:
        """Whether no item is left in the worker's hands, written outcomes apart."""
        return not (self.queue or self.running or self.waiting)

    @property
    def hungry(self) -> bool:
        """Whether the store owes it something that it could use."""
        return bool(self.ready and (self.slots.owed or self.lease.alone))

    def may_start(self) -> bool:
        """Whether its next item may start now."""
        if not self.queue or self.stopping:
            return False
        return self.committed if self.lease.alone else not self._is_closed(self) and self.slots.free > 0

    def announce(self) -> None:
        """A suspect takes its slot before it starts."""
        if self.lease.alone and self.ready and not self.stopping and self.slots.free > 0 and not self.announced:
            self.announced = True
            self.slots.begin(self.queue[0].item.seq)

    def tried(self, work: Work, attempt: Attempt, luck: float) -> float | None:
        """Decides what an attempt means; answers with the seconds after which it is to be tried again here."""
        work.attempts = (*work.attempts, attempt)
        if attempt.failure is None:
            work.tries = Tries(work.tries.own + 1, work.tries.infrastructure, work.tries.crashes)
            self._end(work, ItemState.SUCCESS, None)
            return None
        decision = decide(self.lease.job.policy.retries, attempt.failure, work.tries, luck)
        work.tries = decision.tries
        if not isinstance(decision, RetryIn):
            self._end(work, ItemState.FAILED, attempt.failure)
        elif self.stopping or self.lease.alone or decision.delay_seconds > RETRY_IN_PLACE_SECONDS:
            self._hand_back(work, decision.delay_seconds)
        else:
            self.waiting[work.item.seq] = work
            return decision.delay_seconds
        return None

    def stop(self) -> None:
        """Starts nothing more; what has not begun goes back."""
        self.stopping = True
        if self.announced:
            self.announced = False
            self.slots.give(self.queue[0].item.seq)
        for work in (*self.queue, *self.waiting.values()):
            self._hand_back(work, 0.0)
        self.queue.clear()
        self.waiting.clear()

    def _end(self, work: Work, state: ItemState, failure: Failure | None) -> None:
        found = Finding.FOUND if state is ItemState.SUCCESS else None
        ended = Ended(
            seq=work.item.seq, state=state, finding=found, failure=failure, attempts=work.attempts, tries=work.tries
        )
        self.outbox.append(ended)

    def _hand_back(self, work: Work, delay_seconds: float) -> None:
        self.outbox.append(
            HandedBack(seq=work.item.seq, delay_seconds=delay_seconds, attempts=work.attempts, tries=work.tries)
        )

"""Runner: starts the items of one lease while there are slots, and pretends to fetch their pages.

Before: worker.py claims the lease. After: committer.py writes what ends here. As pipeline/execute/runner.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from swath.domain.attempt import Attempt
from swath.domain.failure import Failure, FailureKind
from swath.pipeline.execute.work import Work
from swath.testing.simulation.floor import Floor
from swath.testing.simulation.hand import Hand

__all__ = ["Runner"]

PAGE_SECONDS: Final = (0.05, 2.0)
FAILS: Final = 0.03  # of all attempts, and may be tried again
FAILS_FOR_GOOD: Final = 0.005
_AGAIN: Final = Failure.of(FailureKind.SERVER_ERROR, "pretended")
_FOR_GOOD: Final = Failure.of(FailureKind.NOT_FOUND_PAGE, "pretended")


class Runner:
    """The committer sets `on_outcome`, which hears of all that goes to the outbox, and `on_ready`, of missing slots."""

    def __init__(self, hand: Hand, floor: Floor) -> None:
        self.hand = hand
        self.floor = floor
        self.job_id = hand.lease.job.job_id
        self.on_outcome: Callable[[], None] = lambda: None
        self.on_ready: Callable[[], None] = lambda: None
        self._site = hand.lease.job.sites[0]
        self._sent: dict[int, float] = {}  # open requests, and since when
        floor.line.join(self)

    def start_ready(self) -> None:
        """Fills the free slots."""
        while self.start_next():
            pass

    def start_next(self) -> bool:
        """Starts one item, if there is a slot and the store lets it; whether it did."""
        hand, floor = self.hand, self.floor
        if not hand.may_start():
            return False
        if not floor.store.begin(hand.lease, hand.queue[0].item.seq):
            hand.stop()
            self.on_outcome()
            return False
        work = hand.queue.popleft()
        hand.running[work.item.seq] = work
        if not hand.announced:
            hand.slots.take(work.item.seq)
        hand.announced = hand.committed = False
        floor.world.truth.begins(self.job_id, floor.now)
        floor.lane(self._site).join(functools.partial(self._send, work))
        return True

    def die(self) -> None:
        """Its worker is gone, with all that ran."""
        truth = self.floor.world.truth
        for seq in self.hand.running:
            truth.leaves(self.job_id)
            if seq in self._sent:
                truth.closes(self._site, self.job_id, self.floor.now, None)

    def _send(self, work: Work) -> None:
        world = self.floor.world
        seq = work.item.seq
        self.hand.slots.begin(seq)
        self._sent[seq] = world.clock.now()
        world.truth.opens(self._site, self.job_id, world.events.elapsed)
        self.floor.after(world.rng.uniform(*PAGE_SECONDS), functools.partial(self._answered, work))

    def _answered(self, work: Work) -> None:
        hand, world, seq = self.hand, self.floor.world, work.item.seq
        sent_at, now = self._sent.pop(seq), world.clock.now()
        world.truth.closes(self._site, self.job_id, self.floor.now, now - sent_at)
        world.truth.leaves(self.job_id)
        del hand.running[seq]
        hand.slots.give(seq)
        attempt = Attempt(sent_at, now, self.floor.worker_id, self._failure(), requests=1)
        if attempt.failure is not None and attempt.failure.rule.job_circuit:
            hand.slots.fail()
            self.on_ready()
        again_seconds = None if hand.lost else hand.tried(work, attempt, world.rng.random())
        if again_seconds is not None:
            self.floor.after(again_seconds, functools.partial(self._ready_again, seq))
        elif not hand.lost:
            self.on_outcome()
        self.floor.lane(self._site).release()
        self.floor.line.fill()
        if not hand.ready:
            self.floor.stir()

    def _failure(self) -> Failure | None:
        if self.job_id in self.floor.world.doomed:
            return _AGAIN
        drawn = self.floor.world.rng.random()
        return _AGAIN if drawn < FAILS else _FOR_GOOD if drawn < FAILS + FAILS_FOR_GOOD else None

    def _ready_again(self, seq: int) -> None:
        work = self.hand.waiting.pop(seq, None)
        if work is not None:
            self.hand.queue.appendleft(work)
            self.start_ready()
            if self.hand.queue and self.hand.slots.unheard:
                self.on_ready()
            self.floor.stir()

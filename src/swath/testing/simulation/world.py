"""World: what all parts of a simulation share: time, stores, sites, hints, truth, and how long an answer takes.

simulation.py makes one; worker.py and keeper.py live in it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from swath.backends.memory.site_book import MemorySiteBook
from swath.domain.lease import Lease
from swath.ports.site_book import FAR
from swath.ports.work_queue import Hint
from swath.testing.clock import FakeClock
from swath.testing.simulation.events import Events
from swath.testing.simulation.ledger import Stores
from swath.testing.simulation.plan import Plan
from swath.testing.simulation.truth import Truth
from swath.testing.simulation.turns import Claimer, Turns

__all__ = ["HintQueue", "World"]

ANSWER_SECONDS: Final = (0.005, 0.02)
# One change of a job's head keeps the next one waiting: some 50 in a second. No shorter than an answer, so that a
# worker hears of its changes of a job in their order, as it does where a lock in its process sees to that.
HEAD_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 20.0  # at the queue, before the store is asked all the same


class World:
    """Everything that is drawn by chance comes from `rng`."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        limits = {each.job.job_id: each.limit for each in plan.jobs}
        self.plan = plan
        self.rng = random.Random(f"run {plan.seed}")  # noqa: S311 a simulation must be repeatable
        self.clock = FakeClock()
        self.events = Events(self.clock)
        self.truth = Truth(plan)
        self.stores = Stores(self.clock, folder, limits, self.truth.opened)
        self.sites = MemorySiteBook(self.clock, FAR)
        self.hints = HintQueue(self.events)
        self.turns = Turns(limits, lambda job_id: self.truth.jobs[job_id].began_at)
        self.doomed = {each.job.job_id for each in plan.jobs if each.doomed}
        self.arrived: set[str] = set()
        self.commits = 0
        self.claims_in_vain = 0
        self.lost_leases = 0  # by workers that lived
        self._heads_free_at: dict[str, float] = {}

    @property
    def ended(self) -> int:
        """Items that have ended."""
        return sum(job.ended for job in self.truth.jobs.values())

    def answer_seconds(self) -> float:
        """How long a request takes there and back."""
        return self.rng.uniform(*ANSWER_SECONDS)

    def head_turn(self, job_id: str) -> float:
        """When a change of a job that is wanted now has been made: each has to wait for those before it."""
        begins = max(self.events.now, self._heads_free_at.get(job_id, 0.0))
        self._heads_free_at[job_id] = begins + HEAD_SECONDS
        return begins + HEAD_SECONDS

    def claimed(self, lease: Lease | None, without: Collection[str]) -> None:
        """Somebody has asked for work, and this is what it got."""
        if lease is None:
            self.claims_in_vain += 1
        else:
            claimer = Claimer(lease.job.job_id, without)
            self.turns.granted(claimer, self.stores.heads.seen(), self.stores.time.now(), self.events.now)

    def look(self) -> None:
        """Once a second."""
        self.turns.look(self.stores.heads.seen(), self.stores.time.now(), self.events.now)
        self.truth.look(self.arrived, self.events.now)


class HintQueue:
    """A WorkQueue of which workers are called instead of waiting. Nothing is lost here: tests/aws has that."""

    patience_seconds = PATIENCE_SECONDS

    def __init__(self, events: Events) -> None:
        self._events = events
        self._waiting: deque[Hint] = deque()
        self._idle: dict[str, Callable[[], None]] = {}

    def listen(self, worker_id: str, on_hint: Callable[[], None]) -> None:
        """A worker is idle from now on; it is called once."""
        if self._waiting:
            self._waiting.popleft()
            self._events.after(ANSWER_SECONDS[1], on_hint)
        else:
            self._idle[worker_id] = on_hint

    def leave(self, worker_id: str) -> None:
        """It is not idle any more."""
        self._idle.pop(worker_id, None)

    async def announce(self, hints: Sequence[Hint]) -> None:
        for hint in hints:
            if self._idle:
                on_hint = self._idle.pop(next(iter(self._idle)))
                self._events.after(ANSWER_SECONDS[1], on_hint)
            else:
                self._waiting.append(hint)

    async def wait(self, seconds: float) -> Hint | None:
        raise NotImplementedError("workers listen")

    async def keep(self) -> None:
        """Nothing runs out."""

    async def settle(self, job_id: str) -> None:
        """Hints are used up when they are given."""

    async def waiting(self) -> int:
        return len(self._waiting)

    async def close(self) -> None:
        """There is nothing to give back."""

"""What all parts of a simulation share: time and its events, stores, sites, hints, and how long an answer takes."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from harness.simulate.actual import ActualRuns
from harness.simulate.fairness import Claimer, FairnessCheck
from harness.simulate.memory_store import Stores
from harness.simulate.plan import Plan
from swath.domain.lease import Lease
from swath.ports.site_state import REMOTE_SYNC
from swath.ports.work_queue import WorkHint
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState

__all__ = ["Act", "Events", "HintQueue", "World"]

Act = Callable[[], Awaitable[None] | None]


class Events:
    """Of two at one time the first that was planned goes first, so that a run is the same for the same seed."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._began = clock.boot()
        self._order = itertools.count()
        self._planned: list[tuple[float, int, Act]] = []
        self.played = 0

    @property
    def now(self) -> float:
        """Seconds on the boot clock."""
        return self._clock.boot()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self._clock.boot() - self._began

    def at(self, when: float, act: Act) -> None:
        """Plans something; what should have been before now comes now."""
        heapq.heappush(self._planned, (when, next(self._order), act))

    def after(self, seconds: float, act: Act) -> None:
        """The same, from now on."""
        self.at(self._clock.boot() + seconds, act)

    async def play(self, over: Callable[[], bool]) -> None:
        """Until it is over or nothing is planned any more."""
        while self._planned and not over():
            when, _, act = heapq.heappop(self._planned)
            if when > self._clock.boot():
                self._clock.advance(when - self._clock.boot())
            self.played += 1
            doing = act()
            if doing is not None:
                await doing


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
        self.truth = ActualRuns(plan)
        self.stores = Stores(self.clock, folder, limits, self.truth.opened)
        self.sites = MemorySiteState(self.clock, REMOTE_SYNC)
        self.hints = HintQueue(self.events)
        self.turns = FairnessCheck(limits, lambda job_id: self.truth.jobs[job_id].began_at)
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
    """A WorkQueue that calls its workers. Nothing is lost here: tests/integration/aws has that."""

    patience_seconds = PATIENCE_SECONDS

    def __init__(self, events: Events) -> None:
        self._events = events
        self._waiting: deque[WorkHint] = deque()
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

    async def announce(self, hints: Sequence[WorkHint]) -> None:
        for hint in hints:
            if self._idle:
                on_hint = self._idle.pop(next(iter(self._idle)))
                self._events.after(ANSWER_SECONDS[1], on_hint)
            else:
                self._waiting.append(hint)

    async def wait(self, seconds: float) -> WorkHint | None:
        raise NotImplementedError("workers listen")

    async def keep(self) -> None:
        """Nothing runs out."""

    async def settle(self, job_id: str) -> None:
        """Hints are used up when they are given."""

    async def waiting(self) -> int:
        return len(self._waiting)

    async def close(self) -> None:
        """There is nothing to give back."""

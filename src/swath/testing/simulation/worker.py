"""Worker: claims leases, renews them and rests, as pipeline/execute does; fetching alone is pretended.

Before: keeper.py starts it. After: runner.py and committer.py do what is to be done with a lease.
"""

from __future__ import annotations

import functools
import math
from typing import Final

from swath.domain.lease import Directive, Lease
from swath.pipeline.execute.slots import JobSlots
from swath.pipeline.execute.worker import FRESH_PART
from swath.testing.simulation.committer import Committer
from swath.testing.simulation.floor import Floor
from swath.testing.simulation.hand import Hand
from swath.testing.simulation.runner import Runner
from swath.testing.simulation.world import PATIENCE_SECONDS, World

__all__ = ["Worker"]

HEARTBEAT_SECONDS: Final = 10.0
BUSY_SECONDS: Final = 1.0
FIRST_PART: Final = 0.1  # of the longest rest
MOST_LEASES: Final = 32


class Worker:
    """Lives from `start` to `die`, as by kill -9 or by the loss of the machine: nobody is told."""

    def __init__(self, worker_id: str, world: World) -> None:
        self.worker_id = worker_id
        self._world = world
        self._floor = Floor(worker_id, world)
        self._floor.stir = self._stir
        self._runners: dict[int, tuple[Runner, Committer]] = {}
        self._claiming = False
        self._claim_at = math.inf
        self._rests = 0

    def start(self) -> None:
        """Begins to work."""
        self._stir()
        self._floor.after(self._world.rng.uniform(0.0, HEARTBEAT_SECONDS), self._renew)

    def die(self) -> None:
        """Nothing of it happens any more but what it has sent."""
        self._floor.alive = False
        self._world.hints.leave(self.worker_id)
        for runner, _ in self._runners.values():
            runner.die()

    # -- claiming ------------------------------------------------------------------------------------------------------

    def _stir(self) -> None:
        self._claim_by(self._floor.now)

    def _claim_by(self, when: float) -> None:
        if when < self._claim_at:
            self._claim_at = when
            self._floor.at(when, lambda: self._claim() if self._claim_at == when and not self._claiming else None)

    async def _claim(self) -> None:
        self._claim_at = math.inf
        self._world.hints.leave(self.worker_id)
        for runner, _ in self._runners.values():
            runner.start_ready()
        floor = self._floor
        if len(self._runners) >= MOST_LEASES or floor.room <= 0 or floor.suspects:
            return  # something ends before there is anything to ask for
        self._claiming = True
        enough = {runner.job_id for runner, _ in self._runners.values() if runner.hand.ready}
        lease = await floor.store.claim(self.worker_id, None, enough)
        self._world.claimed(lease, enough)
        done = floor.now + self._world.answer_seconds()
        if lease is not None:
            done = max(done, self._world.head_turn(lease.job.job_id))
        floor.at(done, functools.partial(self._claimed, lease))

    def _claimed(self, lease: Lease | None) -> None:
        self._claiming = False
        if lease is None or not lease.alone:
            self._let_others_start()
        if lease is None:
            self._rest()
            return
        self._rests = 0
        self._begin(lease)
        self._claim_at = math.inf
        self._stir()

    def _let_others_start(self) -> None:
        """No further suspect came with the last claim."""
        if self._floor.lingers and not self._floor.suspects:
            self._floor.lingers = False
            for runner, committer in list(self._runners.values()):
                runner.start_ready()
                committer.hurry()

    def _rest(self) -> None:
        longest = BUSY_SECONDS if self._runners else PATIENCE_SECONDS
        seconds = min(longest, longest * FIRST_PART * 2.0 ** min(self._rests, 10))
        self._rests += 1
        asked_for = self._claim_at
        self._claim_at = math.inf
        self._claim_by(min(asked_for, self._floor.now + seconds))
        if not self._runners:
            self._world.hints.listen(self.worker_id, self._hear)

    def _hear(self) -> None:
        if self._floor.alive:
            self._rests = 0
            self._stir()

    def _begin(self, lease: Lease) -> None:
        floor, job_id = self._floor, lease.job.job_id
        new = JobSlots(lease.slots, lease.target, lambda: floor.room, lease.revision, far=True)
        slots = floor.slots.setdefault(job_id, new)
        slots.hope_for(lease.target, lease.revision)
        hand = Hand(lease, slots, floor.is_closed_to)
        hand.heard_at = floor.now
        slots.users.add(hand)
        runner = Runner(hand, floor)
        committer = Committer(runner, functools.partial(self._ended, runner))
        self._runners[lease.fence] = runner, committer
        if lease.alone:
            floor.suspects.append(lease.fence)
        committer.begin()

    def _ended(self, runner: Runner) -> None:
        lease, floor = runner.hand.lease, self._floor
        del self._runners[lease.fence]
        floor.line.leave(runner)
        runner.hand.slots.users.discard(runner.hand)
        if not runner.hand.slots.users:
            del floor.slots[runner.job_id]
        if lease.alone:
            floor.suspects.remove(lease.fence)
            floor.lingers = True
        self._stir()

    # -- keeping -------------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        long_ago = self._floor.now - FRESH_PART * HEARTBEAT_SECONDS
        stale = {fence: runner for fence, (runner, _) in self._runners.items() if runner.hand.heard_at <= long_ago}
        if stale:
            for job_id in {runner.job_id for runner in stale.values()}:
                self._world.head_turn(job_id)
            answers = await self._floor.store.renew(self.worker_id, list(stale))
            for fence, directive in answers.items():
                if directive is Directive.LOST:
                    self._runners[fence][1].lose()
        self._floor.after(HEARTBEAT_SECONDS, self._renew)

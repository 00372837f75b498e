"""A simulated worker: claims leases, renews them, commits outcomes and rests, as the real worker does."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Final, NamedTuple

from harness.simulate.lease_runner import FleetLeaseRunner, SimulatedLease, WorkerState
from harness.simulate.world import PATIENCE_SECONDS, World
from swath.domain.item import EndedItem, HandedBackItem
from swath.domain.lease import Lease, LeaseDirective, SlotGrant, SlotReport
from swath.pipeline.worker.outcome_buffer import GROUP_ITEMS, is_bad_news
from swath.pipeline.worker.slots import JobSlots
from swath.pipeline.worker.worker import RECENT_COMMIT_FRACTION

__all__ = ["FleetCommitter", "FleetWorker"]

REPORT_SECONDS: Final = 3.0  # these two as for a worker on AWS: bootstrap
GROUP_SECONDS: Final = 0.5
TURN_SECONDS: Final = 0.01  # after which it is looked whether another lease of the job has its answer


class _Said(NamedTuple):
    """A word that is under way, and since when."""

    group: list[EndedItem | HandedBackItem]
    report: SlotReport
    at: float


class FleetCommitter:
    """`on_end` is called when the lease is done with."""

    def __init__(self, runner: FleetLeaseRunner, on_end: Callable[[], None]) -> None:
        self._runner = runner
        self._hand = runner.hand
        self._floor = runner.floor
        self._on_end = on_end
        self._word_at = math.inf
        self._under_way = False
        self._told: SlotReport | None = None
        runner.on_outcome = self._outcome
        runner.on_ready = self.hurry

    def begin(self) -> None:
        """The lease has come."""
        self._runner.start_ready()
        slots = self._hand.slots
        if self._hand.lease.alone or slots.idle or (self._hand.ready and slots.owed):
            self.hurry()
        else:
            self._plan()

    def hurry(self) -> None:
        """Speaks at once."""
        self._speak_at(self._floor.now)

    def _outcome(self) -> None:
        hand = self._hand
        idle = not (hand.running or hand.ready)
        if idle or len(hand.outbox) >= GROUP_ITEMS:
            self.hurry()
        elif any(is_bad_news(end) for end in hand.outbox):
            self._speak_at(self._floor.now + GROUP_SECONDS)
        else:
            self._speak_at(self._floor.now + self._gather_seconds(GROUP_SECONDS))

    def _plan(self) -> None:
        hand = self._hand
        if hand.outbox:
            self._outcome()
        elif hand.drained:
            self.hurry()
        else:
            hungry_seconds = hand.slots.tempo.hungry_seconds(GROUP_SECONDS, hand.lease.lease_seconds)
            patience = hungry_seconds if hand.hungry else self._gather_seconds(REPORT_SECONDS)
            self._speak_at(self._floor.now + patience)

    def _gather_seconds(self, shortest: float) -> float:
        return self._hand.slots.tempo.gather_seconds(shortest, self._hand.lease.lease_seconds)

    def _speak_at(self, when: float) -> None:
        if not self._under_way and when < self._word_at:
            self._word_at = when
            self._floor.at(when, lambda: self._speak(when))

    def _speak(self, planned: float) -> None:
        """Sends what there is, unless it was sent before or another lease of the job is just speaking for it."""
        hand, floor = self._hand, self._floor
        if planned != self._word_at or self._under_way or hand.lost:
            return
        self._word_at = math.inf
        if self._runner.job_id in floor.talking:
            self._speak_at(floor.now + TURN_SECONDS)
            return
        report = hand.slots.report()
        if not (hand.outbox or hand.ready or hand.drained or hand.slots.in_doubt) and report == self._told:
            self._plan()  # it would say nothing new
            return
        self._under_way = True
        done = floor.world.head_turn(self._runner.job_id)
        if hand.drained and not hand.outbox:
            floor.world.events.at(done, self._release)
            return
        floor.talking.add(self._runner.job_id)
        hand.announce()
        group, hand.outbox = hand.outbox[:GROUP_ITEMS], hand.outbox[GROUP_ITEMS:]
        # Also when the worker has died meanwhile: what was sent was sent.
        said = _Said(group, hand.slots.report() if hand.announced else report, floor.now)
        floor.world.events.at(done, functools.partial(self._commit, said))

    async def _commit(self, said: _Said) -> None:
        floor, hand = self._floor, self._hand
        ended = [end for end in said.group if isinstance(end, EndedItem)]
        back = [end for end in said.group if isinstance(end, HandedBackItem)]
        grant = await floor.store.finish(hand.lease, ended, back, said.report)
        floor.world.commits += 1
        floor.world.truth.counted(self._runner.job_id, ended, grant.accepted)
        floor.after(floor.world.answer_seconds(), functools.partial(self._granted, grant, said))

    def _granted(self, grant: SlotGrant, said: _Said) -> None:
        hand, floor = self._hand, self._floor
        self._under_way = False
        floor.talking.discard(self._runner.job_id)
        if grant.directive is LeaseDirective.LOST:
            self.lose()
            return
        hand.heard_at, self._told = said.at, said.report
        hand.slots.tempo.took(floor.now - said.at)
        hand.slots.apply(grant)
        if grant.directive is LeaseDirective.STOP and not hand.stopping:
            hand.stop()
        hand.committed = hand.announced
        self._runner.start_ready()
        if not hand.ready:
            floor.stir()
        self._plan()

    async def _release(self) -> None:
        await self._floor.store.release(self._floor.worker_id, self._hand.lease.fence)
        if self._floor.alive:
            self._on_end()

    def lose(self) -> None:
        """The lease was taken away while its worker lived."""
        hand = self._hand
        if hand.lost:
            return
        hand.lost = hand.stopping = True
        hand.queue.clear()
        hand.waiting.clear()
        hand.outbox.clear()
        self._floor.world.lost_leases += 1
        self._on_end()


HEARTBEAT_SECONDS: Final = 10.0
BUSY_SECONDS: Final = 1.0
FIRST_PART: Final = 0.1  # of the longest rest
MOST_LEASES: Final = 32


class FleetWorker:
    """Lives from `start` to `die`, as by kill -9 or by the loss of the machine: nobody is told."""

    def __init__(self, worker_id: str, world: World) -> None:
        self.worker_id = worker_id
        self._world = world
        self._floor = WorkerState(worker_id, world)
        self._floor.stir = self._stir
        self._runners: dict[int, tuple[FleetLeaseRunner, FleetCommitter]] = {}
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
        hand = SimulatedLease(lease, slots, floor.is_closed_to)
        hand.heard_at = floor.now
        slots.users.add(hand)
        runner = FleetLeaseRunner(hand, floor)
        committer = FleetCommitter(runner, functools.partial(self._ended, runner))
        self._runners[lease.fence] = runner, committer
        if lease.alone:
            floor.suspects.append(lease.fence)
        committer.begin()

    def _ended(self, runner: FleetLeaseRunner) -> None:
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
        long_ago = self._floor.now - RECENT_COMMIT_FRACTION * HEARTBEAT_SECONDS
        stale = {fence: runner for fence, (runner, _) in self._runners.items() if runner.hand.heard_at <= long_ago}
        if stale:
            for job_id in {runner.job_id for runner in stale.values()}:
                self._world.head_turn(job_id)
            answers = await self._floor.store.renew(self.worker_id, list(stale))
            for fence, directive in answers.items():
                if directive is LeaseDirective.LOST:
                    self._runners[fence][1].lose()
        self._floor.after(HEARTBEAT_SECONDS, self._renew)

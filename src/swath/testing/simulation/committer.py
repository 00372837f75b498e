"""Committer: writes the outcomes of one lease in groups, asks for slots, and releases the lease when it is empty.

Before: runner.py. After: the grant goes back to it. As pipeline/execute/committer.py, without files.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Final, NamedTuple

from swath.domain.attempt import Ended, HandedBack
from swath.domain.lease import Directive, Grant, Report
from swath.pipeline.execute.outbox import GROUP_ITEMS, worries
from swath.testing.simulation.runner import Runner

__all__ = ["Committer"]

REPORT_SECONDS: Final = 3.0  # these two as for a worker on AWS: bootstrap
GROUP_SECONDS: Final = 0.5
TURN_SECONDS: Final = 0.01  # after which it is looked whether another lease of the job has its answer


class _Said(NamedTuple):
    """A word that is under way, and since when."""

    group: list[Ended | HandedBack]
    report: Report
    at: float


class Committer:
    """`on_end` is called when the lease is done with."""

    def __init__(self, runner: Runner, on_end: Callable[[], None]) -> None:
        self._runner = runner
        self._hand = runner.hand
        self._floor = runner.floor
        self._on_end = on_end
        self._word_at = math.inf
        self._under_way = False
        self._told: Report | None = None
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
        elif any(worries(end) for end in hand.outbox):
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
        ended = [end for end in said.group if isinstance(end, Ended)]
        back = [end for end in said.group if isinstance(end, HandedBack)]
        grant = await floor.store.finish(hand.lease, ended, back, said.report)
        floor.world.commits += 1
        floor.world.truth.counted(self._runner.job_id, ended, grant.accepted)
        floor.after(floor.world.answer_seconds(), functools.partial(self._granted, grant, said))

    def _granted(self, grant: Grant, said: _Said) -> None:
        hand, floor = self._hand, self._floor
        self._under_way = False
        floor.talking.discard(self._runner.job_id)
        if grant.directive is Directive.LOST:
            self.lose()
            return
        hand.heard_at, self._told = said.at, said.report
        hand.slots.tempo.took(floor.now - said.at)
        hand.slots.apply(grant)
        if grant.directive is Directive.STOP and not hand.stopping:
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

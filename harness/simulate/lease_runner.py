"""Runs the items of one simulated lease: its slots, its share of the site's concurrency, and pretended fetches."""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from harness.simulate.world import World
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, EndedItem, HandedBackItem, SuccessOutcome, TryCounts
from swath.domain.lease import Lease
from swath.domain.retry import RetryIn, decide
from swath.domain.transitions import ItemState
from swath.fetch.sites.reservations import ConcurrencyShare, ReportInterval
from swath.pipeline.worker.admission import StartOrder
from swath.pipeline.worker.attempt import WorkItem
from swath.pipeline.worker.slots import JobSlots
from swath.ports.site_state import REMOTE_SYNC, SiteShareGrant, SiteShareRequest

__all__ = ["FleetLeaseRunner", "SimulatedLease", "SiteSlots", "WorkerState"]

RETRY_IN_PLACE_SECONDS = 10.0


class SimulatedLease:
    """`is_closed` says whether a suspect keeps its items from starting. `announced`: of a suspect the commit under way
    says that it has begun; `committed`: it is durable."""

    def __init__(self, lease: Lease, slots: JobSlots, is_closed: Callable[[SimulatedLease], bool]) -> None:
        self.lease = lease
        self.slots = slots
        self.queue = deque(WorkItem(item) for item in lease.items)
        self.running: dict[int, WorkItem] = {}
        self.waiting: dict[int, WorkItem] = {}
        self.outbox: list[EndedItem | HandedBackItem] = []
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

    def tried(self, work: WorkItem, attempt: Attempt, luck: float) -> float | None:
        """Decides what an attempt means; answers with the seconds after which it is to be tried again here."""
        work.attempts = (*work.attempts, attempt)
        if attempt.failure is None:
            work.tries = TryCounts(work.tries.own + 1, work.tries.infrastructure, work.tries.crashes)
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

    def _end(self, work: WorkItem, state: ItemState, failure: Failure | None) -> None:
        found = SuccessOutcome.FOUND if state is ItemState.SUCCESS else None
        ended = EndedItem(
            seq=work.item.seq, state=state, finding=found, failure=failure, attempts=work.attempts, tries=work.tries
        )
        self.outbox.append(ended)

    def _hand_back(self, work: WorkItem, delay_seconds: float) -> None:
        self.outbox.append(
            HandedBackItem(seq=work.item.seq, delay_seconds=delay_seconds, attempts=work.attempts, tries=work.tries)
        )


RATE: Final = 10_000.0  # there is no limit in what is simulated: the rate is measured with real pages (make pacing)


class SiteSlots:
    """`send` is called with what waits when it may be sent. `is_alive`: of a worker that died nothing is heard."""

    def __init__(self, site: str, worker_id: str, world: World, is_alive: Callable[[], bool]) -> None:
        self._site = site
        self._worker_id = worker_id
        self._world = world
        self._is_alive = is_alive
        self._share = ConcurrencyShare(world.plan.concurrency[site])
        self._cadence = ReportInterval(REMOTE_SYNC, world.events.now)
        self._waiters: deque[Callable[[], None]] = deque()
        self._peak = 0
        self._asking = False
        self._planned_at = math.inf

    def join(self, send: Callable[[], None]) -> None:
        """One more waits."""
        self._waiters.append(send)
        self._pump()

    def release(self) -> None:
        """A request is over."""
        share = self._share
        share.in_use -= 1
        if share.shrink():
            self._cadence.hasten(self._world.events.now, REMOTE_SYNC.hurry_seconds)
        if not self._waiters and not share.in_use:
            self._cadence.hasten(self._world.events.now, REMOTE_SYNC.report_seconds)
        self._pump()

    def _demand(self) -> int:
        return self._share.in_use + len(self._waiters)

    def _pump(self) -> None:
        now = self._world.events.now
        self._peak = max(self._peak, self._demand())
        while self._waiters and self._share.has_room(now):
            self._share.in_use += 1
            self._waiters.popleft()()
        self._plan(now)

    def _plan(self, now: float) -> None:
        if self._asking:
            return
        at, share = self._cadence.next_at, self._share
        if (
            self._waiters
            and not share.room()
            and self._cadence.told < self._peak
            and share.ceiling < (share.limit or 0)
        ):
            at = min(at, self._cadence.asked_at + REMOTE_SYNC.hurry_seconds)
        at = max(at, now)
        if at < self._planned_at and (self._demand() or self._cadence.told):
            self._planned_at = at
            self._world.events.at(at, lambda: self._ask() if self._planned_at == at and self._is_alive() else None)

    async def _ask(self) -> None:
        now, world = self._world.events.now, self._world
        self._planned_at, self._asking = math.inf, True
        ask = SiteShareRequest(
            rate=RATE, part=True, concurrency=self._share.limit, ceiling=self._share.told(now), demand=self._peak
        )
        if not self._peak:
            self._share.ceiling = 0  # given up with this word; a worker gives its instants back with it
        self._cadence.ask(now, self._peak)
        self._peak = self._demand()
        terms = await world.sites.ask(self._site, self._worker_id, ask)
        world.events.after(world.answer_seconds(), lambda: self._answered(terms, now))

    def _answered(self, terms: SiteShareGrant, asked_at: float) -> None:
        if not self._is_alive():
            return
        now, share = self._world.events.now, self._share
        self._asking = False
        before = share.ceiling, share.target
        share.apply(terms, asked_at)
        stuck, changed = bool(self._waiters) and not share.room(), (share.ceiling, share.target) != before
        self._cadence.answer(now, owed=share.target > share.ceiling, stuck=stuck, changed=changed)
        if not (self._cadence.told or self._peak):  # nothing is under way: whoever comes next begins anew
            self._share, self._cadence = ConcurrencyShare(share.limit), ReportInterval(REMOTE_SYNC, now)
        elif not self._demand():
            self._cadence.hasten(now, REMOTE_SYNC.report_seconds)
        self._pump()


class WorkerState:
    """`stir` tells the worker to look again."""

    def __init__(self, worker_id: str, world: World) -> None:
        self.worker_id = worker_id
        self.world = world
        self.store = world.stores.open(worker_id)
        self.alive = True
        self.line = StartOrder()
        self.slots: dict[str, JobSlots] = {}
        self.talking: set[str] = set()  # jobs of which a report is under way: one at a time
        self.suspects: list[int] = []
        self.lingers = False
        self.stir: Callable[[], None] = lambda: None
        self._lanes: dict[str, SiteSlots] = {}

    @property
    def now(self) -> float:
        """Seconds on the boot clock."""
        return self.world.events.now

    @property
    def room(self) -> int:
        """How many more items this worker may run."""
        return self.world.plan.size.items_at_once - self._running()

    def lane(self, site: str) -> SiteSlots:
        """Its lane to a site."""
        if site not in self._lanes:
            self._lanes[site] = SiteSlots(site, self.worker_id, self.world, lambda: self.alive)
        return self._lanes[site]

    def is_closed_to(self, hand: SimulatedLease) -> bool:
        """Whether nothing of a lease may start now. A suspect's turn comes when nothing else runs."""
        if hand.lease.alone:
            return self.suspects[:1] != [hand.lease.fence] or self._running() > hand.announced
        return self.lingers or bool(self.suspects)

    def after(self, seconds: float, act: Callable[[], Awaitable[None] | None]) -> None:
        """Plans something that the worker does if it is still alive."""
        self.at(self.now + seconds, act)

    def at(self, when: float, act: Callable[[], Awaitable[None] | None]) -> None:
        """The same, at an instant."""
        self.world.events.at(when, functools.partial(self._if_alive, act))

    def _if_alive(self, act: Callable[[], Awaitable[None] | None]) -> Awaitable[None] | None:
        return act() if self.alive else None

    def _running(self) -> int:
        return sum(slots.running for slots in self.slots.values())


PAGE_SECONDS: Final = (0.05, 2.0)
FAILS: Final = 0.03  # of all attempts, and may be tried again
FAILS_FOR_GOOD: Final = 0.005
_AGAIN: Final = Failure.of(FailureKind.SERVER_ERROR, "pretended")
_FOR_GOOD: Final = Failure.of(FailureKind.NOT_FOUND_PAGE, "pretended")


class FleetLeaseRunner:
    """The committer sets `on_outcome`, which hears of all that goes to the outbox, and `on_ready`, of missing slots."""

    def __init__(self, hand: SimulatedLease, floor: WorkerState) -> None:
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

    def _send(self, work: WorkItem) -> None:
        world = self.floor.world
        seq = work.item.seq
        self.hand.slots.begin(seq)
        self._sent[seq] = world.clock.now()
        world.truth.opens(self._site, self.job_id, world.events.elapsed)
        self.floor.after(world.rng.uniform(*PAGE_SECONDS), functools.partial(self._answered, work))

    def _answered(self, work: WorkItem) -> None:
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

"""Runs the items of one lease, as many at once as its slots allow, with retries in place."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections import deque
from typing import NoReturn

from swath.domain.errors import LeaseLost, NewerStore, SiteUnavailable
from swath.domain.failure import Failure, FailureKind
from swath.domain.item import Attempt, EndedItem, HandedBackItem, TryCounts
from swath.domain.job import StopReason
from swath.domain.lease import Lease, LeaseDirective
from swath.domain.retry import RetryIn, decide
from swath.domain.transitions import ItemState
from swath.pipeline.worker.attempt import (
    AttemptRequest,
    AttemptResult,
    RunningAttempt,
    WorkerContext,
    WorkItem,
    run_attempt,
)
from swath.pipeline.worker.attempt_log import log_attempt
from swath.pipeline.worker.browser_placement import BrowserPlace, BrowserPlacement
from swath.pipeline.worker.item_timeout import ItemTimeout
from swath.pipeline.worker.outcome_buffer import Outcome, OutcomeBuffer
from swath.pipeline.worker.slots import JobSlots
from swath.pipeline.worker.suspect_isolation import SuspectIsolation

__all__ = ["LeaseRunner"]

_log = logging.getLogger("swath.worker")

OVERTIME_SECONDS = 5.0  # between telling a scraper that its time is over and giving it up
INTERRUPT_SECONDS = 1.0
START_PERMIT_SECONDS = 0.02  # for so long the book's word that an item may start holds for its first request
RETRY_IN_PLACE_SECONDS = 10.0  # a longer wait goes back to the store, where another worker may take it up


class LeaseRunner:
    """Starts items while there are slots; every end goes to the outbox. `gather_seconds`: for so long ends are gathered
    for one commit, if all is well."""

    gather_seconds = 0.0

    def __init__(
        self, lease: Lease, bench: WorkerContext, deadline: float, slots: JobSlots, floor: SuspectIsolation
    ) -> None:
        self.lease = lease
        self._placing = BrowserPlacement(bench.scraper, bench.network.directory, bench.browsers)
        self.slots = slots
        self.floor = floor
        self.outbox = OutcomeBuffer()
        self.deadline = deadline
        self.lost = False
        self.can_store = False  # until the storage has made room for the lease, and while it cannot be written to
        self._bench = bench
        self._announced = False  # a suspect: the commit under way says that it has begun
        self._committed = False  # and that is durable now
        self._ready = deque(WorkItem(item) for item in lease.items)
        self._running: dict[int, RunningAttempt] = {}
        self._waiting: dict[int, tuple[WorkItem, float, asyncio.Task[None]]] = {}
        self._stopping = False
        floor.line.join(self)

    # -- what the worker and the committer see -------------------------------------------------------------------------

    @property
    def ready(self) -> int:
        """Items that could start at once, had they slots; none while a suspect keeps them from it."""
        return 0 if self.floor.is_closed_to(self.lease) else len(self._ready)

    @property
    def heard_at(self) -> float:
        """When the last word of this lease was sent that has an answer, on the boot clock."""
        return self.deadline - self.lease.lease_seconds

    @property
    def stopping(self) -> bool:
        """Whether nothing more will start."""
        return self._stopping

    @property
    def drained(self) -> bool:
        """Whether no item is left in this worker's hands, written outcomes apart."""
        return not (self._ready or self._running or self._waiting)

    def obey(self, directive: LeaseDirective) -> None:
        """Does what the store says of this lease."""
        if directive is LeaseDirective.LOST:
            self.abandon()
        elif directive is LeaseDirective.STOP:
            self.stop()
        self._committed = self._announced

    def announce(self) -> None:
        """A suspect takes its slot before it starts, so that the commit under way says that it has begun."""
        if self.lease.alone and self._can_start() and self.slots.free > 0 and not self._announced:
            self._announced = True
            self.slots.begin(self._ready[0].item.seq)

    # -- running -------------------------------------------------------------------------------------------------------

    def start_ready(self) -> None:
        """Fills the free slots, as far as the book lets items start."""
        while self.start_next():
            pass

    def start_next(self) -> bool:
        """Starts one item, if there is a slot and the book lets it; whether it did."""
        if not self._ready or not (self._committed if self.lease.alone else self.slots.free > 0):
            return False  # asked first: after every start somebody is asked in vain
        if not self._can_start():
            return False
        chosen = self._placing.choose(self._ready)
        if chosen is None:
            return False
        index, place = chosen
        if not self.floor.book.begin(self.lease, self._ready[index].item.seq):
            self._placing.leave(place)
            self.stop()  # the job is paused, stops or has another policy; the rest goes back
            return False
        work = self._ready[index]
        del self._ready[index]
        self._start(work, place)
        return True

    def _can_start(self) -> bool:
        return (
            bool(self._ready)
            and self.can_store
            and not self._stopping
            and not self.outbox.crowded
            and (self._announced or not self.floor.is_closed_to(self.lease))
            and self._bench.clock.boot() < self.deadline
        )

    def _start(self, work: WorkItem, place: BrowserPlace | None) -> None:
        patience = ItemTimeout(self.floor.deadlines)
        running = RunningAttempt(work, self._bench.clock.now(), self._bench.clock.boot(), place, patience)
        self._running[running.seq] = running
        if not self._announced:
            self.slots.take(running.seq)
        self._announced = self._committed = False
        before_request = functools.partial(self._before_request, running)
        turn = AttemptRequest(work.item, work.attempts, before_request, running.patience, place)
        running.task = self.floor.deadlines.loop.create_task(run_attempt(self._bench, turn))
        # Not in the task itself: one that is cancelled before its first step never runs, nor does its `finally`.
        running.task.add_done_callback(functools.partial(self._attempted, running))
        running.patience.on_expiry = functools.partial(self._allow_overtime, running)

    def _before_request(self, running: RunningAttempt) -> None:
        """No request leaves this worker when its lease may be somebody else's, nor a first one when the job has stopped
        since the item started."""
        if running.over or self.lost or self._bench.clock.boot() >= self.deadline:
            self._hold_back(running, f"lease {self.lease.fence} is over, or the attempt was given up")
        if not running.sent and self._has_waited(running) and not self.floor.book.begin(self.lease, running.seq):
            self._hold_back(running, f"job {self.lease.job.job_id!r} has stopped")
        running.sent = True
        self.slots.begin(running.seq)

    def _has_waited(self, running: RunningAttempt) -> bool:
        """Whether so long ago that the book was asked about the item's start that its answer may be another one."""
        return self._bench.clock.boot() - running.asked_at > START_PERMIT_SECONDS

    def _hold_back(self, running: RunningAttempt, why: str) -> NoReturn:
        running.held_back = True
        raise LeaseLost(why)

    def _attempted(self, running: RunningAttempt, task: asyncio.Task[AttemptResult]) -> None:
        """An attempt has ended, was interrupted, or found its lease over."""
        error = None if task.cancelled() else task.exception()
        if running.over:
            return
        if running.held_back:  # whatever the scraper made of it
            self._let_go(running, None)
        elif error is None and not task.cancelled():
            self._let_go(running, task.result())
        elif running.interrupted:
            self._let_go(running, None)
        elif isinstance(error, NewerStore):  # no fault of the item; this worker can do nothing more with the store
            if not self._stopping:
                _log.error("lease %s is handed back: %s", self.lease.fence, error)
            self.stop()
            self._let_go(running, None)
        else:  # neither the lease nor the worker made it stop, so trying again at once would go on for ever
            what = "cancelled itself" if error is None else f"raised {type(error).__name__}"
            self._fail(running, FailureKind.INTERNAL, f"the scraper {what}")

    def _allow_overtime(self, running: RunningAttempt) -> None:
        """A scraper that goes on after its time is over, whatever it is told, costs its item and not the worker."""
        running.timer = asyncio.get_running_loop().call_later(OVERTIME_SECONDS, self._give_up, running)

    def _give_up(self, running: RunningAttempt) -> None:
        self._fail(running, FailureKind.TIMEOUT, "the scraper went on after its time was over and was given up")

    def _fail(self, running: RunningAttempt, kind: FailureKind, message: str) -> None:
        failure = Failure.of(kind, message)
        tried = Attempt(running.started_at, self._bench.clock.now(), self._bench.worker_id, failure)
        self._let_go(running, AttemptResult(attempt=tried, failure=failure))

    def _let_go(self, running: RunningAttempt, tried: AttemptResult | None) -> None:
        running.end()
        del self._running[running.seq]
        self.slots.give(running.seq)
        self._placing.leave(running.place)
        self.floor.book.leave(self.lease, running.seq)
        if not self.lost:
            self._go_on(running.work, tried)
            self.floor.line.fill()
        if not self.ready:
            self.floor.stir()

    def _go_on(self, work: WorkItem, tried: AttemptResult | None) -> None:
        """Without a result the item was not tried: the book will say whether the lease is lost or only late."""
        if tried is not None and tried.held is not None:
            self._hold(work, tried.held)
        elif tried is not None:
            self._take(work, tried)
        elif self._stopping:
            self._hand_back(work, 0.0)
        else:
            self._ready.appendleft(work)

    def _take(self, work: WorkItem, tried: AttemptResult) -> None:
        """Decides what an attempt means: the end of the item, or another try."""
        if tried.failure is None or not tried.failure.rule.site_circuit:
            self.floor.holds.went_on(self.lease.job.job_id)
        work.attempts = (*work.attempts, tried.attempt)
        if tried.failure is not None and tried.failure.rule.job_circuit:
            self._doubt()
        if tried.failure is None:
            work.tries = TryCounts(work.tries.own + 1, work.tries.infrastructure, work.tries.crashes)
            self._end(work, ItemState.SUCCESS, tried)
            return
        luck = random.random()  # noqa: S311 jitter needs no crypto
        decision = decide(self._bench.job.policy.retries, tried.failure, work.tries, luck)
        work.tries = decision.tries
        if not isinstance(decision, RetryIn):
            denied = tried.failure.kind is FailureKind.ROBOTS_DENIED
            self._end(work, ItemState.SKIPPED if denied else ItemState.FAILED, tried)
            return
        log_attempt(self._bench, work, tried, None)
        if self._stopping or self.lease.alone or decision.delay_seconds > RETRY_IN_PLACE_SECONDS:
            self._hand_back(work, decision.delay_seconds)
        else:
            self._wait(work, decision.delay_seconds)

    def _doubt(self) -> None:
        self.slots.fail()
        if self.slots.in_doubt:
            self.outbox.hurry()

    def _hold(self, work: WorkItem, held: SiteUnavailable) -> None:
        """The item waits until its site may be visited again; so do all others, if the job knows no other site.

        Somebody waits for a scrape on demand, so that is turned away at once if the site fails (D3).
        """
        if held.circuit_open and self.lease.job.on_demand:
            self._turn_away(work)
            return
        hold = self.floor.holds.hold(self.lease.job, work.item.seq, held)
        self._hand_back(work, hold.wait_seconds)
        if hold.whole_job:
            self.stop(hold.wait_seconds)

    def _end(self, work: WorkItem, state: ItemState, tried: AttemptResult) -> None:
        log_attempt(self._bench, work, tried, state)
        ended = EndedItem(
            seq=work.item.seq,
            state=state,
            finding=tried.finding,
            failure=tried.failure,
            attempts=work.attempts,
            tries=work.tries,
            scraper_version=self._bench.scraper.version,
        )
        self.outbox.put(Outcome(work.item.item_id, ended, tried.result), idle=not (self._running or self._ready))

    def _turn_away(self, work: WorkItem) -> None:
        """No failure of the item: it counts neither as a try nor in any circuit."""
        ended = EndedItem(
            seq=work.item.seq,
            state=ItemState.CANCELLED,
            reason=StopReason.CIRCUIT_OPEN.value,
            attempts=work.attempts,
            tries=work.tries,
            scraper_version=self._bench.scraper.version,
        )
        self.outbox.put(Outcome(work.item.item_id, ended), idle=not (self._running or self._ready))

    def _hand_back(self, work: WorkItem, delay_seconds: float) -> None:
        back = HandedBackItem(seq=work.item.seq, delay_seconds=delay_seconds, attempts=work.attempts, tries=work.tries)
        self.outbox.put(Outcome(work.item.item_id, back), idle=not (self._running or self._ready))

    # -- waiting and stopping ------------------------------------------------------------------------------------------

    def _wait(self, work: WorkItem, delay_seconds: float) -> None:
        """The item keeps its lease and holds no slot."""
        due = self._bench.clock.boot() + delay_seconds
        task = asyncio.create_task(self._ready_after(work, delay_seconds))
        self._waiting[work.item.seq] = (work, due, task)

    async def _ready_after(self, work: WorkItem, delay_seconds: float) -> None:
        await self._bench.clock.sleep(delay_seconds)
        if self._waiting.pop(work.item.seq, None) is not None:
            self._ready.appendleft(work)
            self.start_ready()
            if self._ready and self.slots.unheard:  # slots were given up while it waited: ask for them at once
                self.outbox.hurry()
            self.floor.stir()

    def stop(self, delay_seconds: float = 0.0) -> None:
        """Starts nothing more; what runs may finish, what has not begun goes back, not to start before the delay."""
        if self._stopping:
            return
        self._stopping = True
        while self._ready:
            self._hand_back(self._unready(), delay_seconds)
        now = self._bench.clock.boot()
        for work, due, task in self._waiting.values():
            task.cancel()
            self._hand_back(work, max(delay_seconds, due - now))
        self._waiting.clear()
        self.floor.stir()

    def _unready(self) -> WorkItem:
        """Takes an item out of the line; a suspect may have its slot already."""
        work = self._ready.popleft()
        if self._announced:
            self._announced = False
            self.slots.give(work.item.seq)
        return work

    async def interrupt(self) -> None:
        """Ends what still runs after the grace period; those items go back untried."""
        self.stop()
        tasks = []
        for running in self._running.values():
            running.interrupted = True
            if running.task is not None:
                running.task.cancel()
                tasks.append(running.task)
        if tasks:
            await asyncio.wait(tasks, timeout=INTERRUPT_SECONDS)
        for running in list(self._running.values()):
            self._let_go(running, None)

    def abandon(self) -> None:
        """The lease is lost: nothing of it counts, and its files belong to whoever rescued it."""
        self.lost = True
        self._stopping = True
        for running in list(self._running.values()):
            self._let_go(running, None)
        for _, _, task in self._waiting.values():
            task.cancel()
        while self._ready:
            self._unready()
        self._waiting.clear()
        self.outbox.clear()
        self.floor.stir()

"""The queue of this worker's requests to one site.

Sends them at reserved times, within this worker's share of the slots. Asks the site store for times and slots in one
call, one call at a time. Nothing is sent without an answer.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from swath.domain.errors import StoreUnavailable
from swath.domain.token_bucket import LATE_INSTANT_SECONDS, NEXT_ROUND_LEAD_SECONDS, SLICE_SECONDS
from swath.fetch.sites.reservations import ConcurrencyShare, ReportInterval, ReservedTimes
from swath.ports.clock import Clock
from swath.ports.site_state import SiteShareGrant, SiteShareRequest, SiteState

__all__ = ["Permit", "QueueContext", "SiteQueue", "WaitQueue", "WakeTimer"]


class WaitQueue:
    """One that is cancelled stays in the count until it has noticed, and says so by `abandon`."""

    __slots__ = ("_count", "_heap", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()  # asked once: each time costs a call of the system
        self._heap: list[tuple[int, asyncio.Future[float]]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, order: int) -> asyncio.Future[float]:
        """`order` is unique; a request that waited elsewhere before keeps its place."""
        waiter: asyncio.Future[float] = self._loop.create_future()
        heapq.heappush(self._heap, (order, waiter))
        self._count += 1
        return waiter

    def abandon(self) -> None:
        """One of them has been cancelled."""
        self._count -= 1

    def first(self) -> asyncio.Future[float] | None:
        """The next one to be served, who stays in the queue."""
        while self._heap and self._heap[0][1].cancelled():
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def serve(self, instant: float) -> None:
        """The first one may go."""
        self._count -= 1
        heapq.heappop(self._heap)[1].set_result(instant)

    def refuse(self, error: Exception) -> None:
        """All of them are told that something has gone wrong."""
        while (waiter := self.first()) is not None:
            self._count -= 1
            heapq.heappop(self._heap)
            waiter.set_exception(error)


class WakeTimer:
    """Rings no later than the earliest time that was asked for, and then forgets them all."""

    __slots__ = ("_at", "_clock", "_ring", "_task")

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at = 0.0
        self._task: asyncio.Task[None] | None = None

    def at(self, time: float) -> None:
        """Rings then, or before."""
        if self._task is not None:
            if self._at <= time:
                return
            self._task.cancel()
        self._at = time
        self._task = asyncio.create_task(self._sleep(time))

    def off(self) -> None:
        """Does not ring any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _sleep(self, time: float) -> None:
        await self._clock.sleep(time - self._clock.boot())
        self._task = None
        self._ring()


LEAST_SPAN_SECONDS: Final = 0.005  # of a slice, at rates so high that asking for each waiter would cost more than it
RETRY_SECONDS: Final = 0.1
HEADROOM: Final = 4
LEAST_SECONDS: Final = 0.1
UNLIMITED_REQUESTS: Final = 1_000_000


class QueueContext(NamedTuple):
    """Whom a lane asks, and as whom."""

    book: SiteState
    clock: Clock
    worker_id: str


class Permit:
    """One request may be sent, now; it holds a slot until it is released."""

    __slots__ = ("_lane",)

    def __init__(self, lane: SiteQueue) -> None:
        self._lane: SiteQueue | None = lane

    def release(self) -> None:
        """The request is over, or will not be sent after all. Again: nothing happens."""
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.release()


class SiteQueue:
    """`forget` is called when nothing has been under way for a while; the lane must not be used any more then."""

    def __init__(self, name: str, desk: QueueContext, terms: SiteShareRequest, forget: Callable[[], None]) -> None:
        self._name = name
        self._desk = desk
        self._forget = forget
        self.rate = terms.rate
        self._quiet_seconds = terms.quiet_seconds
        self._share = ConcurrencyShare(terms.concurrency)
        self._instants = ReservedTimes()
        self._waiters = WaitQueue()
        self._used = 0  # instants, since the last ask, or the last for a part
        self._peak = 0  # demand, since the last ask
        self._tempo = desk.book.tempo
        self._lead_seconds = self._tempo.lead_seconds * (1 + _worker_spread(desk) if self._tempo.parts else 1)
        self._round_end = 0.0
        self._dry_until = -math.inf  # there was no part to be had
        self._part_at = -math.inf  # of the last ask for one
        self._cadence = ReportInterval(self._tempo, desk.clock.boot())
        self._complaint: float | None = None
        self._halved_from = 0.0
        self._talk: asyncio.Task[None] | None = None
        self._closed = False
        self._next_instant = WakeTimer(desk.clock, self._pump)
        self._next_word = WakeTimer(desk.clock, self._pump)

    async def acquire(self, order: int) -> Permit:
        """Returns when a request may be sent. Who waits is served by `order`, which is unique."""
        while True:
            if self._waiters or not self._let_through():
                sent_at = await self._in_turn(order)
                if self._desk.clock.boot() - sent_at > LATE_INSTANT_SECONDS:
                    self.release()  # the loop stood still; what was missed is not made up for in a burst
                    continue
            return Permit(self)

    def release(self) -> None:
        """A request is over."""
        share = self._share
        share.in_use -= 1
        if share.shrink():
            self._hasten(self._tempo.hurry_seconds)
        if self._waiters:
            self._pump()
        elif not share.in_use:
            self._hasten(self._tempo.report_seconds)

    def lower(self, rate: float) -> None:
        """From now on at most at this rate; of what was reserved at a higher one no more is used than it allows."""
        self._give_up(math.ceil(self.rate / rate))
        self.rate = min(self.rate, rate)

    def complain(self, sent_at: float) -> None:
        """The site asked to be left in peace, in answer to a request that was sent then."""
        if sent_at >= self._halved_from:
            self._halve()
        self._complaint = max(sent_at, self._complaint or sent_at)
        self._pump()

    def close(self) -> None:
        """Lets nobody through any more. A permit that is released later leaves no task behind."""
        self._closed = True
        self._next_instant.off()
        self._next_word.off()
        if self._talk is not None:
            self._talk.cancel()

    # -- letting go ----------------------------------------------------------------------------------------------------

    def _let_through(self) -> bool:
        now = self._desk.clock.boot()
        if not self._share.has_room(now) or self._instants.take(now) is None:
            return False
        self._share.in_use += 1
        self._peak = max(self._peak, self._share.in_use)
        self._used += 1
        if self._used == 1:
            self._plan(now)
        return True

    async def _in_turn(self, order: int) -> float:
        waiter = self._waiters.join(order)
        self._peak = max(self._peak, self._demand())
        self._pump()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiters.abandon()
            elif waiter.exception() is None:
                self.release()
            raise

    def _pump(self) -> None:
        now = self._desk.clock.boot()
        while self._share.has_room(now) and self._waiters.first() is not None:
            instant = self._instants.take(now)
            if instant is None:
                break
            self._waiters.serve(instant)
            self._share.in_use += 1
            self._used += 1
        self._plan(now)

    def _plan(self, now: float) -> None:
        """Sees to it that somebody comes back when there is something to do."""
        if self._closed:
            return
        at = self._instants.next_at()
        if at is not None and self._waiters and self._share.has_room(now):
            self._next_instant.at(at)
        if self._talk is None:
            at = self._when_to_ask(now)
            if at <= now:
                self._talk = asyncio.create_task(self._ask())
            else:
                self._next_word.at(at)

    def _when_to_ask(self, now: float) -> float:
        if self._complaint is not None:
            return now
        at, share = self._cadence.next_at, self._share
        if self._waiters:
            room = share.room()
            if self._instants.count(now) < min(len(self._waiters), room) and not self._tempo.parts:
                at = min(at, self._instants.end - self._lead_seconds)
            elif not room and self._cadence.told < self._peak and share.ceiling < (share.limit or 0):
                at = min(at, self._cadence.asked_at + self._tempo.hurry_seconds)
        if self._tempo.parts:
            if share.ceiling and (self._used or self._waiters):
                at = min(at, max(self._round_end - self._lead_seconds, self._dry_until))
        elif self._used and self._cadence.is_alone(now):
            at = min(at, self._instants.end - self._lead_seconds)
        return at

    def _demand(self) -> int:
        return self._share.in_use + len(self._waiters)

    def _hasten(self, seconds: float) -> None:
        now = self._desk.clock.boot()
        self._cadence.hasten(now, seconds)
        self._plan(now)

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        retry_seconds = RETRY_SECONDS
        try:
            while not await self._asked():
                await self._desk.clock.sleep(retry_seconds)
                retry_seconds = min(1.0, 2 * retry_seconds)
        except Exception as error:  # noqa: BLE001 whoever waits hears of it, and nobody waits for ever
            self._waiters.refuse(error)
        self._talk = None
        if self._cadence.told or self._peak or self._complaint is not None:
            if not self._demand():
                self._cadence.hasten(self._desk.clock.boot(), self._tempo.report_seconds)
            self._pump()
        else:
            self.close()
            self._forget()

    async def _asked(self) -> bool:
        """Whether the book has answered, or need not be asked."""
        desk, complaint = self._desk, self._complaint
        try:
            if complaint is not None:
                self._complaint = None
                slowed = await desk.book.slow_down(self._name, complaint, self._quiet_seconds)
                self._halved_from, complaint = slowed.halved_from, None
            now = desk.clock.boot()
            ask = self._next_ask(now)
            if self._share.limit is not None or ask.requests:
                self._apply(ask, await desk.book.ask(self._name, desk.worker_id, ask), now)
        except StoreUnavailable:
            if complaint is not None:
                self._complaint = max(complaint, self._complaint or complaint)
            return not self._demand()  # a share that is not given up runs out
        return True

    def _next_ask(self, now: float) -> SiteShareRequest:
        ceiling = self._share.told(now)
        ask = SiteShareRequest(
            rate=self.rate,
            requests=self._wanted_in_a_second(now) if self._tempo.parts else self._wanted(now),
            part=self._tempo.parts,
            quiet_seconds=self._quiet_seconds,
            concurrency=self._share.limit,
            ceiling=0 if self._share.limit is None else ceiling,
            demand=self._peak,
            returned=() if self._peak or not self._tempo.parts else self._instants.give_back(now),
        )
        self._cadence.ask(now, self._peak)
        self._peak = self._demand()
        if not ask.part or (ask.requests and self._round_ends(now)):
            self._part_at, self._used = now, 0
        return ask

    def _wanted(self, now: float) -> int:
        """How many instants: no more than can be used, unless they are very dense or nobody else wants them."""
        if self._instants.end > now + self._lead_seconds:
            return 0
        room, alone = self._share.room(), self._used > 0 and self._cadence.is_alone(now)
        wanted = max(0, min(len(self._waiters), room) - self._instants.count(now))
        dense = int(self.rate * (SLICE_SECONDS if alone else LEAST_SPAN_SECONDS))
        return max(wanted, dense) if alone or 0 < wanted < dense <= room else wanted

    def _wanted_in_a_second(self, now: float) -> int:
        """Of its part: more than it used of late, so that it finds one whenever a slot is free.

        In mid-round it wants some of what others have left, if anybody waits although there is room.
        """
        if not self._round_ends(now):
            return min(len(self._waiters), self._share.room())
        if not self._used:
            return UNLIMITED_REQUESTS if self._waiters else 0
        return max(len(self._waiters), math.ceil(HEADROOM * self._used / max(LEAST_SECONDS, now - self._part_at)))

    def _round_ends(self, now: float) -> bool:
        return self._round_end <= now + NEXT_ROUND_LEAD_SECONDS

    def _apply(self, ask: SiteShareRequest, terms: SiteShareGrant, asked_at: float) -> None:
        now, share = self._desk.clock.boot(), self._share
        self._reserved(ask, terms, now)
        before = share.ceiling, share.target
        share.apply(terms, asked_at)
        stuck, changed = bool(self._waiters) and not share.room(), (share.ceiling, share.target) != before
        self._cadence.answer(now, owed=share.target > share.ceiling, stuck=stuck, changed=changed)

    def _reserved(self, ask: SiteShareRequest, terms: SiteShareGrant, now: float) -> None:
        self._round_end = terms.round_end
        if self._tempo.parts and terms.halved_from > self._halved_from:
            if self._instants.end > now:
                self._halve()  # somebody else has heard a complaint
            self._halved_from = terms.halved_from
        if terms.slice is None:
            self._dry_until = now + self._tempo.owed_seconds if ask.requests else -math.inf
            return
        if terms.slice.first > max(now, self._instants.end):
            self._cadence.crowd(now)
        late = self._complaint is not None or ask.rate != self.rate  # reserved at a rate that holds no more
        for taken in (terms.slice, *terms.more):
            self._instants.add(taken, 2 * math.ceil(ask.rate / self.rate) if late else 1)
        if late and not self._tempo.parts:
            self._instants.drop()

    def _halve(self) -> None:
        self._give_up(2)
        if self._tempo.parts:
            self._halved_from = max(self._halved_from, self._instants.end)  # what is at hand has its rate by now

    def _give_up(self, all_but: int) -> None:
        """Uses only every so many-th of the instants at hand; where more are soon to be had, none of them."""
        if self._tempo.parts:
            self._instants.thin(all_but)
        else:
            self._instants.drop()


def _worker_spread(desk: QueueContext) -> float:
    """From 0 to 1, another one for each worker: so not all of them come to the book in the same moment."""
    return zlib.crc32(desk.worker_id.encode()) / 0xFFFF_FFFF

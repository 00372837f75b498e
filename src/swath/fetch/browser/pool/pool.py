"""Starts Chromium processes when they are needed, shares them by slots, and replaces worn and dead ones.

Everything happens on one event loop: between two awaits nothing else changes the pool. After a failed start the next
one waits, twice as long each time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any

from swath.domain.errors import Failed
from swath.fetch.browser.pool.instance import (
    BrowserInstance,
    BrowserProcess,
    BrowserSlot,
    LaunchBrowser,
    PoolExhausted,
    PoolOptions,
    PoolStats,
    SlotWaiter,
    browser_crashed,
)
from swath.ports.clock import Clock

__all__ = ["BrowserPool", "LaunchBackoff"]

_log = logging.getLogger("swath.browser.pool.backoff")


class LaunchBackoff:
    """Each failure in a row doubles the wait, until a browser has served a page. `trouble` is why, while it lasts."""

    def __init__(self, options: PoolOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._in_a_row = 0
        self._again_at = 0.0
        self.trouble: str | None = None

    @property
    def wait_seconds(self) -> float:
        """Until the next start; zero when one may be made now."""
        return max(0.0, self._again_at - self._clock.boot())

    def failed(self, error: Exception) -> float:
        """It did not start. How long to wait."""
        why = error.failure.message if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
        wait = self._hold_off(why, self._in_a_row)
        _log.warning("a browser did not start; the next try is in %.0f s: %s", wait, why)
        return wait

    def died_early(self, why: str) -> float:
        """It died before it had served a page, which may happen once without any wait."""
        return self._hold_off(f"{why} before it served a page", self._in_a_row - 1)

    def started(self) -> None:
        """It runs; what that is worth will be seen."""
        self.trouble = None

    def works(self) -> None:
        """It has served a page."""
        self._in_a_row, self._again_at, self.trouble = 0, 0.0, None

    def _hold_off(self, why: str, doublings: int) -> float:
        options = self._options
        wait = options.first_backoff_seconds * 2.0 ** min(doublings, 32) if doublings >= 0 else 0.0
        wait = min(options.longest_backoff_seconds, wait)
        self._in_a_row += 1
        self._again_at = self._clock.boot() + wait
        self.trouble = why
        return wait


class BrowserPool:
    """`acquire`, then `release`. Starts nothing before the first is asked for; `close` leaves no process."""

    def __init__(self, options: PoolOptions, clock: Clock, launch: LaunchBrowser) -> None:
        self.options = options
        self._clock = clock
        self._launch = launch
        self._members: list[BrowserInstance] = []
        self._waiters: deque[SlotWaiter] = deque()
        self._starts: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.Task[None]] = set()
        self._backoff = LaunchBackoff(options, clock)
        self._pages = 0
        self._recycled = 0
        self._crashed = 0
        self._is_late = False  # a browser is being started for longer than an item waits, and none runs
        self._closed = False

    async def acquire(self, near: BrowserProcess | None = None, *, seconds: float | None = None) -> BrowserSlot:
        """In the order of asking. Raises PoolExhausted when none came free in time, or none can be started."""
        if self._closed:
            raise browser_crashed("the browsers are being closed")
        waiter = SlotWaiter(self._clock.boot() + (seconds or self.options.acquire_seconds), near)
        self._waiters.append(waiter)
        self._serve()
        timer = asyncio.get_running_loop().create_task(self._expire(waiter)) if not waiter.place.done() else None
        try:
            return await waiter.place
        except asyncio.CancelledError:
            if waiter.place.done() and not waiter.place.cancelled() and waiter.place.exception() is None:
                self.release(waiter.place.result(), pages=0)
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def check(self) -> None:
        """Returns when a browser runs; starts one if none does. Raises PoolExhausted when that fails, or takes nearly
        as long as an item would wait: whoever asks over HTTP is to have the answer by then."""
        if not self._members:
            self.release(await self.acquire(seconds=self.options.check_seconds), pages=0)

    def release(self, place: BrowserSlot, *, pages: int = 1, broken: bool = False) -> None:
        """Gives it back, once. `broken`: something in that browser did not come back, so it is killed."""
        member = self._member_of(place)
        if member is None:
            return  # the browser is gone, and its books are closed
        member.places.discard(place)
        member.pages += pages
        self._pages += pages
        if pages and not broken:
            self._backoff.works()
        if broken:
            self.lose(member, "a call in the browser did not come back")
        self._serve()

    async def kill(self, place: BrowserSlot) -> None:
        """Ends the browser of the place now, and everything that runs there. The place is still to be given back."""
        member = self._member_of(place)
        if member is not None:
            self.lose(member, "the browser was killed")
        await place.running.kill()

    @property
    def members(self) -> tuple[BrowserInstance, ...]:
        """Those that run, also those that take nobody any more. For keeper.py."""
        return tuple(self._members)

    @property
    def stats(self) -> PoolStats:
        in_use = self._in_use
        none_start = not self._members and (self._is_late or self._backoff.trouble is not None)
        return PoolStats(
            total=self.options.places,
            available=0 if none_start else self.options.places - in_use,
            in_use=in_use,
            waiting=len(self._waiters),
            pages_processed=self._pages,
            recycled_count=self._recycled,
            crashed_count=self._crashed,
            browsers=len(self._members),
            memory_bytes=sum(member.memory_bytes for member in self._members),
            versions=tuple(sorted({member.running.version for member in self._members})),
            trouble=self._backoff.trouble,
        )

    def lose(self, member: BrowserInstance, why: str) -> None:
        """The browser died, or is to: its places fail at once, and another one is started if somebody needs it."""
        if member not in self._members:
            return
        _log.warning("a browser is replaced: %s", why)
        self._crashed += 1
        self._drop(member)
        member.lose(why)
        if not member.pages:  # one that dies as soon as it is started would be started again and again
            self._serve_after(self._backoff.died_early(why))
        self._go(member.running.kill())
        self._serve()

    def tend(self) -> None:
        """Replaces those that have become due, as far as nobody is in them. After memory was looked at."""
        self._serve()

    async def close(self) -> None:
        """Bounded. What does not close in time is killed."""
        self._closed = True
        for waiter in tuple(self._waiters):
            self._fail(waiter, browser_crashed("the browsers are being closed"))
        for task in (*self._starts, *self._timers):
            task.cancel()
        for member in tuple(self._members):
            self._drop(member)
            member.lose("the browsers are being closed")
            self._go(member.running.close())
        waited_for = {*self._starts, *self._tasks, *self._timers}
        if waited_for:
            _, late = await asyncio.wait(waited_for, timeout=self.options.close_seconds)
            for task in late:
                task.cancel()

    @property
    def _in_use(self) -> int:
        return sum(len(member.places) for member in self._members)

    def _member_of(self, place: BrowserSlot) -> BrowserInstance | None:
        return next((member for member in self._members if place in member.places), None)

    def _serve(self) -> None:
        """Gives what is free to those who wait, replaces what is due, and starts what is missing."""
        self._retire()
        while self._waiters and not self._closed:
            member = self._roomiest(self._waiters[0].near)
            if member is None:
                break
            waiter = self._waiters.popleft()
            if not waiter.place.done():  # nobody waits for it any more
                waiter.place.set_result(member.enter())
                self._retire()
        self._start_missing()

    def _retire(self) -> None:
        for member in tuple(self._members):
            member.judge(self.options, self._clock.boot())
            if member.due is not None and not member.places:
                _log.info("a browser is recycled after %s", member.due)
                self._recycled += 1
                self._drop(member)
                self._go(member.running.close())

    def _roomiest(self, near: BrowserProcess | None) -> BrowserInstance | None:
        if self._in_use >= self.options.places:
            return None
        each = self.options.places_each
        open_ones = [member for member in self._members if member.due is None and len(member.places) < each]
        return min(open_ones, key=lambda member: (member.running is not near, len(member.places)), default=None)

    def _start_missing(self) -> None:
        """As many as there is work for. Worn ones that still work do not count, or a slow item in each would stop all;
        there are never more of those than places."""
        if self._closed:
            return
        wanted = min(self.options.browsers, self._in_use + len(self._waiters))
        fresh = sum(1 for member in self._members if member.due is None)
        missing = wanted - fresh - len(self._starts)
        if missing > 0 and self._backoff.wait_seconds > 0:
            self._give_up_waiting()
            return
        for _ in range(missing):
            self._go(self._start(), self._starts)

    def _give_up_waiting(self) -> None:
        """No browser runs, and the next one is tried too late for those who wait."""
        if self._members or self._starts:
            return
        wait = self._backoff.wait_seconds
        for waiter in tuple(self._waiters):
            if waiter.deadline < self._clock.boot() + wait:
                self._fail(waiter, PoolExhausted(f"browsers do not start: {self._backoff.trouble}", wait))

    async def _start(self) -> None:
        try:
            running = await self._launch()
        except Exception as error:  # noqa: BLE001 whatever keeps it from starting
            self._is_late = False
            self._starts.discard(asyncio.current_task())
            self._serve_after(self._backoff.failed(error))
            self._serve()
            return
        self._is_late = False
        self._starts.discard(asyncio.current_task())
        if self._closed:
            await running.kill()
            return
        self._backoff.started()
        member = BrowserInstance(running, self._clock.boot())
        self._members.append(member)
        member.watch = asyncio.get_running_loop().create_task(self._see_it_go(member))
        self._serve()

    def _serve_after(self, seconds: float) -> None:
        async def later() -> None:
            await self._clock.sleep(seconds)
            self._serve()

        self._go(later(), self._timers)

    async def _see_it_go(self, member: BrowserInstance) -> None:
        await member.running.gone.wait()
        member.watch = None  # it is this very task
        self.lose(member, "the browser died")

    async def _expire(self, waiter: SlotWaiter) -> None:
        seconds = waiter.deadline - self._clock.boot()
        await self._clock.sleep(seconds)
        self._is_late = bool(self._starts) and not self._members
        told = f"no browser came free within {seconds:.3g} s"
        self._fail(waiter, PoolExhausted(told if self._backoff.trouble is None else f"{told}; {self._backoff.trouble}"))

    def _fail(self, waiter: SlotWaiter, error: Failed) -> None:
        if not waiter.place.done():
            waiter.place.set_exception(error)

    def _drop(self, member: BrowserInstance) -> None:
        self._members.remove(member)
        if member.watch is not None:
            member.watch.cancel()

    def _go(self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]] | None = None) -> None:
        tasks = self._tasks if among is None else among
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

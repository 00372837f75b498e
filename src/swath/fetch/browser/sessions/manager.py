"""Keeps the sessions of one provider, lets items share them, and replaces those that are old, broken or idle.

A session that could not be created is tried again after a wait that grows; the last failure is reported until then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.retry import MAX_RETRY_AFTER_SECONDS
from swath.fetch.browser.pool.instance import is_pool_exhausted
from swath.fetch.browser.providers.protocol import BrowserProvider, BrowserTab, ProviderSession, TabRequest
from swath.fetch.browser.sessions.distributor import DistributionOptions, PlaceableItem, Strategy, items_to_sessions
from swath.fetch.browser.sessions.session_slot import ManagerOptions, ManagerStats, SessionSlot, SessionStats
from swath.ports.clock import Clock

__all__ = ["CreationBackoff", "SessionCreator", "SessionManager"]

_log = logging.getLogger("swath.browser.seats.making")

_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 60.0
_PERMANENT: Final = frozenset({FailureKind.CREDENTIAL, FailureKind.ACCESS_POLICY})


class CreationBackoff:
    """When the next session may be asked for, after some could not be had: later each time, until one is of use."""

    def __init__(self) -> None:
        self.until = 0.0
        self.failure: Failure | None = None
        self._times = 0
        self._told = 0.0

    def failed(self, failure: Failure, now: float) -> float:
        """How long to wait. What the provider asks for counts, if it is longer."""
        self._times += 1
        wait_seconds = _FIRST_WAIT_SECONDS * 2.0 ** min(self._times - 1, 10)
        if failure.kind in _PERMANENT:  # a person has to do something about it
            wait_seconds = _LONGEST_WAIT_SECONDS
        self.failure = failure
        asked_seconds = min(failure.retry_after_seconds or 0.0, MAX_RETRY_AFTER_SECONDS)
        wait_seconds = max(min(wait_seconds, _LONGEST_WAIT_SECONDS), asked_seconds)
        self.until = now + wait_seconds
        return wait_seconds

    def is_over(self, now: float) -> bool:
        """Whether a wait has ended that nobody was told of; said once."""
        over, self._told = self._told < self.until <= now, max(self._told, min(self.until, now))
        return over

    def succeeded(self) -> None:
        """All is well."""
        self.until, self.failure, self._times = 0.0, None, 0


class SessionCreator:
    """Sessions, and places for items in them."""

    def __init__(self, provider: BrowserProvider, options: ManagerOptions, clock: Clock) -> None:
        self.hold_off = CreationBackoff()
        self._provider = provider
        self._options = options
        self._clock = clock

    async def make(self) -> ProviderSession:
        """A new session. Where there are too many it is waited for, as long as an item can. Raises Failed."""
        patient_until = self._clock.boot() + self._options.patience_seconds
        while True:
            hold = self.hold_off
            if hold.failure is not None and hold.until > patient_until:
                raise Failed(hold.failure)
            await self._clock.sleep(hold.until - self._clock.boot())
            try:
                async with asyncio.timeout(self._options.create_seconds):
                    return await self._provider.create()
            except TimeoutError:
                message = f"no session of {self._provider.name} within {self._options.create_seconds:g} s"
                failure = Failure.of(FailureKind.BROWSER_CRASH, message)
            except Failed as failed:
                failure = failed.failure
            wait_seconds = hold.failed(failure, self._clock.boot())
            _log.warning("there is no browser; the next try is in %.3g s: %s", wait_seconds, failure.message)
            if failure.kind is not FailureKind.RATE_LIMITED:
                raise Failed(failure)

    async def open(self, session: ProviderSession, wish: TabRequest) -> BrowserTab:
        """Raises Failed as the session does, and when it takes too long."""
        try:
            async with asyncio.timeout(self._options.open_seconds):
                return await session.open(wish)
        except TimeoutError:
            message = f"no page in a browser within {self._options.open_seconds:g} s"
            raise Failed(Failure.of(FailureKind.BROWSER_CRASH, message)) from None


_AFFINITY: Final = DistributionOptions(strategy=Strategy.DOMAIN_AFFINITY, max_items_per_session=1)
_MAX_OVERTAKES: Final = 4
_CLOSE_SECONDS: Final = 60.0
_CANCELLED: Final = Failure.of(FailureKind.TIMEOUT, "the item took too long, or is not wanted any more")


class SessionManager:
    """`free`, `pick` and `give_back` do not wait; whoever has picked either visits, once, or gives back."""

    def __init__(self, provider: BrowserProvider, options: ManagerOptions, clock: Clock) -> None:
        self.options = options
        self.on_free: Callable[[], None] = lambda: None  # called when an item may start where none could before
        self._provider = provider
        self._clock = clock
        self._seats = [
            SessionSlot(number) for number in range(max(0, min(options.max_sessions, provider.most_sessions)))
        ]
        self._maker = SessionCreator(provider, options, clock)
        self._overtaken = 0
        self._created = self._destroyed = self._items = self._errors = 0
        self._closed = False
        self._afterwards: set[asyncio.Task[None]] = set()

    # -- which item goes where -----------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """How many more items may start now."""
        return len(self._ready()) + len(self._empty())

    def pick(self, candidates: Sequence[tuple[int, str]]) -> tuple[int, SessionSlot] | None:
        """Which of the ready items (number and site, first in line first) goes to which seat, which is theirs from now
        on. One whose site a session has kept something of may go before others, though not again and again."""
        if self._overtaken >= _MAX_OVERTAKES:
            candidates = candidates[:1]
        seats = self._ready() or self._empty()  # a session that is there is used before another one is paid for
        items = [PlaceableItem(str(place), domain) for place, (_, domain) in enumerate(candidates)]
        shares = items_to_sessions(items, [seat.view() for seat in seats], _AFFINITY)
        chosen = [(int(share.items[0].item_id), seat) for share, seat in zip(shares, seats, strict=True) if share.items]
        if not chosen:
            return None
        at_home = [(place, seat) for place, seat in chosen if candidates[place][1] in seat.view().domains]
        place, seat = min(at_home or chosen, key=lambda pair: pair[0])
        self._overtaken = self._overtaken + 1 if place else 0
        seat.taken = True
        return candidates[place][0], seat

    def give_back(self, seat: SessionSlot) -> None:
        """The item never ran."""
        seat.taken = False
        seat.idle_since = self._clock.boot()
        self.on_free()

    def _ready(self) -> list[SessionSlot]:
        now = self._clock.boot()
        return [s for s in self._seats if not s.taken and s.session is not None and not s.due(self.options, now)]

    def _empty(self) -> list[SessionSlot]:
        """Those for which a session may be made now."""
        now = self._clock.boot()
        if self._closed or now < self._maker.hold_off.until:
            return []
        return [s for s in self._seats if not s.taken and (s.session is None or s.due(self.options, now))]

    # -- one item ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def visit(self, seat: SessionSlot, wish: TabRequest) -> AsyncIterator[BrowserTab]:
        """A place for the item, until it is done; then the seat is free again. Raises Failed: browser_crash,
        credential, rate_limited, access_policy. What the item raises tells whether its session is still good."""
        opened: BrowserTab | None = None
        failure: Failure | None = None
        try:
            opened = await self._opened(seat, wish)
            yield opened
        except Failed as failed:
            failure = failed.failure
            raise
        except asyncio.CancelledError:
            failure = _CANCELLED
            raise
        finally:
            # The seat is free when all is closed, also where nobody waits for that any more.
            await asyncio.shield(self._later(self._leave(seat, opened, failure)))

    async def _leave(self, seat: SessionSlot, opened: BrowserTab | None, failure: Failure | None) -> None:
        try:
            if opened is not None:
                await opened.close()
                seat.count(failure)
                self._items += 1
                self._errors += failure is not None
            if seat.session is not None and seat.session.gone:
                await self._empty_seat(seat)  # it may be paid for as long as nobody says so
        finally:
            self.give_back(seat)

    async def _opened(self, seat: SessionSlot, wish: TabRequest) -> BrowserTab:
        session = await self._session(seat)
        try:
            opened = await self._maker.open(session, wish)
        except Failed as failed:
            served = seat.items
            if not is_pool_exhausted(failed.failure):  # which tells nothing of the session
                await self._empty_seat(seat)
                if served and failed.failure.kind is FailureKind.BROWSER_CRASH:
                    # It has served others, and died since: not the fault of this item, which gets a new one.
                    return await self._opened(seat, wish)
            self._maker.hold_off.failed(failed.failure, self._clock.boot())
            raise
        self._maker.hold_off.succeeded()
        if wish.keeps:
            seat.keep(wish.site)
        return opened

    async def _session(self, seat: SessionSlot) -> ProviderSession:
        """That of the seat, or a new one."""
        if seat.due(self.options, self._clock.boot()):
            await self._empty_seat(seat)
        if seat.session is not None:
            return seat.session
        session = await self._maker.make()
        seat.fill(session, self._clock.boot())
        self._created += 1
        if self._closed:
            await self._empty_seat(seat)
            raise Failed(Failure.of(FailureKind.BROWSER_CRASH, "there are no sessions any more: we are closing"))
        return session

    # -- sessions ------------------------------------------------------------------------------------------------------

    async def create(self) -> str | None:
        """One more, ahead of need: its id. None: there is no seat for it, or not now. Raises Failed as `visit`."""
        seat = next((seat for seat in self._empty() if seat.session is None), None)
        if seat is None:
            return None
        seat.taken = True
        try:
            return (await self._session(seat)).session_id
        finally:
            self.give_back(seat)

    async def warm_up(self, sessions: int) -> int:
        """Makes that many ready, as far as there are seats; how many live then. Raises Failed as `visit`."""
        while len(self.active) < sessions and await self.create() is not None:
            pass
        return len(self.active)

    async def destroy(self, session_id: str) -> bool:
        """At once, or after the item that it serves. Whether there was one."""
        seat = self._of(session_id)
        if seat is None:
            return False
        if seat.taken:
            seat.wanted_fresh = True
        else:
            await self._end(seat)
        return True

    async def refresh(self, session_id: str) -> bool:
        """Replaces it: at once, or when its seat is next needed. Whether there was one. Raises Failed as `visit`."""
        seat = self._of(session_id)
        at_once = seat is not None and not seat.taken
        found = await self.destroy(session_id)
        if at_once:
            await self.create()
        return found

    def _of(self, session_id: str) -> SessionSlot | None:
        return next((s for s in self._seats if s.session is not None and s.session.session_id == session_id), None)

    async def tend(self) -> None:
        """Ends sessions that are old, or near their end, or erred too often, or were idle for too long; and tells when
        one may be asked for again."""
        now = self._clock.boot()
        for seat in self._seats:
            idle = seat.session is not None and now - seat.idle_since >= self.options.idle_seconds
            if not seat.taken and (idle or seat.due(self.options, now)):
                await self._end(seat)
        if self._maker.hold_off.is_over(now):
            self.on_free()

    async def run(self) -> None:
        """Tends them until it is cancelled."""
        while True:
            await self._clock.sleep(self.options.tend_seconds)
            await self.tend()

    @property
    def active(self) -> tuple[SessionStats, ...]:
        """Those that live."""
        now = self._clock.boot()
        return tuple(stats for seat in self._seats if (stats := seat.stats(now)) is not None)

    @property
    def stats(self) -> ManagerStats:
        """Of each that lives, and in sum."""
        return ManagerStats(
            provider=self._provider.name,
            max_sessions=len(self._seats),
            sessions=self.active,
            items_processed=self._items,
            errors=self._errors,
            created=self._created,
            destroyed=self._destroyed,
            held_for_seconds=max(0.0, self._maker.hold_off.until - self._clock.boot()),
            last_failure=self._maker.hold_off.failure,
        )

    async def close(self) -> None:
        """Bounded. No session is left, and none is made after it."""
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*self._afterwards, return_exceptions=True)
                await asyncio.gather(*(self._empty_seat(seat) for seat in self._seats))
        await self._provider.close()

    async def _end(self, seat: SessionSlot) -> None:
        seat.taken = True
        try:
            await self._empty_seat(seat)
        finally:
            self.give_back(seat)

    async def _empty_seat(self, seat: SessionSlot) -> None:
        session, seat.session = seat.session, None
        seat.empty_counts()
        if session is not None:
            self._destroyed += 1
            await asyncio.shield(self._later(self._provider.destroy(session)))

    def _later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Goes on when whoever asked for it is cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._afterwards.add(task)
        task.add_done_callback(self._afterwards.discard)
        return task

"""SessionManager: keeps sessions of one provider, lets items share them, and replaces what is old, broken or idle.

Before: pipeline/execute asks how many items may start, and which goes where (distributor.py). After: a provider opens
the item's place in a browser, in which browser/session/session.py works.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from swath.browser.opened import Opened, Provider, ProviderSession, Wish
from swath.browser.pool.place import says_exhausted
from swath.browser.seats.distributor import Distribution, ItemView, Strategy, items_to_sessions
from swath.browser.seats.making import Maker
from swath.browser.seats.seats import ManagerOptions, ManagerStats, Seat, SessionStats
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.ports.clock import Clock

__all__ = ["SessionManager"]

_AFFINITY: Final = Distribution(strategy=Strategy.DOMAIN_AFFINITY, max_items_per_session=1)
_MOST_OVERTAKING: Final = 4
_CLOSE_SECONDS: Final = 60.0
_CUT_SHORT: Final = Failure.of(FailureKind.TIMEOUT, "the item took too long, or is not wanted any more")


class SessionManager:
    """`free`, `pick` and `give_back` do not wait; whoever has picked either visits, once, or gives back."""

    def __init__(self, provider: Provider, options: ManagerOptions, clock: Clock) -> None:
        self.options = options
        self.on_free: Callable[[], None] = lambda: None  # called when an item may start where none could before
        self._provider = provider
        self._clock = clock
        self._seats = [Seat(number) for number in range(max(0, min(options.max_sessions, provider.most_sessions)))]
        self._maker = Maker(provider, options, clock)
        self._overtaken = 0
        self._created = self._destroyed = self._items = self._errors = 0
        self._closed = False
        self._afterwards: set[asyncio.Task[None]] = set()

    # -- which item goes where -----------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """How many more items may start now."""
        return len(self._ready()) + len(self._empty())

    def pick(self, candidates: Sequence[tuple[int, str]]) -> tuple[int, Seat] | None:
        """Which of the ready items (number and site, first in line first) goes to which seat, which is theirs from now
        on. One whose site a session has kept something of may go before others, though not again and again."""
        if self._overtaken >= _MOST_OVERTAKING:
            candidates = candidates[:1]
        seats = self._ready() or self._empty()  # a session that is there is used before another one is paid for
        items = [ItemView(str(place), domain) for place, (_, domain) in enumerate(candidates)]
        shares = items_to_sessions(items, [seat.view() for seat in seats], _AFFINITY)
        chosen = [(int(share.items[0].item_id), seat) for share, seat in zip(shares, seats, strict=True) if share.items]
        if not chosen:
            return None
        at_home = [(place, seat) for place, seat in chosen if candidates[place][1] in seat.view().domains]
        place, seat = min(at_home or chosen, key=lambda pair: pair[0])
        self._overtaken = self._overtaken + 1 if place else 0
        seat.taken = True
        return candidates[place][0], seat

    def give_back(self, seat: Seat) -> None:
        """The item never ran."""
        seat.taken = False
        seat.idle_since = self._clock.boot()
        self.on_free()

    def _ready(self) -> list[Seat]:
        now = self._clock.boot()
        return [s for s in self._seats if not s.taken and s.session is not None and not s.due(self.options, now)]

    def _empty(self) -> list[Seat]:
        """Those for which a session may be made now."""
        now = self._clock.boot()
        if self._closed or now < self._maker.hold_off.until:
            return []
        return [s for s in self._seats if not s.taken and (s.session is None or s.due(self.options, now))]

    # -- one item ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def visit(self, seat: Seat, wish: Wish) -> AsyncIterator[Opened]:
        """A place for the item, until it is done; then the seat is free again. Raises Failed: browser_crash,
        credential, rate_limited, access_policy. What the item raises tells whether its session is still good."""
        opened: Opened | None = None
        failure: Failure | None = None
        try:
            opened = await self._opened(seat, wish)
            yield opened
        except Failed as failed:
            failure = failed.failure
            raise
        except asyncio.CancelledError:
            failure = _CUT_SHORT
            raise
        finally:
            # The seat is free when all is closed, also where nobody waits for that any more.
            await asyncio.shield(self._later(self._leave(seat, opened, failure)))

    async def _leave(self, seat: Seat, opened: Opened | None, failure: Failure | None) -> None:
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

    async def _opened(self, seat: Seat, wish: Wish) -> Opened:
        session = await self._session(seat)
        try:
            opened = await self._maker.open(session, wish)
        except Failed as failed:
            served = seat.items
            if not says_exhausted(failed.failure):  # which tells nothing of the session
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

    async def _session(self, seat: Seat) -> ProviderSession:
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

    def _of(self, session_id: str) -> Seat | None:
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

    async def _end(self, seat: Seat) -> None:
        seat.taken = True
        try:
            await self._empty_seat(seat)
        finally:
            self.give_back(seat)

    async def _empty_seat(self, seat: Seat) -> None:
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

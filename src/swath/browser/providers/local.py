"""Sessions in browsers of our own: each is a place in the pool (browser/pool/pool.py) whenever an item needs one.

An item gets a context of its own, or the one that the session keeps for its site. Cookies and storage are written down
after every item that keeps them, so they live on when the browser is recycled or dies. rooms.py makes the contexts.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from swath.browser.chromium.running import Running
from swath.browser.exits.exit import Exit
from swath.browser.opened import Opened, ProviderSession, Wish
from swath.browser.pool.place import Place, crashed
from swath.browser.pool.pool import BrowserPool
from swath.browser.providers.rooms import Kept, LocalOptions, Room, Rooms
from swath.domain.errors import Failed

if TYPE_CHECKING:
    from patchright.async_api import Page

__all__ = ["LocalProvider"]


class LocalProvider:
    """Implements Provider. The pool is closed with it; the exits of `rooms` are not."""

    name = "local"

    def __init__(self, pool: BrowserPool, rooms: Rooms, options: LocalOptions | None = None) -> None:
        self.pool = pool
        self.rooms = rooms
        self.options = options or LocalOptions()
        self.most_sessions = pool.options.places
        self._numbers = itertools.count(1)
        self._sessions: dict[str, _Session] = {}
        self._afterwards: set[asyncio.Task[None]] = set()

    async def create(self) -> ProviderSession:
        """See Provider. Costs nothing: a browser is started with the first item."""
        session = _Session(f"local-{next(self._numbers)}", self)
        self._sessions[session.session_id] = session
        return session

    async def destroy(self, session: ProviderSession) -> None:
        """See Provider."""
        ours = self._sessions.pop(session.session_id, None)
        if ours is not None:
            await ours.end()

    async def close(self) -> None:
        """See Provider."""
        for session in tuple(self._sessions.values()):
            await self.destroy(session)
        await asyncio.gather(*self._afterwards, return_exceptions=True)
        await self.pool.close()

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on by itself, and is waited for at the end."""
        task = asyncio.get_running_loop().create_task(work)
        self._afterwards.add(task)
        task.add_done_callback(self._afterwards.discard)


class _Session:
    """Implements ProviderSession."""

    def __init__(self, session_id: str, provider: LocalProvider) -> None:
        self.session_id = session_id
        self.expires_at: float | None = None
        self.provider = provider
        self.gone = False  # when its browser dies, it goes on in another
        self._kept: OrderedDict[tuple[str, str, bool], Kept] = OrderedDict()

    async def open(self, wish: Wish) -> Opened:
        """See ProviderSession. Who asked may go away meanwhile; what the browser was asked for comes all the same, and
        is closed then."""
        making = asyncio.get_running_loop().create_task(self._opened(wish))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self.provider.later(_closed_when_made(making))
            raise

    async def _opened(self, wish: Wish) -> _Opened:
        kept = self._kept.get((wish.owner, wish.site, wish.mobile)) if wish.keeps else None
        near = None if kept is None or kept.room is None else kept.room.running
        place = await self.provider.pool.acquire(near)
        room: Room | None = None
        try:
            async with asyncio.timeout(self.provider.options.open_seconds):
                room = await self._room(place, wish, kept)
                page = await room.take_page()
        except Exception as error:  # noqa: BLE001 the driver raises anything when it or the browser is gone
            self.provider.pool.release(place, pages=0, broken=isinstance(error, TimeoutError))
            if room is not None:
                self._forget_room(room)
                await room.close(self.provider.options.close_seconds)
            raise error if isinstance(error, Failed) else crashed(_why(place, error)) from None
        return _Opened(self, place, room, page, keeps=wish.keeps)

    async def _room(self, place: Place, wish: Wish, kept: Kept | None) -> Room:
        """The one that is kept, if it is in this very browser and still fits; else a new one, with what is carried."""
        if kept is not None and kept.room is not None:
            room = kept.room
            if room.running is place.running and not room.is_lost and kept.region == wish.region:
                return room
            kept.room = None
            self.provider.later(self._left(room))
        _ = place.browser  # raises when it is gone
        room = await self.provider.rooms.make(place.running, wish, kept)
        if wish.keeps:
            known, state = Kept(room, wish.region), None if kept is None else kept.state
            known.state = state
            self._kept[wish.owner, wish.site, wish.mobile] = known
            self._kept.move_to_end((wish.owner, wish.site, wish.mobile))
            self._make_way()
        return room

    def _make_way(self) -> None:
        while len(self._kept) > self.provider.options.most_kept:
            _, oldest = self._kept.popitem(last=False)
            if oldest.room is not None:
                self.provider.later(self._left(oldest.room))

    async def _left(self, room: Room) -> None:
        """Nobody is in it, so what does not close there harms nobody until its browser is recycled."""
        await room.close(self.provider.options.close_seconds)

    def kept_of(self, room: Room) -> Kept | None:
        """What is kept in this room; None: nothing is."""
        return next((kept for kept in self._kept.values() if kept.room is room), None)

    def _forget_room(self, room: Room) -> None:
        kept = self.kept_of(room)
        if kept is not None:
            kept.room = None

    async def end(self) -> None:
        """Nothing is kept any more."""
        rooms = [kept.room for kept in self._kept.values() if kept.room is not None]
        self._kept.clear()
        await asyncio.gather(*(self._left(room) for room in rooms))


class _Opened:
    """Implements Opened."""

    def __init__(self, session: _Session, place: Place, room: Room, page: Page, *, keeps: bool) -> None:
        self.context = room.context
        self.page = page
        self.running: Running | None = place.running
        self.exit: Exit | None = room.exit
        self._session = session
        self._provider = session.provider
        self._place = place
        self._room = room
        self.keeps_page = self._keeps = keeps
        self.loads = 0
        self._is_open = True

    def admit(self, window: str) -> None:
        """See Opened."""
        self._place.running.admit(window)

    async def close(self) -> None:
        """See Opened."""
        if not self._is_open:
            return
        self._is_open = False
        kept = self._session.kept_of(self._room) if self._keeps else None
        closed = kept is not None and await self._emptied(kept)
        if not closed:
            if kept is not None:
                kept.room = None
            closed = await self._room.close(self._provider.options.close_seconds)
        self._provider.pool.release(self._place, pages=max(self.loads, 1), broken=not closed)

    async def _emptied(self, kept: Kept) -> bool:
        """Leaves the room for the next item of its site. A page that does not close takes the room with it."""
        options = self._provider.options
        if not await kept.remember(options.state_seconds):
            return False
        self._room.exit.serve(None, 0)
        try:
            async with asyncio.timeout(options.close_seconds):
                await self._room.empty(self.page, keeps_page=self.keeps_page)
        except Exception:  # noqa: BLE001 whatever it is, the room cannot be used again
            return False
        return True

    async def kill(self) -> None:
        """See Opened."""
        await self._provider.pool.kill(self._place)


async def _closed_when_made(making: asyncio.Task[_Opened]) -> None:
    with suppress(Failed):
        await (await making).close()


def _why(place: Place, error: Exception) -> str:
    if place.lost.is_set():
        return place.why_lost
    return "the browser does not open a page in time" if isinstance(error, TimeoutError) else "the browser has gone"

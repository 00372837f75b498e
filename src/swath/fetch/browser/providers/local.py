"""Sessions in browsers of our own: each item gets a slot in the pool, and a context with a fingerprint and a proxy
port.

An item has a new context, or the one that its session keeps for the site. Cookies and storage are saved after every
item that keeps them, so they survive when the browser is recycled or dies. Contexts of one browser are created one
after the other, so that the processes of each can be told apart.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import msgspec

from swath.domain.errors import Failed
from swath.fetch.browser.fingerprint.apply import apply_profile, apply_to_page, context_options
from swath.fetch.browser.fingerprint.profile import Engine, Profile, next_profile
from swath.fetch.browser.fingerprint.regions import Region
from swath.fetch.browser.pool.instance import BrowserProcess, BrowserSlot, browser_crashed
from swath.fetch.browser.pool.pool import BrowserPool
from swath.fetch.browser.providers.protocol import BrowserTab, ProviderSession, TabRequest
from swath.fetch.egress.forward_proxy.browser_egress import ContextProxy
from swath.fetch.egress.forward_proxy.browser_proxy import BrowserProxies, ContextForwardProxy

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, Page, StorageState

__all__ = ["ContextFactory", "KeptContext", "LocalContext", "LocalOptions", "LocalProvider"]

# By the page itself: asked for from outside, Chromium would start another process for it, and for the next page again.
_CLEAR: Final = "location.replace('about:blank')"
_CLEAR_SECONDS: Final = 1.0


class LocalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of what is asked of a browser of our own, and how many sites a session keeps something of."""

    open_seconds: float = 20.0
    close_seconds: float = 5.0
    state_seconds: float = 3.0
    most_kept: int = 8


class LocalContext:
    """A context in which items work, one at a time."""

    def __init__(
        self, running: BrowserProcess, context: BrowserContext, way_out: ContextForwardProxy, profile: Profile
    ) -> None:
        self.running = running
        self.context = context
        self.exit = way_out
        self.profile = profile
        self.page: Page | None = None  # an empty one, from the last item to the next

    @property
    def is_lost(self) -> bool:
        """Whether its browser has gone."""
        return self.running.gone.is_set()

    async def take_page(self) -> Page:
        """The one that waits here, or a new one. Wants an outer bound."""
        page, self.page = self.page, None
        if page is None or page.is_closed():
            page = await self.context.new_page()
            await apply_to_page(page, self.profile)
        return page

    async def empty(self, page: Page, *, keeps_page: bool) -> None:
        """Closes all pages, or all but one that is cleared. Wants an outer bound, and raises anything."""
        if keeps_page and await _clear_page(page):
            self.page = page
        await asyncio.gather(*(other.close() for other in self.context.pages if other is not self.page))

    async def close(self, seconds: float) -> bool:
        """Whether it could be closed; if not, its browser is to be killed. Never raises."""
        try:
            async with asyncio.timeout(seconds):
                await self.context.close()
        except Exception as error:  # noqa: BLE001 what is gone is closed
            return self.is_lost or not isinstance(error, TimeoutError)
        finally:
            await self.exit.close()
        return True


class KeptContext:
    """What a session has of one site: a room while its browser lives, and what is carried over into the next."""

    def __init__(self, room: LocalContext, region: Region | None) -> None:
        self.room: LocalContext | None = room
        self.profile = room.profile
        self.region = region
        self.state: StorageState | None = None

    async def remember(self, seconds: float) -> bool:
        """Writes down cookies and storage; what was known stays known where that cannot be done. Whether it was."""
        if self.room is None or self.room.is_lost:
            return False
        try:
            async with asyncio.timeout(seconds):
                self.state = await self.room.context.storage_state()
        except Exception:  # noqa: BLE001 a page that hangs, or a browser that has gone
            return False
        return True


class ContextFactory:
    """Makes them. `engine_of` says of a browser's version what really runs."""

    def __init__(self, exits: BrowserProxies, engine_of: Callable[[str], Engine], draw: Random) -> None:
        self._exits = exits
        self._engine_of = engine_of
        self._draw = draw
        self._last: Profile | None = None
        self._turns: WeakKeyDictionary[BrowserProcess, asyncio.Lock] = WeakKeyDictionary()

    async def make(self, running: BrowserProcess, wish: TabRequest, kept: KeptContext | None) -> LocalContext:
        """Wants an outer bound. Of what was kept, the face stays as long as it agrees with the region."""
        profile = self._next(running, wish) if kept is None or kept.region != wish.region else kept.profile
        options: dict[str, Any] = context_options(profile)
        if kept is not None and kept.state is not None:
            options["storage_state"] = kept.state
        way_out = await self._exits.open(running.user)
        try:
            async with self._turns.setdefault(running, asyncio.Lock()):
                context = await running.browser.new_context(
                    **options, proxy={"server": f"http://127.0.0.1:{way_out.port}"}, accept_downloads=True
                )
        except BaseException:
            await way_out.close()
            raise
        room = LocalContext(running, context, way_out, profile)
        await apply_profile(context, profile)
        return room

    def _next(self, running: BrowserProcess, wish: TabRequest) -> Profile:
        engine = self._engine_of(running.version)
        self._last = next_profile(self._last, engine, wish.region, self._draw, mobile=wish.mobile)
        return self._last


async def _clear_page(page: Page) -> bool:
    """Whether nothing of its document runs any more."""
    try:
        async with asyncio.timeout(_CLEAR_SECONDS):
            await page.evaluate(_CLEAR)
            await page.wait_for_url("about:blank", wait_until="commit")
    except Exception:  # noqa: BLE001 whatever it is, the page is closed then
        return False
    return True


class LocalProvider:
    """Implements Provider. The pool is closed with it; the exits of `rooms` are not."""

    name = "local"

    def __init__(self, pool: BrowserPool, rooms: ContextFactory, options: LocalOptions | None = None) -> None:
        self.pool = pool
        self.rooms = rooms
        self.options = options or LocalOptions()
        self.most_sessions = pool.options.places
        self._numbers = itertools.count(1)
        self._sessions: dict[str, _LocalSession] = {}
        self._afterwards: set[asyncio.Task[None]] = set()

    async def create(self) -> ProviderSession:
        """See Provider. Costs nothing: a browser is started with the first item."""
        session = _LocalSession(f"local-{next(self._numbers)}", self)
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


class _LocalSession:
    """Implements ProviderSession."""

    def __init__(self, session_id: str, provider: LocalProvider) -> None:
        self.session_id = session_id
        self.expires_at: float | None = None
        self.provider = provider
        self.gone = False  # when its browser dies, it goes on in another
        self._kept: OrderedDict[tuple[str, str, bool], KeptContext] = OrderedDict()

    async def open(self, wish: TabRequest) -> BrowserTab:
        """See ProviderSession. Who asked may go away meanwhile; what the browser was asked for comes all the same, and
        is closed then."""
        making = asyncio.get_running_loop().create_task(self._opened(wish))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self.provider.later(_close_when_opened(making))
            raise

    async def _opened(self, wish: TabRequest) -> _LocalTab:
        kept = self._kept.get((wish.owner, wish.site, wish.mobile)) if wish.keeps else None
        near = None if kept is None or kept.room is None else kept.room.running
        place = await self.provider.pool.acquire(near)
        room: LocalContext | None = None
        try:
            async with asyncio.timeout(self.provider.options.open_seconds):
                room = await self._room(place, wish, kept)
                page = await room.take_page()
        except Exception as error:  # noqa: BLE001 the driver raises anything when it or the browser is gone
            self.provider.pool.release(place, pages=0, broken=isinstance(error, TimeoutError))
            if room is not None:
                self._forget_room(room)
                await room.close(self.provider.options.close_seconds)
            raise error if isinstance(error, Failed) else browser_crashed(_crash_reason(place, error)) from None
        return _LocalTab(self, place, room, page, keeps=wish.keeps)

    async def _room(self, place: BrowserSlot, wish: TabRequest, kept: KeptContext | None) -> LocalContext:
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
            known, state = KeptContext(room, wish.region), None if kept is None else kept.state
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

    async def _left(self, room: LocalContext) -> None:
        """Nobody is in it, so what does not close there harms nobody until its browser is recycled."""
        await room.close(self.provider.options.close_seconds)

    def kept_of(self, room: LocalContext) -> KeptContext | None:
        """What is kept in this room; None: nothing is."""
        return next((kept for kept in self._kept.values() if kept.room is room), None)

    def _forget_room(self, room: LocalContext) -> None:
        kept = self.kept_of(room)
        if kept is not None:
            kept.room = None

    async def end(self) -> None:
        """Nothing is kept any more."""
        rooms = [kept.room for kept in self._kept.values() if kept.room is not None]
        self._kept.clear()
        await asyncio.gather(*(self._left(room) for room in rooms))


class _LocalTab:
    """Implements Opened."""

    def __init__(
        self, session: _LocalSession, place: BrowserSlot, room: LocalContext, page: Page, *, keeps: bool
    ) -> None:
        self.context = room.context
        self.page = page
        self.running: BrowserProcess | None = place.running
        self.exit: ContextProxy | None = room.exit
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

    async def _emptied(self, kept: KeptContext) -> bool:
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


async def _close_when_opened(making: asyncio.Task[_LocalTab]) -> None:
    with suppress(Failed):
        await (await making).close()


def _crash_reason(place: BrowserSlot, error: Exception) -> str:
    if place.lost.is_set():
        return place.why_lost
    return "the browser does not open a page in time" if isinstance(error, TimeoutError) else "the browser has gone"

"""Rooms: contexts in browsers of our own, each with a face and a way out; and what a session keeps of a site.

local.py opens pages in them. Every call is bounded, and contexts of one browser are made one after the other, so that
the processes of each can be told apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import msgspec

from swath.browser.chromium.running import Running
from swath.browser.exits.exits import ContextExit, Exits
from swath.browser.faces.dressing import context_options, dress, dress_page
from swath.browser.faces.profile import Engine, Profile, next_profile
from swath.browser.faces.region import Region
from swath.browser.opened import Wish

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, Page, StorageState

__all__ = ["Kept", "LocalOptions", "Room", "Rooms"]

# By the page itself: asked for from outside, Chromium would start another process for it, and for the next page again.
_CLEAR: Final = "location.replace('about:blank')"
_CLEAR_SECONDS: Final = 1.0


class LocalOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of what is asked of a browser of our own, and how many sites a session keeps something of."""

    open_seconds: float = 20.0
    close_seconds: float = 5.0
    state_seconds: float = 3.0
    most_kept: int = 8


class Room:
    """A context in which items work, one at a time."""

    def __init__(self, running: Running, context: BrowserContext, way_out: ContextExit, profile: Profile) -> None:
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
            await dress_page(page, self.profile)
        return page

    async def empty(self, page: Page, *, keeps_page: bool) -> None:
        """Closes all pages, or all but one that is cleared. Wants an outer bound, and raises anything."""
        if keeps_page and await _cleared(page):
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


class Kept:
    """What a session has of one site: a room while its browser lives, and what is carried over into the next."""

    def __init__(self, room: Room, region: Region | None) -> None:
        self.room: Room | None = room
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


class Rooms:
    """Makes them. `engine_of` says of a browser's version what really runs."""

    def __init__(self, exits: Exits, engine_of: Callable[[str], Engine], draw: Random) -> None:
        self._exits = exits
        self._engine_of = engine_of
        self._draw = draw
        self._last: Profile | None = None
        self._turns: WeakKeyDictionary[Running, asyncio.Lock] = WeakKeyDictionary()

    async def make(self, running: Running, wish: Wish, kept: Kept | None) -> Room:
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
        room = Room(running, context, way_out, profile)
        await dress(context, profile)
        return room

    def _next(self, running: Running, wish: Wish) -> Profile:
        engine = self._engine_of(running.version)
        self._last = next_profile(self._last, engine, wish.region, self._draw, mobile=wish.mobile)
        return self._last


async def _cleared(page: Page) -> bool:
    """Whether nothing of its document runs any more."""
    try:
        async with asyncio.timeout(_CLEAR_SECONDS):
            await page.evaluate(_CLEAR)
            await page.wait_for_url("about:blank", wait_until="commit")
    except Exception:  # noqa: BLE001 whatever it is, the page is closed then
        return False
    return True

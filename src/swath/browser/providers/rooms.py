"""Rooms: contexts in browsers of our own, each with a face and a way out; and what a session keeps of a site.

local.py opens pages in them. Every call is bounded, and contexts of one browser are made one after the other, so that
the processes of each can be told apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from swath.browser.dressing import context_options, dress
from swath.browser.exits import ContextExit, Exits
from swath.browser.opened import Wish
from swath.browser.profile import Engine, Profile, next_profile
from swath.browser.region import Region
from swath.browser.running import Running

if TYPE_CHECKING:
    from patchright.async_api import BrowserContext, StorageState

__all__ = ["Kept", "LocalOptions", "Room", "Rooms"]


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

    @property
    def is_lost(self) -> bool:
        """Whether its browser has gone."""
        return self.running.gone.is_set()

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
        way_out = await self._exits.open()
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

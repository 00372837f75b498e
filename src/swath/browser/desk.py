"""Desk: where a worker gets its browsers: who may start, on which seat, and a session for the time of one attempt.

Before: pipeline/execute/browsers.py says what it asks. After: manager.py has the sessions, session.py works in them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from swath.browser.elsewhere import ElsewhereGate
from swath.browser.faces.region import Region
from swath.browser.faces.regions import region_of
from swath.browser.opened import Wish
from swath.browser.pool.place import PoolExhausted
from swath.browser.pool.pool import BrowserPool
from swath.browser.seats.manager import SessionManager
from swath.browser.seats.seats import Seat
from swath.browser.session.session import BrowserSession
from swath.browser.visit import Visit
from swath.domain.policy import Proxy
from swath.domain.proxy_products import ProxyType
from swath.ports.clock import Clock
from swath.web.egress.guard import Guard

__all__ = ["Desk"]


class Desk:
    """One per process. With a `pool`, browsers of our own: `keep` looks after them, `leave` closes their ways out. With
    a `guard`, those of others: it is asked before they are sent anywhere."""

    def __init__(
        self,
        manager: SessionManager,
        clock: Clock,
        pool: BrowserPool | None = None,
        keep: Callable[[], Coroutine[Any, Any, None]] | None = None,
        leave: Callable[[], Awaitable[None]] | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.manager = manager
        self._clock = clock
        self._pool = pool
        self._leave = leave
        self._guard = guard
        chores = [manager.run] if keep is None else [manager.run, keep]
        self._chores = [asyncio.get_running_loop().create_task(chore()) for chore in chores]
        self._tickets = itertools.count(1)
        self._reserved: dict[int, Seat] = {}

    @property
    def free(self) -> int:
        """How many more items may start now."""
        return self.manager.free

    def pick(self, sites: Sequence[str]) -> tuple[int, int] | None:
        """Which of the ready items, by its place in the row of their sites, and the ticket to its seat."""
        picked = self.manager.pick(list(enumerate(sites)))
        if picked is None:
            return None
        index, seat = picked
        ticket = next(self._tickets)
        self._reserved[ticket] = seat
        return index, ticket

    def give_back(self, ticket: int) -> None:
        """The item did not start. Of one that did, the seat is free when all is closed."""
        seat = self._reserved.pop(ticket, None)
        if seat is not None:
            self.manager.give_back(seat)

    @asynccontextmanager
    async def visit(self, ticket: int, visit: Visit) -> AsyncIterator[BrowserSession]:
        """A session with a page of its own. Raises Failed: browser_crash, credential, rate_limited, access_policy."""
        wish = Wish(
            site=visit.site,
            owner=visit.owner,
            keeps=visit.keeps,
            region=_region(visit.proxy),
            mobile=visit.mobile,
        )
        gate = visit.gate if self._guard is None else ElsewhereGate(visit.gate, self._guard)
        async with (
            self.manager.visit(self._reserved.pop(ticket), wish) as opened,
            BrowserSession(opened, gate, self._clock, visit.options) as session,
        ):
            yield session

    async def close(self) -> None:
        """Bounded. No browser, port or paid session is left."""
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self.manager.close()
        if self._leave is not None:
            await self._leave()

    async def check(self) -> None:
        """Returns when a session can be had; starts a browser of our own if none runs. Raises PoolExhausted."""
        if self._pool is not None:
            await self._pool.check()
        elif (trouble := self.trouble) is not None:
            raise PoolExhausted(trouble, self.manager.stats.held_for_seconds)

    @property
    def trouble(self) -> str | None:
        """Why no session can be had now, if that is so."""
        stats = self.manager.stats
        if stats.held_for_seconds > 0 and stats.last_failure is not None:
            return stats.last_failure.message
        return None if self._pool is None else self._pool.stats.trouble

    @property
    def figures(self) -> dict[str, int]:
        """For health and metrics (B1, B5)."""
        stats = self.manager.stats
        figures = {
            "sessions": len(stats.sessions),
            "max_sessions": stats.max_sessions,
            "items_processed": stats.items_processed,
            "errors": stats.errors,
        }
        if self._pool is None:
            return figures
        pool = self._pool.stats
        return figures | {
            "total": pool.total,
            "available": pool.available,
            "in_use": pool.in_use,
            "pages_processed": pool.pages_processed,
            "recycled_count": pool.recycled_count,
            "memory_bytes": pool.memory_bytes,
        }


def _region(proxy: Proxy) -> Region | None:
    """Without a proxy the browser is where we are, and shows what this machine is set to."""
    if proxy.type is ProxyType.NONE or proxy.country is None:
        return None
    return region_of(proxy.country, proxy.state)

"""Gives a worker its browsers: how many items may start, which session each gets, and a tab for one attempt."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from swath.domain.execution_policy import Proxy
from swath.domain.proxy_products import ProxyType
from swath.fetch.browser.fingerprint.regions import Region, region_of
from swath.fetch.browser.pool.instance import PoolExhausted
from swath.fetch.browser.pool.pool import BrowserPool
from swath.fetch.browser.providers.protocol import TabRequest
from swath.fetch.browser.remote_gate import RemoteBrowserGate
from swath.fetch.browser.request import BrowserRequest
from swath.fetch.browser.sessions.manager import SessionManager
from swath.fetch.browser.sessions.session_slot import SessionSlot
from swath.fetch.browser.tab.session import BrowserSession
from swath.fetch.egress.guard import EgressGuard
from swath.ports.clock import Clock

__all__ = ["BrowserAccess"]


class BrowserAccess:
    """One per process. With a `pool`, browsers of our own: `keep` looks after them, `leave` closes their ways out. With
    a `guard`, those of others: it is asked before they are sent anywhere."""

    def __init__(
        self,
        manager: SessionManager,
        clock: Clock,
        pool: BrowserPool | None = None,
        keep: Callable[[], Coroutine[Any, Any, None]] | None = None,
        leave: Callable[[], Awaitable[None]] | None = None,
        guard: EgressGuard | None = None,
    ) -> None:
        self.manager = manager
        self._clock = clock
        self._pool = pool
        self._leave = leave
        self._guard = guard
        chores = [manager.run] if keep is None else [manager.run, keep]
        self._chores = [asyncio.get_running_loop().create_task(chore()) for chore in chores]
        self._tickets = itertools.count(1)
        self._reserved: dict[int, SessionSlot] = {}

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
    async def visit(self, ticket: int, visit: BrowserRequest) -> AsyncIterator[BrowserSession]:
        """A session with a page of its own. Raises Failed: browser_crash, credential, rate_limited, access_policy."""
        wish = TabRequest(
            site=visit.site,
            owner=visit.owner,
            keeps=visit.keeps,
            region=_region(visit.proxy),
            mobile=visit.mobile,
        )
        gate = visit.gate if self._guard is None else RemoteBrowserGate(visit.gate, self._guard)
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

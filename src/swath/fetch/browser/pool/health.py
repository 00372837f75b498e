"""Checks the memory and responsiveness of running browsers every few seconds, and sweeps orphans every minute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from swath.fetch.browser.pool.instance import BrowserInstance
from swath.fetch.browser.pool.pool import BrowserPool
from swath.ports.clock import Clock

__all__ = ["HealthMonitor", "OrphanSweeper"]

_log = logging.getLogger("swath.browser.pool.keeper")

KILL_MEMORY_FACTOR: Final = 2  # times the memory after which a browser is due: it is killed, whoever is in it


class OrphanSweeper:
    """`reap` kills orphans and says how many there were; it may block, and is called in a thread. By itself for
    browsers elsewhere, whose drivers are here."""

    def __init__(self, clock: Clock, reap: Callable[[], int], every_seconds: float) -> None:
        self._clock = clock
        self._reap = reap
        self._every_seconds = every_seconds
        self._reaped_at: float | None = None

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.run_once()
            await self._clock.sleep(self._every_seconds)

    async def run_once(self) -> None:
        """Looks if it is time for it. Never raises."""
        now = self._clock.boot()
        if self._reaped_at is not None and now - self._reaped_at < self._every_seconds:
            return
        self._reaped_at = now
        try:
            found = await asyncio.to_thread(self._reap)
        except Exception:  # noqa: BLE001 the next look may go better
            _log.exception("orphaned browsers could not be looked for")
            return
        if found:
            _log.warning("orphaned browser processes of a dead worker were killed: %d", found)


class HealthMonitor:
    """For browsers of our own. `reap`: see Sweeper."""

    def __init__(self, pool: BrowserPool, clock: Clock, reap: Callable[[], int]) -> None:
        self._pool = pool
        self._clock = clock
        self._sweeper = OrphanSweeper(clock, reap, pool.options.sweep_seconds)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.run_once()
            await self._clock.sleep(self._pool.options.look_seconds)

    async def run_once(self) -> None:
        """Looks at everything that it is time for. Never raises."""
        await self._sweeper.run_once()
        await asyncio.gather(*(self._look_at(member) for member in self._pool.members))
        self._pool.tend()

    async def _look_at(self, member: BrowserInstance) -> None:
        member.memory_bytes, answers = await asyncio.gather(member.running.memory_bytes(), member.running.answers())
        most_bytes = KILL_MEMORY_FACTOR * self._pool.options.most_memory_bytes
        if not answers:
            self._pool.lose(member, "the browser does not answer")
        elif member.memory_bytes >= most_bytes:
            self._pool.lose(member, f"the browser took {member.memory_bytes >> 20} MiB of memory")

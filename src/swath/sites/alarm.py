"""Alarm: calls back at a time on the boot clock. One sleeper at most, so that no crowd of timers is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from swath.ports.clock import Clock

__all__ = ["Alarm"]


class Alarm:
    """Rings no later than the earliest time that was asked for, and then forgets them all."""

    __slots__ = ("_at", "_clock", "_ring", "_task")

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at = 0.0
        self._task: asyncio.Task[None] | None = None

    def at(self, time: float) -> None:
        """Rings then, or before."""
        if self._task is not None:
            if self._at <= time:
                return
            self._task.cancel()
        self._at = time
        self._task = asyncio.create_task(self._sleep(time))

    def off(self) -> None:
        """Does not ring any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _sleep(self, time: float) -> None:
        await self._clock.sleep(time - self._clock.boot())
        self._task = None
        self._ring()

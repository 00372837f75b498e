"""Standstill: notices that the event loop of this process is blocked, which an item does that never gives it back.

Time in which the process itself did not run does not count: a stopped process or a suspended laptop blocks nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from swath.ports.clock import Clock

__all__ = ["Standstill"]

TICK_SECONDS: Final = 0.2
LOOK_SECONDS: Final = 1.0
MOST_LOOKS: Final = 2  # that the time since the last look may count for; if it is longer, the process did not run


class Standstill:
    """The event loop ticks, and a thread looks every `look_seconds` whether it still does.

    `on_standstill` is called in that thread, once for each time that the loop is blocked for more than
    `allowed_seconds`.
    """

    def __init__(
        self,
        clock: Clock,
        look_seconds: float,
        allowed_seconds: Callable[[], float],
        on_standstill: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._look_seconds = look_seconds
        self._allowed_seconds = allowed_seconds
        self._on_standstill = on_standstill
        self._ticks = 0
        self._ticks_seen = -1
        self._looked_at = clock.boot()
        self._blocked_seconds = 0.0
        self._stop = threading.Event()
        self.found = False  # read by the heartbeat's thread

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches the running event loop during the block."""
        ticking = asyncio.create_task(self._keep_ticking())
        threading.Thread(target=self._keep_looking, name="swath-standstill", daemon=True).start()
        try:
            yield
        finally:
            self._stop.set()
            ticking.cancel()

    async def _keep_ticking(self) -> None:
        while True:
            self.tick()
            await asyncio.sleep(TICK_SECONDS)

    def tick(self) -> None:
        """The loop runs."""
        self._ticks += 1

    def look(self) -> None:
        """Counts the time since the last look if the loop has not ticked since."""
        now, ticks = self._clock.boot(), self._ticks
        gap, self._looked_at = now - self._looked_at, now
        if ticks != self._ticks_seen:  # counting begins with the next look, when the loop has had time to tick
            self._ticks_seen, self._blocked_seconds, self.found = ticks, 0.0, False
            return
        self._blocked_seconds += min(gap, MOST_LOOKS * self._look_seconds)
        if self._blocked_seconds > self._allowed_seconds() and not self.found:
            self.found = True
            self._on_standstill()

    def _keep_looking(self) -> None:
        while not self._stop.wait(self._look_seconds):
            self.look()

"""A work queue without a server: a worker that finds nothing to claim pauses, then asks the store again.

An announcement in the same process ends the pause at once; other processes find new work at their next poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from typing import Final

from swath.ports.clock import Clock
from swath.ports.work_queue import WorkHint

__all__ = ["PollingQueue"]

POLL_SECONDS: Final = 0.2


class PollingQueue:
    """Implements WorkQueue: to wait is to pause. It hands out no hints, because the lease book is asked anyway."""

    def __init__(self, clock: Clock, poll_seconds: float = POLL_SECONDS) -> None:
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._lock = threading.Lock()
        self._told = False  # since somebody last paused: what comes while a worker asks the book must not be missed
        self._pausing: set[asyncio.Future[None]] = set()

    @property
    def patience_seconds(self) -> float:
        return self._poll_seconds

    async def announce(self, hints: Sequence[WorkHint]) -> None:
        """Wakes whoever pauses in this process, on whatever event loop."""
        if not hints:
            return
        with self._lock:
            self._told = True
            pausing = list(self._pausing)
        for pause in pausing:
            with contextlib.suppress(RuntimeError):  # its loop has closed
                pause.get_loop().call_soon_threadsafe(_wake, pause)

    async def wait(self, seconds: float) -> WorkHint | None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            told, self._told = self._told, False
            if told:
                return None
            self._pausing.add(woken)
        pause = asyncio.ensure_future(self._clock.sleep(min(seconds, self._poll_seconds)))
        try:
            await asyncio.wait({pause, woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            with self._lock:
                self._pausing.discard(woken)
                if woken.done():
                    self._told = False
        return None

    async def keep(self) -> None:
        """There is nothing to keep."""

    async def settle(self, job_id: str) -> None:
        """There is nothing to settle."""

    async def waiting(self) -> int:
        return 0

    async def close(self) -> None:
        """There is nothing to give back."""


def _wake(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)

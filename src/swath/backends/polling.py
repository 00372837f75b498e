"""PollingQueue: the work queue of a store so near that asking it costs less than being told.

A worker that finds nothing to claim pauses here and asks again. Nobody has to announce anything, so nothing can be
lost on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swath.ports.clock import Clock
from swath.ports.work_queue import Hint

__all__ = ["PollingQueue"]

POLL_SECONDS: Final = 0.2


class PollingQueue:
    """Implements WorkQueue: to wait is to pause."""

    def __init__(self, clock: Clock, poll_seconds: float = POLL_SECONDS) -> None:
        self._clock = clock
        self._poll_seconds = poll_seconds

    @property
    def patience_seconds(self) -> float:
        return self._poll_seconds

    async def announce(self, hints: Sequence[Hint]) -> None:
        """Everybody asks soon enough."""

    async def wait(self, seconds: float) -> Hint | None:
        await self._clock.sleep(min(seconds, self._poll_seconds))
        return None

    async def keep(self) -> None:
        """There is nothing to keep."""

    async def settle(self, job_id: str) -> None:
        """There is nothing to settle."""

    async def waiting(self) -> int:
        return 0

    async def close(self) -> None:
        """There is nothing to give back."""

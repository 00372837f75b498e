"""Leader election in plain values: the executable form of its port's docstrings."""

from __future__ import annotations

import msgspec

from swath.ports.clock import Clock

__all__ = ["MemoryLead", "MemoryLeader"]


class MemoryLead(msgspec.Struct):
    """What all candidates share: who leads, and until when by the boot clock."""

    worker_id: str = ""
    until: float = 0.0


class MemoryLeader:
    """Implements Leader."""

    def __init__(self, shared: MemoryLead, clock: Clock, worker_id: str, lease_seconds: float = 15.0) -> None:
        self._shared = shared
        self._clock = clock
        self._worker_id = worker_id
        self._lease_seconds = lease_seconds

    async def lead(self) -> bool:
        now = self._clock.boot()
        if self._shared.worker_id != self._worker_id and self._shared.until > now:
            return False
        self._shared.worker_id, self._shared.until = self._worker_id, now + self._lease_seconds
        return True

    async def resign(self) -> None:
        if self._shared.worker_id == self._worker_id:
            self._shared.until = 0.0

"""A work queue in lists: the executable form of its port's docstrings.

All ends of one queue share a MemoryHints; each worker has an end of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Final

import msgspec

from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from swath.ports.clock import Clock
from swath.ports.work_queue import WorkHint

__all__ = ["MemoryHints", "MemoryQueue"]

PATIENCE_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 0.005  # workers of a test may live on several event loops, so there is no one event for all


class _HintInQueue(msgspec.Struct, eq=False):
    """A hint on its way. It may be had from `visible_at` on, by the boot clock; `receipt` says who has it last."""

    hint: WorkHint
    visible_at: float = 0.0
    receipt: object = None


class MemoryHints:
    """What all ends share. `gone` makes every call fail, as when somebody has deleted the queue."""

    def __init__(self, clock: Clock, lease_seconds: float = 15.0) -> None:
        self.clock = clock
        self.lease_seconds = lease_seconds
        self.gone = False
        self.hints: list[_HintInQueue] = []
        self.lock = threading.Lock()

    def check(self) -> None:
        """Raises StoreUnavailable."""
        if self.gone:
            raise StoreUnavailable("the queue is gone", WaitingFor.QUEUE)


class MemoryQueue:
    """Implements WorkQueue. Lives as long as its process, which all workers of a test may share."""

    def __init__(self, shared: MemoryHints) -> None:
        self._shared = shared
        self._mine: list[_HintInQueue] = []
        self._closed = False

    @property
    def patience_seconds(self) -> float:
        return PATIENCE_SECONDS

    async def announce(self, hints: Sequence[WorkHint]) -> None:
        with self._shared.lock:
            self._check()
            self._shared.hints += [_HintInQueue(hint) for hint in sorted(hints, key=lambda hint: not hint.express)]

    async def wait(self, seconds: float) -> WorkHint | None:
        """Looks again and again, so that the time may be one that tests let pass."""
        until = self._shared.clock.boot() + seconds
        while (given := self._taken()) is None and self._shared.clock.boot() < until:
            await asyncio.sleep(LOOK_SECONDS)
        return None if given is None else given.hint

    def _taken(self) -> _HintInQueue | None:
        with self._shared.lock:
            self._check()
            now = self._shared.clock.boot()
            ready = [given for given in self._shared.hints if given.visible_at <= now]
            given = min(ready, key=lambda given: not given.hint.express, default=None)
            if given is not None:
                given.visible_at, given.receipt = now + self._shared.lease_seconds, self
                self._mine.append(given)
            return given

    async def keep(self) -> None:
        with self._shared.lock:
            self._check_if(self._mine)
            now = self._shared.clock.boot()
            self._mine = [given for given in self._mine if given.receipt is self and given.visible_at > now]
            for given in self._mine:
                given.visible_at = now + self._shared.lease_seconds

    async def settle(self, job_id: str) -> None:
        with self._shared.lock:
            settled = [given for given in self._mine if given.hint.job_id == job_id and given.receipt is self]
            self._check_if(settled)
            self._mine = [given for given in self._mine if given.hint.job_id != job_id]
            self._shared.hints = [given for given in self._shared.hints if given not in settled]

    async def waiting(self) -> int:
        with self._shared.lock:
            self._check()
            return sum(given.visible_at <= self._shared.clock.boot() for given in self._shared.hints)

    async def close(self) -> None:
        with self._shared.lock:
            for given in self._mine:
                given.visible_at = 0.0 if given.receipt is self else given.visible_at
            self._mine, self._closed = [], True

    def _check(self) -> None:
        self._shared.check()
        if self._closed:
            raise StoreUnavailable("the queue is closed", WaitingFor.QUEUE)

    def _check_if(self, given: list[_HintInQueue]) -> None:
        """With nothing to say nobody goes to the queue."""
        if given:
            self._check()

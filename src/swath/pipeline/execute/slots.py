"""JobSlots: how many items of one job this worker may run at once, over all its leases of that job, and which do run.

The store's answers come through committer.py; runner.py asks before it starts an item. The rules: domain/lease.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from swath.domain.lease import Grant, Report
from swath.pipeline.execute.tempo import Tempo

__all__ = ["JobSlots", "UsesSlots"]


class UsesSlots(Protocol):
    """A lease in this worker's hands."""

    @property
    def ready(self) -> int:
        """Items that could start at once."""
        ...


class JobSlots:
    """`turn` keeps reports on the job in order: a ceiling that was told late could undo a newer answer.

    `room` says how many more items the worker as a whole may run, whatever its jobs allow.
    """

    def __init__(self, slots: int, target: int, room: Callable[[], int], revision: int = 0) -> None:
        self._room = room
        self.turn = asyncio.Lock()
        self.tempo = Tempo()
        self.users: set[UsesSlots] = set()
        self._queued: set[int] = set()
        self._begun: set[int] = set()
        self._ceiling = slots
        self._target = target
        self._revision = revision
        self._shrink()

    @property
    def running(self) -> int:
        """Items that have a slot."""
        return len(self._queued) + len(self._begun)

    @property
    def free(self) -> int:
        """Slots that can be used now."""
        return min(self._ceiling - self.running, self._room())

    @property
    def owed(self) -> bool:
        """Whether our fair share is more than we have."""
        return self._ceiling < self._target

    @property
    def idle(self) -> bool:
        """Whether we have slots that this worker cannot use, because it has no room for so many items."""
        return self._ceiling > self._usable

    @property
    def _usable(self) -> int:
        """Items that could run here at once. One at least: when the worker is full, its jobs take turns."""
        return self.running + max(self._room(), 0 if self.running else 1)

    def hope_for(self, target: int, revision: int) -> None:
        """A further lease has come, with more to run than when we last reported, so our fair share may be larger.

        Under another policy the limit may be lower, and then the new share binds us at once.
        """
        if revision > self._revision:
            self._target, self._revision = target, revision
            self._shrink()
        self._target = max(self._target, target)

    def take(self, seq: int) -> None:
        """An item starts."""
        self._queued.add(seq)

    def begin(self, seq: int) -> None:
        """Its first request is about to be sent."""
        self._queued.discard(seq)
        self._begun.add(seq)

    def give(self, seq: int) -> None:
        """An item has ended, or goes to wait."""
        self._queued.discard(seq)
        self._begun.discard(seq)
        self._shrink()

    def report(self) -> Report:
        """What the next commit says. Its ceiling binds us until the answer comes: what we cannot use is others' now."""
        self._ceiling = min(self._ceiling, self._usable)
        return Report(
            ceiling=self._ceiling,
            demand=min(self.running + sum(user.ready for user in self.users), self._usable),
            queued=tuple(self._queued),
            begun=tuple(self._begun),
        )

    def apply(self, grant: Grant) -> None:
        """Takes the store's answer: more slots at once, fewer as items end."""
        self.tempo.asked(in_vain=self.owed and grant.slots <= self._ceiling)
        self._ceiling, self._target = grant.slots, grant.target
        self._shrink()

    def _shrink(self) -> None:
        if self._target < self._ceiling:
            self._ceiling = max(self._target, self.running)

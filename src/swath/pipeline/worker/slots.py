"""JobSlots: how many items of one job this worker may run at once, over all its leases of that job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from swath.domain.lease import SlotGrant, SlotReport
from swath.pipeline.worker.outcome_buffer import CommitInterval

__all__ = ["JobSlots", "SlotUser"]


class SlotUser(Protocol):
    """A lease in this worker's hands."""

    @property
    def ready(self) -> int:
        """Items that could start at once."""
        ...


class _Activity(msgspec.Struct):
    """What has happened since a word was sent."""

    starts: int = 0
    failures: int = 0


class JobSlots:
    """`turn` keeps reports on the job in order: a ceiling that was told late could undo a newer answer.

    `room` says how many more items the worker as a whole may run, whatever its jobs allow. `far`: that the job's
    circuit has opened is heard with the next answer only. So once an attempt has failed, the worker starts no more than
    its slots beyond the last answer (S4), and speaks at once.
    """

    def __init__(
        self, slots: int, target: int, room: Callable[[], int], revision: int = 0, *, far: bool = False
    ) -> None:
        self._room = room
        self._far = far
        self._since_answered = _Activity()  # the last word was sent that has an answer
        self._since_sent = _Activity()
        self.turn = asyncio.Lock()
        self.tempo = CommitInterval()
        self.users: set[SlotUser] = set()
        self._queued: set[int] = set()
        self._begun: set[int] = set()
        self._ceiling = slots
        self._target = target
        self._revision = revision
        self._told_demand = target
        self._shrink()

    @property
    def running(self) -> int:
        """Items that have a slot."""
        return len(self._queued) + len(self._begun)

    @property
    def free(self) -> int:
        """Slots that can be used now."""
        free = self._ceiling - self.running
        if free <= 0:
            return free  # mostly; the others need not be counted then
        free = min(free, self._room())
        return min(free, self._ceiling - self._since_answered.starts) if self.in_doubt else free

    @property
    def in_doubt(self) -> bool:
        """Whether the job's circuit may be about to open, and we would not know."""
        return self._far and self._since_answered.failures > 0

    @property
    def owed(self) -> bool:
        """Whether our fair share is more than we have."""
        return self._ceiling < self._target

    @property
    def idle(self) -> bool:
        """Whether we have slots that this worker cannot use, because it has no room for so many items."""
        return self._ceiling > self._usable

    @property
    def unheard(self) -> bool:
        """Whether we could run more items than the store knows of, so that our fair share may be larger."""
        return self._demand > self._told_demand

    @property
    def _demand(self) -> int:
        return min(self.running + sum(user.ready for user in self.users), self._usable)

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
        self._since_answered.starts += 1
        self._since_sent.starts += 1

    def fail(self) -> None:
        """An attempt has failed in a way that counts for the circuit, if it was the last."""
        self._since_answered.failures += 1
        self._since_sent.failures += 1

    def begin(self, seq: int) -> None:
        """Its first request is about to be sent."""
        self._queued.discard(seq)
        self._begun.add(seq)

    def give(self, seq: int) -> None:
        """An item has ended, or goes to wait."""
        self._queued.discard(seq)
        self._begun.discard(seq)
        self._shrink()

    def report(self) -> SlotReport:
        """What the next commit says. Its ceiling binds us until the answer comes: what we cannot use is others' now."""
        self._ceiling = min(self._ceiling, self._usable)
        self._told_demand = self._demand
        self._since_sent = _Activity()
        return SlotReport(
            ceiling=self._ceiling,
            demand=self._told_demand,
            queued=tuple(self._queued),
            begun=tuple(self._begun),
        )

    def apply(self, grant: SlotGrant) -> None:
        """Takes the store's answer: more slots at once, fewer as items end."""
        self.tempo.asked(in_vain=self.owed and grant.slots <= self._ceiling)
        self._since_answered = msgspec.structs.replace(self._since_sent)
        self._ceiling, self._target = grant.slots, grant.target
        self._shrink()

    def _shrink(self) -> None:
        if self._target < self._ceiling:
            self._ceiling = max(self._target, self.running)

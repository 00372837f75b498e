"""JobSlots: how many items of one job this worker may run at once, over all its leases of that job.

The store's answers come through committer.py; runner.py asks before it starts an item. The rules: domain/lease.py.
"""

from __future__ import annotations

import asyncio

from swath.domain.lease import Grant

__all__ = ["JobSlots"]


class JobSlots:
    """`turn` keeps reports on the job in order: a ceiling that was told late could undo a newer answer."""

    def __init__(self, slots: int, target: int) -> None:
        self.turn = asyncio.Lock()
        self.running = 0
        self.leases = 0
        self._ceiling = slots
        self._target = target
        self._shrink()

    @property
    def ceiling(self) -> int:
        """How many may run; binds us until the store's next answer."""
        return self._ceiling

    @property
    def free(self) -> int:
        """Slots that nothing uses."""
        return self._ceiling - self.running

    @property
    def owed(self) -> bool:
        """Whether our fair share is more than we have."""
        return self._ceiling < self._target

    def take(self) -> None:
        """An item starts."""
        self.running += 1

    def give(self) -> None:
        """An item has ended or waits."""
        self.running -= 1
        self._shrink()

    def apply(self, grant: Grant) -> None:
        """Takes the store's answer: more slots at once, fewer as items end."""
        self._ceiling, self._target = grant.slots, grant.target
        self._shrink()

    def _shrink(self) -> None:
        if self._target < self._ceiling:
            self._ceiling = max(self._target, self.running)

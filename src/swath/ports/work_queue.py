"""WorkQueue: hints to idle workers that there may be something to claim. Leader: which process runs fleet-wide tasks.

The store is the truth. A message that is lost, doubled, late or out of order costs only time, and so does a moment
with
two leaders or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

__all__ = ["Leader", "WorkHint", "WorkQueue"]


class Leader(Protocol):
    """One candidate's view. Any method may raise StoreUnavailable."""

    async def lead(self) -> bool:
        """Whether this process leads now. Asked every few seconds: it takes the lead when nobody has it, and keeps it
        by asking; one that stops asking has lost it after the length of a lease."""
        ...

    async def resign(self) -> None:
        """Lets somebody else lead, soon. Nothing happens to one who does not."""
        ...


class WorkHint(msgspec.Struct, frozen=True, kw_only=True):
    """There may be items to claim. `chunk` and `epoch` say from where in the job on, and when that was so.

    An `express` one is for a scrape that somebody waits for.
    """

    job_id: str
    chunk: int = 0
    epoch: int = 0
    express: bool = False


class WorkQueue(Protocol):
    """One worker's end of a queue that all workers of a store share.

    Any method may raise StoreUnavailable, waiting for the queue. May be used from any event loop.
    """

    @property
    def patience_seconds(self) -> float:
        """How long a worker that hears nothing may leave the store unasked: the longer, the surer it will be told."""
        ...

    async def announce(self, hints: Sequence[WorkHint]) -> None:
        """Lets that many workers know, express hints before others."""
        ...

    async def wait(self, seconds: float) -> WorkHint | None:
        """Returns with a hint, or without one after at most so many seconds; express hints first.

        The hint is this worker's until `settle`, or until it gives no sign of life for the length of a lease; then
        somebody else gets it. Cancelling it is no trouble: what may have been on its way goes to somebody, later.
        """
        ...

    async def keep(self) -> None:
        """A sign of life: what this worker was given, and has not settled, stays its own for another length of a
        lease."""
        ...

    async def settle(self, job_id: str) -> None:
        """There is nothing more to be had of this job just now: the hints this worker was given of it are used up."""
        ...

    async def waiting(self) -> int:
        """About how many hints nobody has been given yet."""
        ...

    async def close(self) -> None:
        """Gives back what was not settled, for others to have at once. Neither fails nor takes long; further calls are
        errors."""
        ...

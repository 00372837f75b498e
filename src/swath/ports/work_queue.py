"""WorkQueue: tells workers that have room that there may be something to claim. The store is the truth, this a hint.

Whatever becomes of a message (lost, doubled, late, out of order), nothing changes but time (Q5): a worker that is told
asks the lease book, which alone decides; pipeline/dispatch/sweeper.py tells again what nobody works on.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["Hint", "WorkQueue"]


class Hint(msgspec.Struct, frozen=True, kw_only=True):
    """There may be items to claim. `chunk` and `epoch` say from where in the job on, and when that was so.

    An `express` one is for a scrape that somebody waits for.
    """

    job_id: str
    chunk: int = 0
    epoch: int = 0
    express: bool = False


class WorkQueue(Protocol):
    """Shared by all workers of a store. Any method may raise StoreUnavailable, waiting for the queue."""

    async def announce(self, hints: list[Hint]) -> None:
        """Lets that many workers know, express hints before others."""
        ...

    async def wait(self, seconds: float) -> Hint | None:
        """Returns with a hint, or without one after at most so many seconds; express hints first.

        The hint is this worker's until `settle`, or until it dies; then somebody else gets it.
        """
        ...

    async def keep(self) -> None:
        """A sign of life: what this worker was given, and has not settled, stays its own for another length of a
        lease. May be called from another thread."""
        ...

    async def settle(self, job_id: str) -> None:
        """There is nothing more to be had of this job just now: its hints are used up."""
        ...

    async def close(self) -> None:
        """Gives back what was not settled, for others to have at once."""
        ...

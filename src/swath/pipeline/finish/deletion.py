"""Remover: deletes a job that was marked for it, or whose retention is over, with all its data.

Before: somebody asked for it, or the job ended long ago. Files go first, then the rows in pieces, so whoever dies on
the way leaves a job that the next one finds still marked. Every worker runs one; `swath jobs delete` does too.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from swath.domain.errors import LeaseLost, SwathError
from swath.domain.lease import Lease
from swath.pipeline.finish.hold import EndingBook, Hold
from swath.ports.clock import Clock
from swath.ports.result_storage import ResultStorage

__all__ = ["Remover"]

_PURGE_ITEMS: Final = 5_000


class Remover:
    """A service: `run_once` deletes at most one job; with `job_id` none but that."""

    def __init__(
        self, book: EndingBook, storage: ResultStorage, clock: Clock, worker_id: str, *, job_id: str | None = None
    ) -> None:
        self._book = book
        self._storage = storage
        self._clock = clock
        self._worker_id = worker_id
        self._job_id = job_id

    async def run_once(self) -> str | None:
        """Deletes one job and answers with its id; None when there is none, or another remover has taken it over."""
        lease = await self._book.claim_deletion(self._worker_id, self._job_id)
        if lease is None:
            return None
        try:
            await self._delete(lease)
        except LeaseLost:
            return None
        except BaseException:  # also when cancelled: the next remover need not wait until the lease runs out
            with suppress(SwathError):
                await self._book.release(lease.worker_id, lease.fence)
            raise
        return lease.job.job_id

    async def _delete(self, lease: Lease) -> None:
        hold = Hold(self._book, self._clock, lease)
        await hold.during(self._storage.clear(lease.job.job_id))
        while await self._book.purge(lease, _PURGE_ITEMS):
            await hold.keep()

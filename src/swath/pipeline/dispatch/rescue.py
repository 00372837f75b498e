"""Rescuer: takes over what dead or silent workers left behind. Every worker runs one, so no process is special.

Before: a claim whose worker died. After: the items are claimable again, and files of outcomes that had been committed
are published, which the dead worker may not have come to.
"""

from __future__ import annotations

import logging

from swath.domain.errors import StoreUnavailable
from swath.domain.lease import RescuedLease
from swath.observe.crash_points import reach
from swath.ports.lease_book import LeaseBook
from swath.ports.result_storage import ResultStorage
from swath.ports.site_book import SiteBook

__all__ = ["Rescuer"]

PASSES_AFTER_TROUBLE = 4  # nobody could renew while the store was away: the living get a moment to do so first

_log = logging.getLogger("swath.rescue")


class Rescuer:
    """One pass is one `run_once`; the worker's loop calls it every half second or so."""

    def __init__(self, book: LeaseBook, storage: ResultStorage, sites: SiteBook, worker_id: str) -> None:
        self._book = book
        self._sites = sites
        self._storage = storage
        self._worker_id = worker_id
        self._was_away = False  # the store
        self._pause = 0

    async def run_once(self) -> list[RescuedLease]:
        """Frees the items, then cleans up behind each lease and releases it."""
        if self._was_away:
            await self._book.renew(self._worker_id, ())  # raises while the store is still away
            self._was_away = False
            self._pause = PASSES_AFTER_TROUBLE
        if self._pause:
            self._pause -= 1
            return []
        try:
            rescued = await self._book.rescue(self._worker_id)
        except StoreUnavailable:
            self._was_away = True
            raise
        if rescued:
            reach("after_rescue")
        dead = {lease.worker_id for lease in rescued if lease.dead}
        if dead:
            await self._sites.forget(dead)
        for lease in rescued:
            await self._storage.settle(lease.job_id, lease.fence, lease.winners)
            await self._book.release(self._worker_id, lease.fence)
            _log.warning(
                "lease %d of job %s was taken from %s after %.1f s of silence; %d items go back",
                lease.fence,
                lease.job_id,
                lease.worker_id,
                lease.silent_seconds,
                lease.returned,
            )
        return rescued

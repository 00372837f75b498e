"""Takes over the leases of dead or silent workers: frees their items and publishes files of committed outcomes.

Every worker runs one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from swath.domain.errors import BadInput, Conflict, FolderUnusable, StoreUnavailable, SwathError, UnknownName, UserError
from swath.domain.job import ALERT_DEATHS, WaitingFor, ending_retry_seconds
from swath.domain.lease import RescuedLease
from swath.observability.crash_points import reach
from swath.pipeline.finish.cleanup import settle_abandoned_lease
from swath.pipeline.retrying import FailureBackoff
from swath.ports.clock import Clock
from swath.ports.job_store import JobStore
from swath.ports.lease_store import LeaseStore
from swath.ports.result_storage import ResultStorage
from swath.ports.site_state import SiteState

__all__ = ["RescueStore", "Rescuer"]

_JOBS_AT_ONCE: Final = 16
PASSES_AFTER_TROUBLE = 4  # nobody could renew while the store was away: the living get a moment to do so first

_log = logging.getLogger("swath.rescue")


class RescueStore(LeaseStore, JobStore, Protocol):
    """Leases are freed in one half; the other knows what their items have come to."""


class Rescuer:
    """One pass is one `run_once`; the worker's loop calls it every half second or so."""

    def __init__(
        self, book: RescueStore, storage: ResultStorage, sites: SiteState, clock: Clock, worker_id: str
    ) -> None:
        self._book = book
        self._sites = sites
        self._storage = storage
        self._worker_id = worker_id
        self._behind: dict[int, RescuedLease] = {}  # still to be cleaned up, by fence
        self._put_offs = FailureBackoff[int](clock)
        self._away: StoreUnavailable | None = None
        self._pause = 0

    async def run_once(self) -> list[RescuedLease]:
        """Frees the items, then cleans up behind each lease and releases it. A lease that cannot be cleaned up is put
        off for longer and longer, and the others go on: its job's folder may be damaged.

        What was not there is raised again until a rescue has gone through: the store may answer and its disk be full.
        """
        if self._away is not None and self._pause:
            await self._book.renew(self._worker_id, ())  # raises while the store is still away
            self._pause -= 1
            raise self._away
        try:
            rescued = await self._rescue()
        except StoreUnavailable as error:
            self._away, self._pause = error, PASSES_AFTER_TROUBLE
            raise
        self._away = None
        return rescued

    async def _rescue(self) -> list[RescuedLease]:
        rescued = await self._book.rescue(self._worker_id)
        if rescued:
            reach("after_rescue")
        dead = {lease.worker_id for lease in rescued if lease.dead}
        if dead:
            await self._sites.forget(dead)
        self._behind |= {lease.fence: lease for lease in rescued}
        waiting = self._put_offs.waiting
        jobs: dict[str, list[RescuedLease]] = {}
        for fence, lease in self._behind.items():
            if fence not in waiting:
                jobs.setdefault(lease.job_id, []).append(lease)
        await self._clean_up_jobs(jobs)
        return rescued

    async def _clean_up_jobs(self, jobs: Mapping[str, Sequence[RescuedLease]]) -> None:
        """Each job by itself, so that none waits for the storage of another. Storage that fails for all jobs is away;
        the leases of jobs for which it alone fails are put off."""
        places = asyncio.Semaphore(_JOBS_AT_ONCE)

        async def clean_up(leases: Sequence[RescuedLease]) -> None:
            async with places:
                for lease in leases:
                    await self._clean_up(lease)

        done = await asyncio.gather(*(clean_up(leases) for leases in jobs.values()), return_exceptions=True)
        failed = {job_id: error for job_id, error in zip(jobs, done, strict=True) if error is not None}
        for job_id, error in failed.items():
            of_disk = isinstance(error, StoreUnavailable) and error.waiting_for is WaitingFor.DISK
            if not of_disk or len(failed) == len(jobs):
                raise error
            for lease in jobs[job_id]:
                if lease.fence in self._behind:
                    self._put_off(lease, error)

    def _put_off(self, lease: RescuedLease, error: BaseException) -> None:
        if self._put_offs.failed(lease.fence, error):
            told = "lease %d of job %s cannot be cleaned up and is tried again, other leases go on: %s"
            trace = None if isinstance(error, SwathError) else error
            _log.error(told, lease.fence, lease.job_id, error, exc_info=trace)

    async def _clean_up(self, lease: RescuedLease) -> None:
        """Raises StoreUnavailable; what is wrong with this lease alone is put off."""
        try:
            await settle_abandoned_lease(self._book, self._storage, lease.job_id, lease.fence, lease.winners)
        except Exception as error:
            if _affects_all_leases(error):
                raise
            self._put_off(lease, error)
            return
        self._put_offs.worked(lease.fence)
        del self._behind[lease.fence]
        await self._book.release(self._worker_id, lease.fence)
        _log.warning(
            "lease %d of job %s was taken from %s after %.1f s of silence; %d items go back",
            lease.fence,
            lease.job_id,
            lease.worker_id,
            lease.silent_seconds,
            lease.returned,
        )
        if lease.ending_deaths:
            _log.log(
                logging.ERROR if lease.ending_deaths >= ALERT_DEATHS else logging.WARNING,
                "a worker died while it ended job %s (death %d); the next try is due in %g s",
                lease.job_id,
                lease.ending_deaths,
                ending_retry_seconds(lease.ending_deaths),
            )


def _affects_all_leases(error: Exception) -> bool:
    """Whether no other lease could be cleaned up either: the store or the disk is away, or a person has to do something
    about the place as a whole."""
    if isinstance(error, StoreUnavailable):
        return not isinstance(error, FolderUnusable)
    return isinstance(error, UserError) and not isinstance(error, (BadInput, Conflict, UnknownName))

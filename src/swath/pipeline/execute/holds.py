"""Holds: jobs that this worker leaves alone for a while, because the site they need is not to be visited now.

Before: an attempt found its site held (runner.py). After: worker.py claims no lease of such a job until it is over.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from swath.domain.errors import SiteHeld, StoreUnavailable, UserError
from swath.domain.job import Job
from swath.domain.site_circuit import HOPELESS_PROBES
from swath.ports.clock import Clock
from swath.ports.lease_book import LeaseBook
from swath.web.passage import Network

__all__ = ["Holds"]

_IN_A_ROW: Final = 5  # items of a job that did not name its sites: after so many it is taken to have no other


class Holds:
    """One per worker."""

    def __init__(self, book: LeaseBook, network: Network, clock: Clock) -> None:
        self._book = book
        self._network = network
        self._clock = clock
        self._until: dict[str, float] = {}  # by job, on the boot clock
        self._in_a_row: dict[str, int] = {}
        self._probes_seen: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def jobs(self) -> set[str]:
        """Which are held now."""
        now = self._clock.boot()
        self._until = {job_id: until for job_id, until in self._until.items() if until > now}
        return set(self._until)

    def went_on(self, job_id: str) -> None:
        """An item of the job was really tried."""
        self._in_a_row.pop(job_id, None)

    def hold(self, job: Job, held: SiteHeld) -> bool:
        """An item of the job found its site held. Whether all the others would, so that the job is held as a whole."""
        job_id = job.job_id
        needs = {self._network.directory.of(site).name for site in job.sites}
        self._in_a_row[job_id] = self._in_a_row.get(job_id, 0) + 1
        if needs != {held.site} and (needs or self._in_a_row[job_id] < _IN_A_ROW):
            return False
        self._until[job_id] = self._clock.boot() + held.wait_seconds
        if needs == {held.site}:
            self._look_for_hope(job_id, held.site)
        return True

    def _look_for_hope(self, job_id: str, site: str) -> None:
        """Gives a job up when probe after probe has failed since it first had to wait for its only site (D3)."""
        failed = self._network.circuits.failed_probes(site)
        seen = self._probes_seen.setdefault(job_id, failed)
        if failed < HOPELESS_PROBES or failed <= seen:
            return
        del self._probes_seen[job_id]
        task = asyncio.create_task(self._give_up(job_id, f"site {site} failed {failed} probes in a row"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_up(self, job_id: str, why: str) -> None:
        with contextlib.suppress(StoreUnavailable, UserError):  # then the next probe says so again; or the job is gone
            await self._book.open_circuit(job_id, why)

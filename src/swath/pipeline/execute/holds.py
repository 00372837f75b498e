"""Holds: jobs of which this worker claims nothing for a while, because the site they need is not to be visited now, or
their results cannot be stored.

Before: an attempt found its site held (runner.py), or the storage could not make room for a lease (committer.py).
After: worker.py claims no lease of such a job until the wait is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final, NamedTuple

from swath.domain.errors import SiteHeld, StoreUnavailable, UserError
from swath.domain.job import Job
from swath.domain.site_circuit import HOPELESS_PROBES
from swath.pipeline.finish.put_offs import PutOffs
from swath.ports.clock import Clock
from swath.ports.lease_book import LeaseBook
from swath.web.passage import Network

__all__ = ["Hold", "Holds"]

_log = logging.getLogger("swath.worker")

# A job may have other sites further down its list. Its items that wait make room for them: the more there are, the
# longer each waits, so that those which come back first are not always the same.
_LONGER_AFTER: Final = 100
_LONGEST_TIMES: Final = 10
_MOST_KNOWN: Final = 10_000  # waiting items of a job that are told apart; of a larger rest nothing is said


class Hold(NamedTuple):
    """How long an item waits, and whether the whole job does."""

    wait_seconds: float
    whole_job: bool


class _Waiting:
    """What is known of a job that waits: for which site, which items, and how many probes had failed before."""

    def __init__(self, site: str, failed_probes: int) -> None:
        self.site = site
        self.failed_probes = failed_probes
        self.items: set[int] = set()


class Holds:
    """One per worker."""

    def __init__(self, book: LeaseBook, network: Network, clock: Clock) -> None:
        self._book = book
        self._network = network
        self._clock = clock
        self._until: dict[str, float] = {}  # by job, on the boot clock
        self._unusable = PutOffs[str](clock)  # jobs whose results cannot be stored
        self._waiting: dict[str, _Waiting] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def jobs(self) -> set[str]:
        """Which are held now."""
        now = self._clock.boot()
        self._until = {job_id: until for job_id, until in self._until.items() if until > now}
        return set(self._until) | self._unusable.waiting

    def leave(self, job_id: str, error: StoreUnavailable) -> None:
        """The results of the job cannot be stored: the next lease of it is claimed later, 10 seconds at most."""
        if self._unusable.failed(job_id, error):
            _log.error("no items of job %s start until its results can be stored: %s", job_id, error)

    def usable(self, job_id: str) -> None:
        """They can be stored."""
        self._unusable.worked(job_id)

    def went_on(self, job_id: str) -> None:
        """An item of the job came to something else than a failure of its site."""
        self._waiting.pop(job_id, None)

    def hold(self, job: Job, seq: int, held: SiteHeld) -> Hold:
        """An item of the job found its site held; so would all others of a job that says it needs no other site."""
        waiting = self._waiting.get(job.job_id)
        failed = self._network.circuits.failed_probes(held.site)
        if waiting is None or waiting.site != held.site:
            waiting = self._waiting[job.job_id] = _Waiting(held.site, failed)
        if len(waiting.items) < _MOST_KNOWN:
            waiting.items.add(seq)
        only = {self._network.directory.of(site).name for site in job.sites} == {held.site}
        if failed >= HOPELESS_PROBES and failed > waiting.failed_probes:
            self._give_up(job.job_id, failed, waiting, only=only)
        if only:
            self._until[job.job_id] = self._clock.boot() + held.wait_seconds
            return Hold(held.wait_seconds, whole_job=True)
        return Hold(held.wait_seconds * min(_LONGEST_TIMES, 1 + len(waiting.items) / _LONGER_AFTER), whole_job=False)

    def _give_up(self, job_id: str, failed: int, waiting: _Waiting, *, only: bool) -> None:
        """Probe after probe has failed since the job had to wait: it ends, if it has nothing else (D3).

        A job that names other sites, or none, has nothing else when no more items are left than are known to wait.
        """
        why = f"site {waiting.site} failed {failed} probes in a row"
        task = asyncio.create_task(self._open_circuit(job_id, why, None if only else len(waiting.items)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if only:
            del self._waiting[job_id]

    async def _open_circuit(self, job_id: str, why: str, most_left: int | None) -> None:
        with contextlib.suppress(StoreUnavailable, UserError):  # then the next probe says so again; or the job is gone
            await self._book.open_circuit(job_id, why, most_left)

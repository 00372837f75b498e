"""Decides which lease starts the next item, and from which jobs the worker claims nothing for now.

The lease that has started nothing for longest goes first. A job is held while the site it needs is unavailable or
its
results cannot be stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final, NamedTuple, Protocol

from swath.domain.circuit_breaker import MAX_FAILED_PROBES
from swath.domain.errors import SiteUnavailable, StoreUnavailable, UserError
from swath.domain.job import Job
from swath.fetch.http.client.request_gate import Network
from swath.pipeline.retrying import FailureBackoff
from swath.ports.clock import Clock
from swath.ports.lease_store import LeaseStore

__all__ = ["HoldDecision", "JobHolds", "LeaseStarter", "StartOrder"]


class LeaseStarter(Protocol):
    """A lease in this worker's hands."""

    def start_next(self) -> bool:
        """Starts one item, if it has one and may; whether it did."""
        ...


class StartOrder:
    """Whoever has just started something goes to the end."""

    def __init__(self) -> None:
        self._standing: list[LeaseStarter] = []

    def join(self, lease: LeaseStarter) -> None:
        """A lease has come; it has started nothing yet, so it is the first."""
        self._standing.insert(0, lease)

    def leave(self, lease: LeaseStarter) -> None:
        """It is over."""
        if lease in self._standing:
            self._standing.remove(lease)

    def fill(self) -> None:
        """Starts items until nobody can start another."""
        at = 0  # those before cannot start anything; that another one has does not change it
        while at < len(self._standing):
            if self._standing[at].start_next():
                self._standing.append(self._standing.pop(at))
            else:
                at += 1


_log = logging.getLogger("swath.worker")

# A job may have other sites further down its list. Its items that wait make room for them: the more there are, the
# longer each waits, so that those which come back first are not always the same.
_ITEMS_PER_DELAY_STEP: Final = 100
_MAX_DELAY_FACTOR: Final = 10
_MAX_TRACKED_ITEMS: Final = 10_000  # waiting items of a job that are told apart; of a larger rest nothing is said


class HoldDecision(NamedTuple):
    """How long an item waits, and whether the whole job does."""

    wait_seconds: float
    whole_job: bool


class _WaitingJob:
    """What is known of a job that waits: for which site, which items, and how many probes had failed before."""

    def __init__(self, site: str, failed_probes: int) -> None:
        self.site = site
        self.failed_probes = failed_probes
        self.items: set[int] = set()


class JobHolds:
    """One per worker."""

    def __init__(self, book: LeaseStore, network: Network, clock: Clock) -> None:
        self._book = book
        self._network = network
        self._clock = clock
        self._until: dict[str, float] = {}  # by job, on the boot clock
        self._unusable = FailureBackoff[str](clock)  # jobs whose results cannot be stored
        self._waiting: dict[str, _WaitingJob] = {}
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

    def hold(self, job: Job, seq: int, held: SiteUnavailable) -> HoldDecision:
        """An item of the job found its site held; so would all others of a job that says it needs no other site."""
        waiting = self._waiting.get(job.job_id)
        failed = self._network.circuits.failed_probes(held.site)
        if waiting is None or waiting.site != held.site:
            waiting = self._waiting[job.job_id] = _WaitingJob(held.site, failed)
        if len(waiting.items) < _MAX_TRACKED_ITEMS:
            waiting.items.add(seq)
        only = {self._network.directory.of(site).name for site in job.sites} == {held.site}
        if failed >= MAX_FAILED_PROBES and failed > waiting.failed_probes:
            self._give_up(job.job_id, failed, waiting, only=only)
        if only:
            self._until[job.job_id] = self._clock.boot() + held.wait_seconds
            return HoldDecision(held.wait_seconds, whole_job=True)
        return HoldDecision(
            held.wait_seconds * min(_MAX_DELAY_FACTOR, 1 + len(waiting.items) / _ITEMS_PER_DELAY_STEP), whole_job=False
        )

    def _give_up(self, job_id: str, failed: int, waiting: _WaitingJob, *, only: bool) -> None:
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

"""Limits the rate and the concurrency of requests to each site over all workers. One per process.

A job's own rate is a bucket of its own, which a request passes first without holding a slot.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from functools import partial

from swath.domain.errors import LeaseLost, StoreUnavailable, UserError
from swath.domain.token_bucket import LATE_INSTANT_SECONDS
from swath.fetch.sites.policies import Site
from swath.fetch.sites.site_queue import Permit, QueueContext, SiteQueue
from swath.ports.clock import Clock
from swath.ports.site_state import SiteShareRequest, SiteState

__all__ = ["Permit", "RateLimiter"]

_JOB_PREFIX = "job:"  # no site has such a name: policy_file.py refuses it


class _JobTurn:
    """The requests of one job to one site go one by one, and keep their distance however long the site makes them wait.

    `due` is when the next one would be sent if all went evenly (the cell rate algorithm, with LATE_SECONDS allowed).
    """

    __slots__ = ("due", "lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.due = 0.0
        self.users = 0


class RateLimiter:
    """All of it lives on one event loop."""

    def __init__(self, book: SiteState, clock: Clock, worker_id: str) -> None:
        self._desk = QueueContext(book, clock, worker_id)
        self._lanes: dict[str, SiteQueue] = {}
        self._turns: dict[tuple[str, str], _JobTurn] = {}
        self._orders = itertools.count()
        self._closed = False

    async def acquire(self, site: Site, *, rate: float | None = None, job: tuple[str, float] | None = None) -> Permit:
        """Waits for a slot and an instant of the site; the request is to be sent at once.

        `rate` lowers the site's, per second, for as long as the site is busy. `job` is an id with its rate over all
        workers, which matters if it is lower than the site's. Each worker beyond the first may exceed it by one
        request when the site itself makes them wait.
        """
        lane = self._lane_of(site, rate)
        if job is None or job[1] >= lane.rate:
            return await lane.acquire(next(self._orders))
        return await self._as_the_job_likes(site, rate, *job)

    def slow_down(self, site: Site, sent_at: float) -> None:
        """The site answered 429 or 503 to a request that was sent at `sent_at`, on the boot clock."""
        if not self._closed:
            self._lane_of(site).complain(sent_at)

    async def close(self) -> None:
        """Gives up every share. What still runs, because its scraper does not stop, reaches no site any more."""
        self._closed = True
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
        with contextlib.suppress(StoreUnavailable, UserError):  # then they run out, or the book is gone
            await self._desk.book.forget({self._desk.worker_id})

    async def _as_the_job_likes(self, site: Site, rate: float | None, job_id: str, job_rate: float) -> Permit:
        order, clock = next(self._orders), self._desk.clock
        turn = self._turn_of(job_id, site.name)
        turn.users += 1
        try:
            async with turn.lock:
                (
                    await self._lane(_JOB_PREFIX + job_id, lambda: SiteShareRequest(rate=job_rate), job_rate).acquire(
                        order
                    )
                ).release()
                early = turn.due - LATE_INSTANT_SECONDS - clock.boot()
                if early > 0:
                    await clock.sleep(early)
                permit = await self._lane_of(site, rate).acquire(order)
                turn.due = max(turn.due, clock.boot()) + 1 / job_rate
                return permit
        finally:
            turn.users -= 1

    def _turn_of(self, job_id: str, site_name: str) -> _JobTurn:
        found = self._turns.get((job_id, site_name))
        if found is None:
            now = self._desk.clock.boot()
            self._turns = {key: turn for key, turn in self._turns.items() if turn.users or turn.due > now}
            found = self._turns[job_id, site_name] = _JobTurn()
        return found

    def _lane_of(self, site: Site, rate: float | None = None) -> SiteQueue:
        lane = self._lanes.get(site.name) if rate is None else None
        return lane or self._lane(site.name, lambda: _terms_of(site), rate)

    def _lane(self, name: str, terms: Callable[[], SiteShareRequest], rate: float | None) -> SiteQueue:
        if self._closed:
            raise LeaseLost("this worker has stopped")
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = SiteQueue(name, self._desk, terms(), partial(self._lanes.__delitem__, name))
        if rate is not None and rate < lane.rate:
            lane.lower(rate)
        return lane


def _terms_of(site: Site) -> SiteShareRequest:
    policy = site.policy
    return SiteShareRequest(
        rate=policy.rate.per_second, quiet_seconds=policy.slow_down_seconds, concurrency=policy.concurrency
    )

"""Pacer: lets requests go to each site no faster, and no more of them at once, than its policy allows over all workers.

Before: web/passage.py wants to send. After: the request is sent at once, or its instant is lost. One per process; a
job's own rate is a bucket like a site's, which a request passes first, holding no slot meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from functools import partial

from swath.domain.bucket import LATE_SECONDS
from swath.domain.errors import LeaseLost, StoreUnavailable, UserError
from swath.ports.clock import Clock
from swath.ports.site_book import Ask, SiteBook
from swath.sites.directory import Site
from swath.sites.lane import Desk, Lane, Permit

__all__ = ["Pacer", "Permit"]

_JOB = "job:"  # no site has such a name: policy_file.py refuses it


class _Turn:
    """The requests of one job to one site go one by one, and keep their distance however long the site makes them wait.

    `due` is when the next one would be sent if all went evenly (the cell rate algorithm, with LATE_SECONDS allowed).
    """

    __slots__ = ("due", "lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.due = 0.0
        self.users = 0


class Pacer:
    """All of it lives on one event loop."""

    def __init__(self, book: SiteBook, clock: Clock, worker_id: str) -> None:
        self._desk = Desk(book, clock, worker_id)
        self._lanes: dict[str, Lane] = {}
        self._turns: dict[tuple[str, str], _Turn] = {}
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
                (await self._lane(_JOB + job_id, lambda: Ask(rate=job_rate), job_rate).acquire(order)).release()
                early = turn.due - LATE_SECONDS - clock.boot()
                if early > 0:
                    await clock.sleep(early)
                permit = await self._lane_of(site, rate).acquire(order)
                turn.due = max(turn.due, clock.boot()) + 1 / job_rate
                return permit
        finally:
            turn.users -= 1

    def _turn_of(self, job_id: str, site_name: str) -> _Turn:
        found = self._turns.get((job_id, site_name))
        if found is None:
            now = self._desk.clock.boot()
            self._turns = {key: turn for key, turn in self._turns.items() if turn.users or turn.due > now}
            found = self._turns[job_id, site_name] = _Turn()
        return found

    def _lane_of(self, site: Site, rate: float | None = None) -> Lane:
        lane = self._lanes.get(site.name) if rate is None else None
        return lane or self._lane(site.name, lambda: _terms_of(site), rate)

    def _lane(self, name: str, terms: Callable[[], Ask], rate: float | None) -> Lane:
        if self._closed:
            raise LeaseLost("this worker has stopped")
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(name, self._desk, terms(), partial(self._lanes.__delitem__, name))
        if rate is not None and rate < lane.rate:
            lane.lower(rate)
        return lane


def _terms_of(site: Site) -> Ask:
    policy = site.policy
    return Ask(rate=policy.rate.per_second, quiet_seconds=policy.slow_down_seconds, concurrency=policy.concurrency)

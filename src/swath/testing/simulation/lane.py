"""Lane: requests of one worker to one site, within its share of the site's concurrency. The rules are those of sites/.

Before: worker.py brings items that have a slot of their job. After: the site book, one question at a time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

from swath.ports.site_book import FAR, Ask, Terms
from swath.sites.cadence import Cadence
from swath.sites.share import Share
from swath.testing.simulation.world import World

__all__ = ["Lane"]

RATE: Final = 10_000.0  # there is no limit in what is simulated: the rate is measured with real pages (make pacing)


class Lane:
    """`send` is called with what waits when it may be sent. `is_alive`: of a worker that died nothing is heard."""

    def __init__(self, site: str, worker_id: str, world: World, is_alive: Callable[[], bool]) -> None:
        self._site = site
        self._worker_id = worker_id
        self._world = world
        self._is_alive = is_alive
        self._share = Share(world.plan.concurrency[site])
        self._cadence = Cadence(FAR, world.events.now)
        self._waiters: deque[Callable[[], None]] = deque()
        self._peak = 0
        self._asking = False
        self._planned_at = math.inf

    def join(self, send: Callable[[], None]) -> None:
        """One more waits."""
        self._waiters.append(send)
        self._pump()

    def release(self) -> None:
        """A request is over."""
        share = self._share
        share.in_use -= 1
        if share.shrink():
            self._cadence.hasten(self._world.events.now, FAR.hurry_seconds)
        if not self._waiters and not share.in_use:
            self._cadence.hasten(self._world.events.now, FAR.report_seconds)
        self._pump()

    def _demand(self) -> int:
        return self._share.in_use + len(self._waiters)

    def _pump(self) -> None:
        now = self._world.events.now
        self._peak = max(self._peak, self._demand())
        while self._waiters and self._share.has_room(now):
            self._share.in_use += 1
            self._waiters.popleft()()
        self._plan(now)

    def _plan(self, now: float) -> None:
        if self._asking:
            return
        at, share = self._cadence.next_at, self._share
        if (
            self._waiters
            and not share.room()
            and self._cadence.told < self._peak
            and share.ceiling < (share.limit or 0)
        ):
            at = min(at, self._cadence.asked_at + FAR.hurry_seconds)
        at = max(at, now)
        if at < self._planned_at and (self._demand() or self._cadence.told):
            self._planned_at = at
            self._world.events.at(at, lambda: self._ask() if self._planned_at == at and self._is_alive() else None)

    async def _ask(self) -> None:
        now, world = self._world.events.now, self._world
        self._planned_at, self._asking = math.inf, True
        ask = Ask(rate=RATE, part=True, concurrency=self._share.limit, ceiling=self._share.told(now), demand=self._peak)
        if not self._peak:
            self._share.ceiling = 0  # given up with this word; a worker gives its instants back with it
        self._cadence.ask(now, self._peak)
        self._peak = self._demand()
        terms = await world.sites.ask(self._site, self._worker_id, ask)
        world.events.after(world.answer_seconds(), lambda: self._answered(terms, now))

    def _answered(self, terms: Terms, asked_at: float) -> None:
        if not self._is_alive():
            return
        now, share = self._world.events.now, self._share
        self._asking = False
        before = share.ceiling, share.target
        share.apply(terms, asked_at)
        stuck, changed = bool(self._waiters) and not share.room(), (share.ceiling, share.target) != before
        self._cadence.answer(now, owed=share.target > share.ceiling, stuck=stuck, changed=changed)
        if not (self._cadence.told or self._peak):  # nothing is under way: whoever comes next begins anew
            self._share, self._cadence = Share(share.limit), Cadence(FAR, now)
        elif not self._demand():
            self._cadence.hasten(now, FAR.report_seconds)
        self._pump()

"""Floor: what the leases of one simulated worker share: its store, its lanes, its life, and the silence for suspects.

As pipeline/execute/floor.py. Used by worker.py, runner.py and committer.py.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from swath.pipeline.execute.line import Line
from swath.pipeline.execute.slots import JobSlots
from swath.testing.simulation.hand import Hand
from swath.testing.simulation.lane import Lane
from swath.testing.simulation.world import World

__all__ = ["Floor"]


class Floor:
    """`stir` tells the worker to look again."""

    def __init__(self, worker_id: str, world: World) -> None:
        self.worker_id = worker_id
        self.world = world
        self.store = world.stores.open(worker_id)
        self.alive = True
        self.line = Line()
        self.slots: dict[str, JobSlots] = {}
        self.talking: set[str] = set()  # jobs of which a report is under way: one at a time
        self.suspects: list[int] = []
        self.lingers = False
        self.stir: Callable[[], None] = lambda: None
        self._lanes: dict[str, Lane] = {}

    @property
    def now(self) -> float:
        """Seconds on the boot clock."""
        return self.world.events.now

    @property
    def room(self) -> int:
        """How many more items this worker may run."""
        return self.world.plan.size.items_at_once - self._running()

    def lane(self, site: str) -> Lane:
        """Its lane to a site."""
        if site not in self._lanes:
            self._lanes[site] = Lane(site, self.worker_id, self.world, lambda: self.alive)
        return self._lanes[site]

    def is_closed_to(self, hand: Hand) -> bool:
        """Whether nothing of a lease may start now. A suspect's turn comes when nothing else runs."""
        if hand.lease.alone:
            return self.suspects[:1] != [hand.lease.fence] or self._running() > hand.announced
        return self.lingers or bool(self.suspects)

    def after(self, seconds: float, act: Callable[[], Awaitable[None] | None]) -> None:
        """Plans something that the worker does if it is still alive."""
        self.at(self.now + seconds, act)

    def at(self, when: float, act: Callable[[], Awaitable[None] | None]) -> None:
        """The same, at an instant."""
        self.world.events.at(when, functools.partial(self._if_alive, act))

    def _if_alive(self, act: Callable[[], Awaitable[None] | None]) -> Awaitable[None] | None:
        return act() if self.alive else None

    def _running(self) -> int:
        return sum(slots.running for slots in self.slots.values())

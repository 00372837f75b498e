"""Housekeeping: what workers do for all: rescue, end, delete, send webhooks, and tell workers that wait to be told.

Every worker can do all of it, so no process is special; of a fleet that has nothing to do one is enough (the leader,
see dispatch/sweeper.py). Beside: worker.py, which runs items.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import Final

from swath.domain.errors import SwathError
from swath.pipeline.dispatch.rescue import Rescuer
from swath.pipeline.execute.chores import Chore
from swath.pipeline.execute.parts import Parts, Sender, WorkerOptions

__all__ = ["Housekeeping"]

RESIGN_SECONDS: Final = 2.0


class Housekeeping:
    """`busy`: whether this worker has leases. `on_rescue`: items came back, so there is something to claim.

    `told`: a hint came, perhaps from a worker that died. `lease_ended`: it may have been the last of its job. Jobs end
    and go one at a time; where there was one there may be more, so after each it is looked again without a rest.
    """

    def __init__(
        self, parts: Parts, options: WorkerOptions, busy: Callable[[], bool], on_rescue: Callable[[], None]
    ) -> None:
        self.told = asyncio.Event()
        self.lease_ended = asyncio.Event()
        self._to_delete = asyncio.Event()
        # Who works for one job only must not lead: it would leave the others alone.
        self._sweeper = parts.sweeper if options.job_id is None else None
        self._parts = parts
        self._options = options
        self._busy = busy
        self._on_rescue = on_rescue
        self._rescuer = Rescuer(parts.book, parts.storage, parts.sites, parts.clock, options.worker_id)

    def chores(self) -> list[Chore]:
        """All of it. Only the telling may be broken off."""
        parts, options = self._parts, self._options
        often = functools.partial(self._pace, options.housekeeping_seconds)
        seldom = functools.partial(self._pace, options.removal_seconds)
        chores = [
            Chore("rescue", self._rescue, often, self.told),
            Chore("ending", self._end, often, self.lease_ended),
            Chore("deletion", self._delete, seldom, self._to_delete),
            Chore("proxies", parts.network.ways.run_once, lambda: options.removal_seconds),
        ]
        courier = parts.courier
        if courier is not None:
            rest = functools.partial(self._pace_of, courier)
            chores.append(Chore("webhooks", courier.run_once, rest, courier.wanted))
        if self._sweeper is not None:
            chores.append(Chore("sweeping", self._sweep, lambda: options.sweep_seconds, breaks_off=True))
        return chores

    def _pace(self, seconds: float) -> float:
        sweeper = self._sweeper
        spare = sweeper is not None and not sweeper.leads and not self._busy()
        return max(seconds, self._options.spare_seconds) if spare else seconds

    def _pace_of(self, courier: Sender) -> float:
        """In a fleet the leader looks for what the dead have left; what is due here counts at any rate."""
        rest_seconds = courier.rest_seconds
        return rest_seconds if rest_seconds < self._options.removal_seconds else self._pace(rest_seconds)

    async def _end(self) -> None:
        if await self._parts.finisher.run_once() is not None:
            self.lease_ended.set()
            if self._parts.courier is not None:
                self._parts.courier.wanted.set()

    async def _delete(self) -> None:
        if await self._parts.remover.run_once() is not None:
            self._to_delete.set()

    async def _rescue(self) -> None:
        if await self._rescuer.run_once():
            self._on_rescue()

    async def _sweep(self) -> None:
        sweeper = self._sweeper
        if sweeper is not None:
            led = sweeper.leads
            await sweeper.run_once()
            if sweeper.leads and not led:  # nobody may have looked for a while
                for occasion in (self.told, self.lease_ended, self._to_delete):
                    occasion.set()

    async def resign(self) -> None:
        """A leader that stops leaves the lead to another; if that fails, it falls to one when its time is over."""
        if self._sweeper is not None:
            with contextlib.suppress(SwathError, TimeoutError):
                async with asyncio.timeout(RESIGN_SECONDS):
                    await self._sweeper.resign()

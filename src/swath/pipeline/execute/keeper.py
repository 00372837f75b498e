"""Keeper: the housekeeping of a process that runs no items: a controller whose workers are elsewhere, or not yet there.

So that a job which is cancelled ends, one that is deleted goes, webhooks are sent and idle workers are told, with no
worker there. Beside: worker.py, which does the same beside its items.
"""

from __future__ import annotations

import asyncio

from swath.pipeline.dispatch.waits import Waits
from swath.pipeline.execute.chores import keep_doing
from swath.pipeline.execute.housekeeping import Housekeeping
from swath.pipeline.execute.parts import Parts, WorkerOptions

__all__ = ["Keeper"]


class Keeper:
    """`run` returns after `stop` is set and the chore that was being done is done."""

    def __init__(self, parts: Parts, options: WorkerOptions) -> None:
        self._waits = Waits(parts.book, parts.clock, options.worker_id)
        self._house = Housekeeping(parts, options, lambda: False, lambda: None)

    async def run(self, stop: asyncio.Event) -> None:
        """Keeps house until told to stop. Raises UserError when only a person can mend what is wrong."""
        try:
            async with asyncio.TaskGroup() as group:
                for chore in self._house.chores():
                    group.create_task(keep_doing(chore, self._waits, stop))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            await self._house.resign()

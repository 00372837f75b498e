"""The periodic tasks of workers: rescue, ending, deletion, webhooks, proxy checks, hints to idle workers.

Every worker can do all of them; in an idle fleet the leader is enough. A controller without workers runs them alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from swath.domain.errors import (
    BadInput,
    Conflict,
    FolderUnusable,
    LeaseLost,
    StoreReplaced,
    StoreUnavailable,
    SwathError,
    UnknownName,
    UserError,
)
from swath.pipeline.retrying import RETRY_STORE_SECONDS, WaitingStatus
from swath.pipeline.worker.idle import wait_for_first
from swath.pipeline.worker.parts import WebhookSender, WorkerOptions, WorkerParts
from swath.pipeline.worker.rescue import Rescuer

__all__ = ["Maintenance", "MaintenanceRunner", "PeriodicTask", "run_periodically"]

_log = logging.getLogger("swath.worker")

_FATAL_ERRORS: Final = (UserError, StoreReplaced)
_JOB_ERRORS: Final = (BadInput, Conflict, UnknownName)  # it was deleted meanwhile, say; the others go on


class PeriodicTask(msgspec.Struct, frozen=True):
    """Done every so many `seconds`, which is asked anew each time, and at once on the occasion.

    One that `breaks_off` never keeps a worker from stopping: nothing of it has to be brought to an end.
    """

    name: str
    act: Callable[[], Awaitable[object]]
    seconds: Callable[[], float]
    occasion: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    breaks_off: bool = False


async def run_periodically(chore: PeriodicTask, waits: WaitingStatus, stop: asyncio.Event) -> None:
    """Does it until told to stop, whatever comes of it but a UserError of the place as a whole: that a table is gone or
    the store's file was replaced, only a person can mend, so it is raised. What stays wrong is said once, until it
    changes or is over."""
    told = ""
    while not stop.is_set():
        chore.occasion.clear()
        retry_seconds = None
        try:
            await (_run_until(stop, chore.act()) if chore.breaks_off else chore.act())
            waits.over(chore.name)
            told = ""
        except (
            FolderUnusable
        ):  # of one job: its status names it, whoever put it off has logged it, and the others go on
            waits.over(chore.name)
        except StoreUnavailable as error:
            waits.met(chore.name, error)
            retry_seconds = RETRY_STORE_SECONDS
        except LeaseLost as error:
            _log.warning("%s", error)
        except SwathError as error:
            if isinstance(error, _FATAL_ERRORS) and not isinstance(error, _JOB_ERRORS):
                raise
            if str(error) != told:
                told = str(error)
                _log.error("%s; trying again later", told)
        except Exception:  # noqa: BLE001 one job that cannot be read must not cost all others their worker
            _log.exception("%s failed; trying again", chore.name)
        seconds = chore.seconds()
        await wait_for_first(
            stop, chore.occasion, seconds=seconds if retry_seconds is None else min(seconds, retry_seconds)
        )


async def _run_until(stop: asyncio.Event, act: Awaitable[object]) -> None:
    """Does it, but no longer than until told to stop."""
    acting = asyncio.ensure_future(act)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({acting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if acting.done():
            await acting
    finally:
        acting.cancel()
        stopped.cancel()


RESIGN_SECONDS: Final = 2.0


class Maintenance:
    """`busy`: whether this worker has leases. `on_rescue`: items came back, so there is something to claim.

    `told`: a hint came, perhaps from a worker that died. `lease_ended`: it may have been the last of its job. Jobs end
    and go one at a time; where there was one there may be more, so after each it is looked again without a rest.
    """

    def __init__(
        self, parts: WorkerParts, options: WorkerOptions, busy: Callable[[], bool], on_rescue: Callable[[], None]
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

    def chores(self) -> list[PeriodicTask]:
        """All of it. Only the telling may be broken off."""
        parts, options = self._parts, self._options
        often = functools.partial(self._pace, options.housekeeping_seconds)
        seldom = functools.partial(self._pace, options.removal_seconds)
        chores = [
            PeriodicTask("rescue", self._rescue, often, self.told),
            PeriodicTask("ending", self._end, often, self.lease_ended),
            PeriodicTask("deletion", self._delete, seldom, self._to_delete),
            PeriodicTask("proxies", parts.network.ways.run_once, lambda: options.removal_seconds),
        ]
        courier = parts.courier
        if courier is not None:
            rest = functools.partial(self._pace_of, courier)
            chores.append(PeriodicTask("webhooks", courier.run_once, rest, courier.wanted))
        if self._sweeper is not None:
            chores.append(PeriodicTask("sweeping", self._sweep, lambda: options.sweep_seconds, breaks_off=True))
        return chores

    def _pace(self, seconds: float) -> float:
        sweeper = self._sweeper
        spare = sweeper is not None and not sweeper.leads and not self._busy()
        return max(seconds, self._options.spare_seconds) if spare else seconds

    def _pace_of(self, courier: WebhookSender) -> float:
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


class MaintenanceRunner:
    """`run` returns after `stop` is set and the chore that was being done is done."""

    def __init__(self, parts: WorkerParts, options: WorkerOptions) -> None:
        self._waits = WaitingStatus(parts.book, parts.clock, options.worker_id)
        self._house = Maintenance(parts, options, lambda: False, lambda: None)

    async def run(self, stop: asyncio.Event) -> None:
        """Keeps house until told to stop. Raises UserError when only a person can mend what is wrong."""
        try:
            async with asyncio.TaskGroup() as group:
                for chore in self._house.chores():
                    group.create_task(run_periodically(chore, self._waits, stop))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            await self._house.resign()

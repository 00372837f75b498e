"""Chores: what a worker does again and again beside its items, each on a task of its own (worker.py says which)."""

from __future__ import annotations

import asyncio
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
from swath.pipeline.dispatch.waits import RETRY_STORE_SECONDS, Waits
from swath.pipeline.execute.rest import first_of

__all__ = ["Chore", "keep_doing"]

_log = logging.getLogger("swath.worker")

_OF_THE_PLACE: Final = (UserError, StoreReplaced)
_OF_ONE_JOB: Final = (BadInput, Conflict, UnknownName)  # it was deleted meanwhile, say; the others go on


class Chore(msgspec.Struct, frozen=True):
    """Done every so many `seconds`, which is asked anew each time, and at once on the occasion.

    One that `breaks_off` never keeps a worker from stopping: nothing of it has to be brought to an end.
    """

    name: str
    act: Callable[[], Awaitable[object]]
    seconds: Callable[[], float]
    occasion: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    breaks_off: bool = False


async def keep_doing(chore: Chore, waits: Waits, stop: asyncio.Event) -> None:
    """Does it until told to stop, whatever comes of it but a UserError of the place as a whole: that a table is gone or
    the store's file was replaced, only a person can mend, so it is raised. What stays wrong is said once, until it
    changes or is over."""
    told = ""
    while not stop.is_set():
        chore.occasion.clear()
        retry_seconds = None
        try:
            await (_until(stop, chore.act()) if chore.breaks_off else chore.act())
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
            if isinstance(error, _OF_THE_PLACE) and not isinstance(error, _OF_ONE_JOB):
                raise
            if str(error) != told:
                told = str(error)
                _log.error("%s; trying again later", told)
        except Exception:  # noqa: BLE001 one job that cannot be read must not cost all others their worker
            _log.exception("%s failed; trying again", chore.name)
        seconds = chore.seconds()
        await first_of(stop, chore.occasion, seconds=seconds if retry_seconds is None else min(seconds, retry_seconds))


async def _until(stop: asyncio.Event, act: Awaitable[object]) -> None:
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

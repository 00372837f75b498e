"""Waits: lets everybody know what a worker waits for while the store or the disk does not answer (Z9).

Every loop of a worker reports here what it meets, each under a name of its own; the store shows it in the job's status.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from swath.domain.errors import FolderUnusable, LeaseLost, StoreUnavailable
from swath.domain.job import WaitingFor
from swath.ports.clock import Clock
from swath.ports.lease_book import LeaseBook

__all__ = ["RETRY_STORE_SECONDS", "Waits"]

T = TypeVar("T")

RETRY_STORE_SECONDS: Final = 0.5
LATE_SECONDS: Final = 3.0

_log = logging.getLogger("swath.waits")


class Waits:
    """What each loop of one worker waits for. The heartbeat calls from a thread of its own."""

    def __init__(self, book: LeaseBook, clock: Clock, worker_id: str) -> None:
        self._book = book
        self._clock = clock
        self._worker_id = worker_id
        self._open: dict[str, WaitingFor] = {}
        self._unusable: dict[str, str] = {}  # what was last said of the folder of a job
        self._told: WaitingFor | None = None
        self._lock = threading.Lock()

    def met(self, who: str, error: StoreUnavailable) -> None:
        """Something did not answer. Told every time, in case that the last word did not arrive.

        A damaged folder of one job is only logged: other jobs go on, and the status of that job names the folder."""
        with self._lock:
            if isinstance(error, FolderUnusable):
                if self._unusable.get(who) != str(error):
                    _log.error("%s: %s; other jobs go on", who, error)
                self._unusable[who] = str(error)
                if self._open.pop(who, None) is not None:
                    self._tell("only the results folder of one job cannot be used")
                return
            self._open[who] = error.waiting_for
            self._tell(str(error))

    def over(self, who: str) -> None:
        """It answers again, or nobody asks any more."""
        self._unusable.pop(who, None)
        if who in self._open:
            with self._lock:
                del self._open[who]
                self._tell("it is back")

    def _tell(self, why: str) -> None:
        """Tells what was met first and is not over; logs it when that changes."""
        what = next(iter(self._open.values()), None)
        self._book.tell_waiting(self._worker_id, what)
        if what is not self._told:
            _log.warning("waiting_for: %s (%s)", "nothing" if what is None else what, why)
        self._told = what

    @contextmanager
    def noticing(self, who: str, asked: WaitingFor) -> Iterator[None]:
        """Around one question: tells it when the answer is late, which a locked store makes it long before an error."""
        late = StoreUnavailable(f"no answer for {LATE_SECONDS:g} s", asked)
        timer = asyncio.get_running_loop().call_later(LATE_SECONDS, self.met, who, late)
        try:
            yield
        except StoreUnavailable as error:
            self.met(who, error)
            raise
        else:
            self.over(who)
        finally:
            timer.cancel()

    async def patiently(
        self, who: str, asked: WaitingFor, call: Callable[[], Awaitable[T]], in_vain: Callable[[], bool]
    ) -> T:
        """Asks again for as long as there is no answer. Raises LeaseLost once it is `in_vain`."""
        try:
            while True:
                try:
                    with self.noticing(who, asked):
                        return await call()
                except StoreUnavailable as error:
                    if in_vain():
                        raise LeaseLost(str(error)) from error
                await self._clock.sleep(RETRY_STORE_SECONDS)
        finally:
            self.over(who)

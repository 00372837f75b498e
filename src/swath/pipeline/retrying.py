"""Repeats calls while the store or the disk is away and shows what a worker waits for; backs off what keeps failing.

Every loop of a worker reports under its own name; the store shows the first reason in the job's status.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, TypeVar

from swath.domain.errors import FolderUnusable, LeaseLost, StoreUnavailable
from swath.domain.job import WaitingFor
from swath.ports.clock import Clock
from swath.ports.lease_store import LeaseStore

__all__ = ["MAX_BACKOFF_SECONDS", "RETRY_STORE_SECONDS", "FailureBackoff", "WaitingStatus"]

T = TypeVar("T")

RETRY_STORE_SECONDS: Final = 0.5
LATE_SECONDS: Final = 3.0

_log = logging.getLogger("swath.waits")


class WaitingStatus:
    """What each loop of one worker waits for. The heartbeat calls from a thread of its own."""

    def __init__(self, book: LeaseStore, clock: Clock, worker_id: str) -> None:
        self._book = book
        self._clock = clock
        self._worker_id = worker_id
        self._open: dict[str, WaitingFor] = {}
        self._unusable: dict[str, str] = {}  # what was last said of the folder of a job
        self._told: WaitingFor | None = None
        self._told_late = False  # that it is late was all there was to say
        self._lock = threading.Lock()

    def met(self, who: str, error: StoreUnavailable) -> None:
        """Something did not answer. Told every time, in case that the last word did not arrive.

        A damaged folder of one job is only logged: other jobs go on, and the status of that job names the folder."""
        if isinstance(error, FolderUnusable):
            self._met_unusable(who, str(error))
        else:
            self._met(who, error.waiting_for, str(error), late=False)

    def _met_unusable(self, who: str, why: str) -> None:
        with self._lock:
            if self._unusable.get(who) != why:
                _log.error("%s: %s; other jobs go on", who, why)
            self._unusable[who] = why
            if self._open.pop(who, None) is not None:
                self._tell("only the results folder of one job cannot be used", late=False)

    def _met(self, who: str, what: WaitingFor, why: str, *, late: bool) -> None:
        with self._lock:
            self._open[who] = what
            self._tell(why, late=late)

    def over(self, who: str) -> None:
        """It answers again, or nobody asks any more."""
        self._unusable.pop(who, None)
        if who in self._open:
            with self._lock:
                del self._open[who]
                self._tell("it is back", late=False)

    def _tell(self, why: str, *, late: bool) -> None:
        """Tells what was met first and is not over; logs it when that changes, or when the reason becomes known."""
        what = next(iter(self._open.values()), None)
        self._book.tell_waiting(self._worker_id, what)
        if what is not self._told or (what is not None and self._told_late and not late):
            _log.warning("waiting_for: %s (%s)", "nothing" if what is None else what, why)
            self._told_late = late
        self._told = what

    @contextmanager
    def noticing(self, who: str, asked: WaitingFor) -> Iterator[None]:
        """Around one question: tells it when the answer is late, which a locked store makes it long before an error."""
        late = functools.partial(self._met, who, asked, f"no answer for {LATE_SECONDS:g} s", late=True)
        timer = asyncio.get_running_loop().call_later(LATE_SECONDS, late)
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


K = TypeVar("K", bound=Hashable)

FIRST_BACKOFF_SECONDS: Final = 1.0
MAX_BACKOFF_SECONDS: Final = 10.0  # work is to go on soon after a person has repaired what was wrong
FORGET_BACKOFF_SECONDS: Final = 600.0  # nobody came back to it: somebody else did it


class _BackoffEntry(NamedTuple):
    seconds: float
    until: float  # on the boot clock
    told: str


class FailureBackoff(Generic[K]):
    """In the memory of one process: another one tries at times of its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._put_off: dict[K, _BackoffEntry] = {}

    def failed(self, key: K, error: BaseException) -> bool:
        """Puts it off; answers whether this is another error than the last time, and so worth a line in the log."""
        now, former = self._clock.boot(), self._put_off.get(key)
        seconds = FIRST_BACKOFF_SECONDS if former is None else min(2 * former.seconds, MAX_BACKOFF_SECONDS)
        self._put_off[key] = _BackoffEntry(seconds, now + seconds, str(error))
        return former is None or former.told != str(error)

    def worked(self, key: K) -> None:
        """The next failure is the first again."""
        self._put_off.pop(key, None)

    @property
    def waiting(self) -> set[K]:
        """What is not to be tried now."""
        now = self._clock.boot()
        if any(now - one.until > FORGET_BACKOFF_SECONDS for one in self._put_off.values()):
            self._put_off = {
                key: one for key, one in self._put_off.items() if now - one.until <= FORGET_BACKOFF_SECONDS
            }
        return {key for key, one in self._put_off.items() if one.until > now}

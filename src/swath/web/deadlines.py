"""Deadlines: many times that may run out, and one timer of the event loop for all of them. Nearly all are forgotten
long before, and a timer for each would cost an item as much as all that is done for its address.

Used by wreq_exchange.py for requests (TimeLimit), and by pipeline/execute/patience.py for attempts.
"""

from __future__ import annotations

import asyncio
import math
from functools import cached_property
from types import TracebackType
from typing import Final, Protocol

__all__ = ["Deadlines", "TimeLimit", "Timed"]

_EARLY_SECONDS: Final = 0.001  # timers are no more exact than this


class Timed(Protocol):
    """Something that has until `ends_at`, in the loop's time, which may move to a later time meanwhile."""

    ends_at: float

    def time_is_over(self) -> None:
        """Told once; it is not watched any more then."""
        ...


class Deadlines:
    """Belongs to one event loop, and knows it: to ask asyncio for it costs a call of the system, each time."""

    def __init__(self) -> None:
        self._watched: set[Timed] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = math.inf

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The one that runs when it is first asked for."""
        return asyncio.get_running_loop()

    def watch(self, one: Timed) -> None:
        """Tells it when its time is over. To be forgotten, whatever happens."""
        self._watched.add(one)
        if one.ends_at < self._rings_at:
            self._ring_at(one.ends_at)

    def forget(self, one: Timed) -> None:
        """Its time does not matter any more. The timer stays for the others."""
        self._watched.discard(one)

    def _ring_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at, self._timer = when, self.loop.call_at(when, self._ring)

    def _ring(self) -> None:
        self._rings_at, self._timer = math.inf, None
        soon = self.loop.time() + _EARLY_SECONDS
        over = [one for one in self._watched if one.ends_at <= soon]
        self._watched.difference_update(over)
        for one in over:
            one.time_is_over()
        next_at = min((one.ends_at for one in self._watched), default=math.inf)
        if next_at < self._rings_at:
            self._ring_at(next_at)


class TimeLimit:
    """A block that has until `ends_at`, as asyncio.timeout_at makes it: raises TimeoutError out of it."""

    __slots__ = ("_cancelling", "_deadlines", "_task", "ends_at", "expired")

    def __init__(self, deadlines: Deadlines, ends_at: float) -> None:
        self.ends_at = ends_at
        self.expired = False
        self._deadlines = deadlines
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task(self._deadlines.loop)
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._deadlines.watch(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        self._deadlines.forget(self)
        # Somebody else may have cancelled the task too, which then stays so.
        is_ours = self.expired and task is not None and task.uncancel() <= self._cancelling
        if is_ours and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    def time_is_over(self) -> None:
        """At its end, or earlier if somebody says so."""
        if self._task is not None and not self.expired:
            self.expired = True
            self._task.cancel()

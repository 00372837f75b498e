"""What a response may cost: its size, the total time, and the least speed of its body.

All deadlines of an event loop share one timer; a timer for each would cost an item as much as the check of its
address.
"""

from __future__ import annotations

import asyncio
import math
from functools import cached_property
from types import TracebackType
from typing import Final, Protocol

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.http.client.content_decoding import ResponseBody
from swath.fetch.http.messages import Request
from swath.fetch.url import redacted

__all__ = [
    "IDLE_SECONDS",
    "MOST_HEADERS",
    "BodyProgress",
    "Deadlines",
    "Expiring",
    "ResponseLimits",
    "StallDetector",
    "TimeLimit",
    "request_timed_out",
    "too_large",
]

_EARLY_SECONDS: Final = 0.001  # timers are no more exact than this


class Expiring(Protocol):
    """Something that has until `ends_at`, in the loop's time, which may move to a later time meanwhile."""

    ends_at: float

    def time_is_over(self) -> None:
        """Told once; it is not watched any more then."""
        ...


class Deadlines:
    """Belongs to one event loop, and knows it: to ask asyncio for it costs a call of the system, each time."""

    def __init__(self) -> None:
        self._watched: set[Expiring] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = math.inf

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The one that runs when it is first asked for."""
        return asyncio.get_running_loop()

    def watch(self, one: Expiring) -> None:
        """Tells it when its time is over. To be forgotten, whatever happens."""
        self._watched.add(one)
        if one.ends_at < self._rings_at:
            self._ring_at(one.ends_at)

    def forget(self, one: Expiring) -> None:
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


_LOOKS_PER_WINDOW: Final = 5


class BodyProgress:
    """One body on its way: how much there was when its window began. `too_slow` once it was given up."""

    __slots__ = ("body", "ends_at", "seen_bytes", "timer", "too_slow")

    def __init__(self, timer: TimeLimit) -> None:
        self.timer = timer
        self.body: ResponseBody | None = None
        self.ends_at = 0.0
        self.seen_bytes = 0
        self.too_slow = False


class StallDetector:
    """A body must bring so many bytes in each window, the first time within the grace. Belongs to one event loop."""

    def __init__(
        self, deadlines: Deadlines, min_bytes_per_second: int, window_seconds: float, grace_seconds: float
    ) -> None:
        self._deadlines = deadlines
        self._min_bytes_per_second = min_bytes_per_second
        self._enough_bytes = min_bytes_per_second * window_seconds
        self._window_seconds = window_seconds
        self._grace_seconds = grace_seconds
        self._under_way: set[BodyProgress] = set()
        self._looking = False

    def begin(self, pace: BodyProgress, body: ResponseBody, unseen_bytes: int = 0) -> None:
        """From now on the timer of the pace goes off when the body comes too slowly. To be ended, whatever happens.

        Of a body that is read at once nothing is seen on its way: it has the time that its `unseen_bytes` may take.
        """
        loop = self._deadlines.loop
        pace.body = body
        pace.ends_at = loop.time() + self._grace_seconds + unseen_bytes / self._min_bytes_per_second
        self._under_way.add(pace)
        if not self._looking:
            self._looking = True
            loop.call_later(self._window_seconds / _LOOKS_PER_WINDOW, self._look)

    def end(self, pace: BodyProgress) -> None:
        """The body has come, or will not."""
        self._under_way.discard(pace)

    def _look(self) -> None:
        loop = self._deadlines.loop
        self._looking = bool(self._under_way)
        if self._looking:
            loop.call_later(self._window_seconds / _LOOKS_PER_WINDOW, self._look)
        now = loop.time()
        for pace in self._under_way:
            if now < pace.ends_at or pace.body is None or pace.timer.expired:
                continue
            if pace.body.wire_bytes - pace.seen_bytes < self._enough_bytes:
                pace.too_slow = True
                pace.timer.time_is_over()
            pace.seen_bytes = pace.body.wire_bytes
            pace.ends_at = now + self._window_seconds


IDLE_SECONDS: Final = 20.0  # below the keep-alive of common servers, so that few connections die under a request
MOST_HEADERS: Final = 256


class ResponseLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer may cost. Decoded, a body may be as large as on the wire, and no larger.

    A body must bring `min_bytes_per_second` over each `window_seconds`, the first time within `grace_seconds`.
    """

    body_bytes: int = 32 * 1024 * 1024
    header_bytes: int = 256 * 1024
    min_bytes_per_second: int = 1_024
    window_seconds: float = 5.0
    grace_seconds: float = 10.0

    def cap_bytes(self, request: Request) -> int:
        """What the body may have."""
        return min(self.body_bytes, request.largest_bytes or self.body_bytes)

    def check_announced(self, announced: int | None, request: Request) -> None:
        """Raises Failed too_large for a body that need not be read to know it."""
        cap_bytes = self.cap_bytes(request)
        if announced is not None and announced > cap_bytes and request.method != "HEAD":
            raise too_large(f"the body has {announced} bytes, more than {cap_bytes},", request)

    def check_head(self, head_bytes: int, request: Request) -> None:
        """Raises Failed too_large."""
        if head_bytes > self.header_bytes:
            raise too_large(f"the head of the answer has {head_bytes} bytes", request)


def too_large(what: str, request: Request) -> Failed:
    """Whatever it was."""
    return Failed(Failure.of(FailureKind.TOO_LARGE, f"{what} at {redacted(request.url)}"))


def request_timed_out(request: Request, pace: BodyProgress, limits: ResponseLimits) -> Failed:
    """A timeout, with what it was that took so long."""
    where = redacted(request.url)
    message = f"no whole answer within {request.request_timeout_seconds:g} s at {where}"
    if pace.too_slow:
        message = f"the body came with less than {limits.min_bytes_per_second} bytes a second at {where}"
    return Failed(Failure.of(FailureKind.TIMEOUT, message))

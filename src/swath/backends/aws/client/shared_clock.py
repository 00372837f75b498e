"""Times that hosts have in common, for everything that is written where another host reads it.

Boot clocks differ from host to host, and wall clocks jump. SharedClock agrees with the wall clock at its start and
runs
on by the boot clock; the store uses it. ServerClock estimates the clock of DynamoDB, for the rates of sites: the
`Date`
header of each answer, in whole seconds, bounds the difference to this host's boot clock, and some answers together
give
it to a few milliseconds. The ports speak boot time; the back end converts at its boundary.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import Final

from swath.domain.errors import SwathError
from swath.ports.clock import Clock

__all__ = ["ERROR_SECONDS", "WIDE_SECONDS", "ServerClock", "SharedClock"]


class SharedClock:
    """Unix seconds that never go back. A host whose wall clock was behind when it opened the store catches up with the
    latest time that it reads in it, so that what another host has made wait waits no longer than was meant."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_seconds = clock.now() - clock.boot()

    def now(self) -> float:
        """The present instant."""
        return self._offset_seconds + self._clock.boot()

    def catch_up(self, seen: float) -> None:
        """Another host has written this time, so it is no earlier now."""
        self._offset_seconds = max(self._offset_seconds, seen - self._clock.boot())

    def to_boot(self, shared: float) -> float:
        """The same instant on this host's boot clock."""
        return shared - self._offset_seconds

    def from_boot(self, boot: float) -> float:
        """The same instant for all hosts."""
        return boot + self._offset_seconds


ERROR_SECONDS: Final = 0.015  # good enough: two hosts then differ by less than Z3 allows a request to be late
WIDE_SECONDS: Final = 0.1  # nothing is decided by a time that may be wrong by more, as long as it can be improved
PATIENCE_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 30.0  # before the next try, where the answers take too long
DRIFT: Final = 1e-4  # seconds per second by which a boot clock may be fast or slow
STEPS: Final = 8
LEAST_STEP_SECONDS: Final = 0.005
WRONG_SECONDS: Final = 0.5  # a wall clock that is wrong by more is logged

Ask = Callable[[], Awaitable[object]]

_log = logging.getLogger("swath.aws")


class ServerClock:
    """Unix seconds by the store's clock. This host's wall clock counts only until the first answer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall = clock.now() - clock.boot()
        self._low, self._high = -math.inf, math.inf  # the store's clock less the boot clock lies between them
        self._heard_at = clock.boot()
        self._settling = asyncio.Lock()
        self._refining: asyncio.Task[None] | None = None
        self._again_at = -math.inf
        self._is_settled = False
        self._is_warned = False

    def boot(self) -> float:
        """This host's boot clock, to be read before a request is sent."""
        return self._clock.boot()

    def from_boot(self, boot: float) -> float:
        """The store's time at that instant of the boot clock."""
        low, high = self._bounds(self._clock.boot())
        return boot + (self._wall if math.isinf(high - low) else (low + high) / 2)

    @property
    def error_seconds(self) -> float:
        """The most by which the time can be wrong; infinite before the first answer."""
        low, high = self._bounds(self._clock.boot())
        return (high - low) / 2

    def heard(self, date: str | None, sent_at: float) -> None:
        """An answer has just come, with this `Date` header, to a request that was sent then by the boot clock."""
        at = None if date is None else _unix(date)
        if at is None:
            return
        now = self._clock.boot()
        heard_low, heard_high = at - now, at + 1 - sent_at
        low, high = self._bounds(now)
        apart = max(low - heard_high, heard_low - high)
        if apart > WIDE_SECONDS:  # the store's clock was set
            low, high = heard_low, heard_high
        else:
            low, high = max(low, heard_low), min(high, heard_high)
        # Servers whose clocks differ a little contradict each other by as much; the bounds then cross.
        self._low, self._high, self._heard_at = min(low, high), max(low, high), now

    async def settle(self, ask: Ask) -> None:
        """Returns when the time is good enough, or cannot be improved soon. `ask` makes any request to the store.

        In a process that has talked to the store for a while this takes no time. A new one needs some 15 requests and
        about a second. Raises what `ask` raises.
        """
        if self.error_seconds <= ERROR_SECONDS or self._clock.boot() < self._again_at:
            return
        if self._is_useless():
            async with self._settling:
                if self._is_useless():
                    await self._settle(ask)
        elif self._refining is None or self._refining.done():
            self._refining = asyncio.create_task(self._refine(ask))

    def _is_useless(self) -> bool:
        most = WIDE_SECONDS if self._is_settled else ERROR_SECONDS
        return self.error_seconds > most and self._clock.boot() >= self._again_at

    async def _refine(self, ask: Ask) -> None:
        with contextlib.suppress(SwathError):  # whoever needs the store hears of it himself
            await self._settle(ask)

    async def _settle(self, ask: Ask) -> None:
        until = self._clock.boot() + PATIENCE_SECONDS
        while self.error_seconds > ERROR_SECONDS and self._clock.boot() < until:
            await self._clock.sleep(self._most_telling_at() - self._clock.boot())
            await ask()
            if math.isinf(self.error_seconds):
                break  # it does not tell its time
        self._is_settled = True
        if self.error_seconds > ERROR_SECONDS:
            self._again_at = self._clock.boot() + PAUSE_SECONDS
        self._warn()

    def _most_telling_at(self) -> float:
        """When to ask next, by the boot clock: while a new second of the store may be about to begin."""
        now = self._clock.boot()
        low, high = self._bounds(now)
        if math.isinf(high - low):
            return now
        earliest = math.ceil(now + low) - high
        return max(now, earliest + max(LEAST_STEP_SECONDS, (high - low) / STEPS))

    def _bounds(self, now: float) -> tuple[float, float]:
        drift = DRIFT * (now - self._heard_at)
        return self._low - drift, self._high + drift

    def _warn(self) -> None:
        seconds = self._wall - self.from_boot(0.0)
        if abs(seconds) > WRONG_SECONDS and not self._is_warned:
            self._is_warned = True
            side = "ahead of" if seconds > 0 else "behind"
            _log.warning("this host's clock is %.1f s %s the clock of DynamoDB; set it by NTP", abs(seconds), side)


def _unix(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None

"""Maker: gets sessions from a provider, within bounds, and not again at once when they cannot be had.

manager.py asks for one when a seat needs it; what went wrong is told by name, and shown until it is over.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from swath.browser.opened import Opened, Provider, ProviderSession, Wish
from swath.browser.seats.seats import ManagerOptions
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.retry import MAX_RETRY_AFTER_SECONDS
from swath.ports.clock import Clock

__all__ = ["HoldOff", "Maker"]

_log = logging.getLogger(__name__)

_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 60.0
_LASTING: Final = frozenset({FailureKind.CREDENTIAL, FailureKind.ACCESS_POLICY})


class HoldOff:
    """When the next session may be asked for, after some could not be had: later each time, until one is of use."""

    def __init__(self) -> None:
        self.until = 0.0
        self.failure: Failure | None = None
        self._times = 0
        self._told = 0.0

    def failed(self, failure: Failure, now: float) -> float:
        """How long to wait. What the provider asks for counts, if it is longer."""
        self._times += 1
        wait_seconds = _FIRST_WAIT_SECONDS * 2.0 ** min(self._times - 1, 10)
        if failure.kind in _LASTING:  # a person has to do something about it
            wait_seconds = _LONGEST_WAIT_SECONDS
        self.failure = failure
        asked_seconds = min(failure.retry_after_seconds or 0.0, MAX_RETRY_AFTER_SECONDS)
        wait_seconds = max(min(wait_seconds, _LONGEST_WAIT_SECONDS), asked_seconds)
        self.until = now + wait_seconds
        return wait_seconds

    def is_over(self, now: float) -> bool:
        """Whether a wait has ended that nobody was told of; said once."""
        over, self._told = self._told < self.until <= now, max(self._told, min(self.until, now))
        return over

    def succeeded(self) -> None:
        """All is well."""
        self.until, self.failure, self._times = 0.0, None, 0


class Maker:
    """Sessions, and places for items in them."""

    def __init__(self, provider: Provider, options: ManagerOptions, clock: Clock) -> None:
        self.hold_off = HoldOff()
        self._provider = provider
        self._options = options
        self._clock = clock

    async def make(self) -> ProviderSession:
        """A new session. Where there are too many it is waited for, as long as an item can. Raises Failed."""
        patient_until = self._clock.boot() + self._options.patience_seconds
        while True:
            hold = self.hold_off
            if hold.failure is not None and hold.until > patient_until:
                raise Failed(hold.failure)
            await self._clock.sleep(hold.until - self._clock.boot())
            try:
                async with asyncio.timeout(self._options.create_seconds):
                    return await self._provider.create()
            except TimeoutError:
                message = f"no session of {self._provider.name} within {self._options.create_seconds:g} s"
                failure = Failure.of(FailureKind.BROWSER_CRASH, message)
            except Failed as failed:
                failure = failed.failure
            wait_seconds = hold.failed(failure, self._clock.boot())
            _log.warning("there is no browser; the next try is in %.3g s: %s", wait_seconds, failure.message)
            if failure.kind is not FailureKind.RATE_LIMITED:
                raise Failed(failure)

    async def open(self, session: ProviderSession, wish: Wish) -> Opened:
        """Raises Failed as the session does, and when it takes too long."""
        try:
            async with asyncio.timeout(self._options.open_seconds):
                return await session.open(wish)
        except TimeoutError:
            message = f"no page in a browser within {self._options.open_seconds:g} s"
            raise Failed(Failure.of(FailureKind.BROWSER_CRASH, message)) from None

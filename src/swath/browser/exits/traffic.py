"""Traffic: what one attempt sends and gets through its exit: its way, its bytes, its lines, and what went wrong.

Made by exits.py for each attempt; exit_line.py counts in it. An attempt's lines end with it.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from swath.browser.exits.exit import Way
from swath.domain.failure import Failure, FailureKind
from swath.proxies.route import Route
from swath.web.trip import Trip

__all__ = ["Traffic"]

_MOST_TROUBLES: Final = 256  # a page can name more hosts than anybody will ask about


class Traffic:
    """Of one attempt. Without a way nothing may leave."""

    def __init__(self, way: Way | None, most_bytes: int) -> None:
        self.way = way
        self.token = secrets.token_hex(16)
        self.sent_bytes = 0
        self.received_bytes = 0
        self.requests = 0
        self.overrun: Failure | None = None
        self.lines: set[asyncio.Task[None]] = set()
        self._most_bytes = most_bytes
        self._trips: dict[Route, Trip] = {}
        self._troubles: dict[str, Failure] = {}

    def trip(self, route: Route, connect_seconds: float) -> Trip:
        """That of a route, which lasts as long as the attempt."""
        trip = self._trips.get(route)
        if trip is None:
            trip = self._trips[route] = Trip(route)
            trip.connect_seconds = connect_seconds
        return trip

    def sent(self, count: int, trip: Trip | None) -> None:
        """Counts what is about to leave."""
        self.sent_bytes += count
        if trip is not None:
            trip.meter.sent_bytes += count

    def received(self, count: int, trip: Trip | None) -> None:
        """Counts what has come. Raises OSError when it is too much, and cuts every line."""
        self.received_bytes += count
        if trip is not None:
            trip.meter.received_bytes += count
        if self.received_bytes > self._most_bytes:
            if self.overrun is None:
                message = f"the page and what it loads are more than {self._most_bytes:,} bytes"
                self.overrun = Failure.of(FailureKind.TOO_LARGE, message)
                self.end()
            raise ConnectionAbortedError

    def note(self, authority: str, failure: Failure) -> None:
        """Something went wrong on the way to `host:port`."""
        self._troubles.pop(authority, None)
        self._troubles[authority] = failure
        if len(self._troubles) > _MOST_TROUBLES:
            del self._troubles[next(iter(self._troubles))]

    def trouble(self, authority: str) -> Failure | None:
        """What last did, told once. What a proxy did on the way is known to its trip."""
        known = self._troubles.pop(authority, None)
        told = [trip.trouble(authority) for trip in self._trips.values()]
        return known or next((failure for failure in told if failure is not None), None)

    def end(self) -> None:
        """Closes its lines."""
        for line in self.lines:
            line.cancel()

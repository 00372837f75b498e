"""Exit dial: from an address to a connection: the attempt's way, the guard's check, and the dial of what was checked.

Before: exit_line.py and exit_plain.py, of a browser. After: the site, or the proxy before it (web/upstream.py).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Container
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from swath.browser.exits.traffic import Traffic
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.proxies.route import Route
from swath.web.address import origin_of
from swath.web.egress.guard import Guard, Target
from swath.web.relay import closed
from swath.web.trip import Line, Trip
from swath.web.upstream import ProxyDial, Streams, open_upstream

__all__ = ["Dialler", "ExitLimits", "Reached", "authority_of"]

_K = FailureKind


class ExitLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one exit puts up with. `idle_seconds`: how long a line may say nothing, either way."""

    connect_seconds: float = 10.0
    idle_seconds: float = 120.0
    most_lines: int = 256


class Reached:
    """A connection to a site, or through a proxy to one. Used as a context, which closes it."""

    def __init__(self, authority: str, route: Route | None, streams: Streams, via: tuple[Trip, Line] | None) -> None:
        self.authority = authority
        self.route = route
        self.reader, self.writer = streams
        self.trip = None if via is None else via[0]
        self._line = None if via is None else via[1]

    def waits(self, *, waits: bool) -> None:
        """Whether something was asked, and no answer has begun."""
        if self._line is not None:
            self._line.waiting = waits

    async def close(self) -> None:
        """Says goodbye."""
        if self.trip is not None and self._line is not None:
            self.trip.ended(self._line)
        await closed(self.writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Dialler:
    """One per process. `own_ports` are those of the exits: no exit leads to another."""

    def __init__(
        self, guard: Guard, own_ports: Container[int], limits: ExitLimits, ca_file: Path | None = None
    ) -> None:
        self._guard = guard
        self._own_ports = own_ports
        self._limits = limits
        self._dial_proxy = ProxyDial(guard, ca_file)

    def route(self, traffic: Traffic, url: str) -> Route | None:
        """Which way the attempt takes to an address. Raises Failed when there is none."""
        if traffic.overrun is not None:
            raise Failed(traffic.overrun)
        if traffic.way is None:
            raise Failed(Failure.of(_K.EGRESS_DENIED, "nothing is to be loaded now"))
        return traffic.way.route(url)

    async def reach(self, traffic: Traffic, url: str, route: Route | None, *, tunnel: bool) -> Reached:
        """A connection. Raises Failed: as the guard does, connect, timeout, proxy, or what the provider says."""
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                checked = self._guard.check(url) if route is None else self._guard.check_proxied(url)
                target = await checked
        except TimeoutError:
            raise Failed(Failure.of(_K.DNS_TEMPORARY, "the name could not be looked up in time")) from None
        authority = f"{target.host}:{target.port}"
        if target.port in self._own_ports and any(address.is_loopback for address in target.addresses):
            raise Failed(Failure.of(_K.EGRESS_DENIED, f"{authority} is not to be reached from here"))
        if route is None:
            return Reached(authority, None, await self._direct(target), None)
        return await self._through(traffic, route, authority, tunnel=tunnel)

    async def _direct(self, target: Target) -> Streams:
        """The addresses one after the other, each with its part of the time."""
        where, loop = f"{target.host}:{target.port}", asyncio.get_running_loop()
        until, failure = loop.time() + self._limits.connect_seconds, Failure.of(_K.CONNECT, f"{where} has no address")
        for number, address in enumerate(target.addresses):
            seconds = (until - loop.time()) / (len(target.addresses) - number)
            try:
                async with asyncio.timeout(seconds):
                    return await asyncio.open_connection(str(address), target.port)
            except TimeoutError:
                failure = Failure.of(_K.TIMEOUT, f"the time for connecting is over at {where}")
            except ConnectionRefusedError:
                failure = Failure.of(_K.CONNECT, f"the connection was refused at {where}")
            except OSError:
                failure = Failure.of(_K.CONNECT, f"the connection failed at {where}")
        raise Failed(failure)

    async def _through(self, traffic: Traffic, route: Route, authority: str, *, tunnel: bool) -> Reached:
        trip = traffic.trip(route, self._limits.connect_seconds)
        line = Line(authority, asyncio.current_task())
        trip.lines.add(line)
        streams = None
        try:
            streams = await open_upstream(self._dial_proxy, trip, line, tunnel=tunnel)
        finally:
            if streams is None:
                line.waiting = False  # the trip knows better why
                trip.ended(line)
        if streams is None:
            raise Failed(trip.trouble(authority) or Failure.of(_K.PROXY, f"the proxy {trip.name} failed"))
        return Reached(authority, route, streams, (trip, line))


def authority_of(url: str) -> str:
    """`host:port` of a canonical address, as the guard spells them."""
    scheme, _, authority = origin_of(url).partition("://")
    return authority if re.search(r":[0-9]+\Z", authority) else f"{authority}:{443 if scheme == 'https' else 80}"

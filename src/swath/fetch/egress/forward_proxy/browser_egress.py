"""The egress of one browser context: its interface for the browser layer, the traffic of the attempt, and the dialer.

Dialing: choose the route, ask the guard, connect to a checked address or to the route's proxy.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Container
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.forward_proxy.upstream import (
    ActiveRoute,
    ProxyConnection,
    ProxyDialer,
    Streams,
    close_gracefully,
    open_upstream,
)
from swath.fetch.egress.guard import EgressGuard, EgressTarget
from swath.fetch.proxies.route import Route
from swath.fetch.url import origin_of

__all__ = [
    "BROWSER_PROXY_HEADER",
    "AttemptTraffic",
    "BrowserProxyLimits",
    "ContextProxy",
    "EgressDialer",
    "RouteChooser",
    "UpstreamConnection",
    "authority_of_url",
]

BROWSER_PROXY_HEADER: Final = (
    "x-swath-exit"  # on answers that are the exit's own, with its token: a site cannot make one up
)


class RouteChooser(Protocol):
    """Which way out the requests of an attempt take; web/passage.py says it."""

    def route(self, url: str) -> Route | None:
        """That of the address's site; None: straight. Raises Failed when there is none."""
        ...


class ContextProxy(Protocol):
    """One per context. What is counted and remembered is of the present attempt, which `serve` begins."""

    @property
    def port(self) -> int:
        """Where the browser finds it."""
        ...

    @property
    def token(self) -> str:
        """What EXIT_HEADER says on an answer that is not the site's; another one for each attempt."""
        ...

    @property
    def sent_bytes(self) -> int:
        """To sites and proxies."""
        ...

    @property
    def received_bytes(self) -> int:
        """From them."""
        ...

    @property
    def requests(self) -> int:
        """Plain requests and tunnels."""
        ...

    def serve(self, way: RouteChooser | None, most_bytes: int) -> None:
        """From now on connections are of this attempt; those of the last one are closed. None: nothing may leave."""
        ...

    def trouble(self, url: str) -> Failure | None:
        """What last went wrong on the way to the address's host, if anything did; told once."""
        ...

    @property
    def overrun(self) -> Failure | None:
        """Too large: more has come than an attempt may take, and nothing more comes."""
        ...


_MOST_FAILURES: Final = 256  # a page can name more hosts than anybody will ask about


class AttemptTraffic:
    """Of one attempt. Without a way nothing may leave."""

    def __init__(self, way: RouteChooser | None, most_bytes: int) -> None:
        self.way = way
        self.token = secrets.token_hex(16)
        self.sent_bytes = 0
        self.received_bytes = 0
        self.requests = 0
        self.overrun: Failure | None = None
        self.lines: set[asyncio.Task[None]] = set()
        self._most_bytes = most_bytes
        self._trips: dict[Route, ActiveRoute] = {}
        self._troubles: dict[str, Failure] = {}

    def trip(self, route: Route, connect_seconds: float) -> ActiveRoute:
        """That of a route, which lasts as long as the attempt."""
        trip = self._trips.get(route)
        if trip is None:
            trip = self._trips[route] = ActiveRoute(route)
            trip.connect_seconds = connect_seconds
        return trip

    def sent(self, count: int, trip: ActiveRoute | None) -> None:
        """Counts what is about to leave."""
        self.sent_bytes += count
        if trip is not None:
            trip.meter.sent_bytes += count

    def received(self, count: int, trip: ActiveRoute | None) -> None:
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
        if len(self._troubles) > _MOST_FAILURES:
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


_K = FailureKind


class BrowserProxyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one exit puts up with. `idle_seconds`: how long a line may say nothing, either way."""

    connect_seconds: float = 10.0
    idle_seconds: float = 120.0
    most_lines: int = 256


class UpstreamConnection:
    """A connection to a site, or through a proxy to one. Used as a context, which closes it."""

    def __init__(
        self, authority: str, route: Route | None, streams: Streams, via: tuple[ActiveRoute, ProxyConnection] | None
    ) -> None:
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
        await close_gracefully(self.writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class EgressDialer:
    """One per process. `own_ports` are those of the exits: no exit leads to another."""

    def __init__(
        self, guard: EgressGuard, own_ports: Container[int], limits: BrowserProxyLimits, ca_file: Path | None = None
    ) -> None:
        self._guard = guard
        self._own_ports = own_ports
        self._limits = limits
        self._dial_proxy = ProxyDialer(guard, ca_file)

    def route(self, traffic: AttemptTraffic, url: str) -> Route | None:
        """Which way the attempt takes to an address. Raises Failed when there is none."""
        if traffic.overrun is not None:
            raise Failed(traffic.overrun)
        if traffic.way is None:
            raise Failed(Failure.of(_K.EGRESS_DENIED, "nothing is to be loaded now"))
        return traffic.way.route(url)

    async def reach(
        self, traffic: AttemptTraffic, url: str, route: Route | None, *, tunnel: bool
    ) -> UpstreamConnection:
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
            return UpstreamConnection(authority, None, await self._direct(target), None)
        return await self._through(traffic, route, authority, tunnel=tunnel)

    async def _direct(self, target: EgressTarget) -> Streams:
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

    async def _through(
        self, traffic: AttemptTraffic, route: Route, authority: str, *, tunnel: bool
    ) -> UpstreamConnection:
        trip = traffic.trip(route, self._limits.connect_seconds)
        line = ProxyConnection(authority, asyncio.current_task())
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
        return UpstreamConnection(authority, route, streams, (trip, line))


def authority_of_url(url: str) -> str:
    """`host:port` of a canonical address, as the guard spells them."""
    scheme, _, authority = origin_of(url).partition("://")
    return authority if re.search(r":[0-9]+\Z", authority) else f"{authority}:{443 if scheme == 'https' else 80}"

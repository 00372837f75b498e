"""Transports: direct to the site, or through a proxy by way of the local forward proxy.

Plain http:// is spoken in the event loop, everything else by wreq. A proxy's failure is never blamed on the site.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.forward_proxy.client_proxy import CLIENT_PROXY_HEADER, ClientProxy
from swath.fetch.egress.forward_proxy.upstream import ActiveRoute, ProxyDialer
from swath.fetch.egress.guard import EgressGuard, EgressTarget
from swath.fetch.egress.resolver import IPAddress, same_addresses
from swath.fetch.http.client.http1_client import Http1Client
from swath.fetch.http.client.limits import Deadlines, ResponseLimits
from swath.fetch.http.client.tls_errors import (
    CertificateRefused,
    ProxyTunnel,
    RefusalReasons,
    refusal_reason,
    refusal_reason_behind,
)
from swath.fetch.http.client.wreq_client import WreqClient
from swath.fetch.http.messages import Request, Response, Transport, UnreadableResponse
from swath.fetch.proxies.route import Route
from swath.fetch.url import canonical, origin_of, redacted

if TYPE_CHECKING:
    import wreq

__all__ = ["DirectTransport", "ProxiedTransport", "RoutedTransport"]

_MOST_POOLS: Final = 256
_MOST_WREQ_ORIGINS: Final = 1_000


class _OriginClient(NamedTuple):
    """The connections to one origin, at its checked addresses. They close when the last request lets go of it."""

    client: wreq.Client
    addresses: tuple[IPAddress, ...]


class DirectTransport:
    """Implements Transport for requests without a route.

    A client of wreq can be told where a name is only when it is made, so each origin has its own; those that were
    longest without use go when there are too many, and one whose name has moved is replaced.
    """

    def __init__(self, guard: EgressGuard, limits: ResponseLimits | None = None, ca_file: Path | None = None) -> None:
        """`ca_file`: certificates (PEM) to trust besides the usual."""
        self._guard = guard
        self._limits = limits or ResponseLimits()
        self._ca_file = ca_file
        self._deadlines = Deadlines()
        self._http1 = Http1Client(self._limits, self._deadlines)
        self._odd: set[str] = set()
        self._reasons = RefusalReasons()
        self._pools: OrderedDict[tuple[str, float, str | None], _OriginClient] = OrderedDict()
        self._closed = False

    @cached_property
    def _exchanges(self) -> WreqClient:
        return WreqClient(self._limits, self._deadlines, self._ca_file)

    def check_impersonation(self, browser: str) -> None:
        """Raises BadInput for a browser that cannot be imitated: before work begins, not with every item."""
        if not self._exchanges.knows(browser):
            raise BadInput(f"impersonate: there is no browser {browser!r} to imitate; one that is known is chrome_143")

    async def send(self, request: Request) -> Response:
        """See Transport."""
        self._must_be_open(FailureKind.INTERNAL, "the transport is closed")
        if request.route is not None:
            raise Failed(Failure.of(FailureKind.INTERNAL, f"no way to {redacted(request.url)} by {request.route.name}"))
        url = canonical(request.url)
        if url != request.url:
            request = msgspec.structs.replace(request, url=url)
        until = self._deadlines.loop.time() + request.request_timeout_seconds
        origin = origin_of(url)
        target = self._guard.checked_before(origin) or await self._looked_up(origin, request, until)
        return await self._exchanged(origin, target, request, until)

    async def _exchanged(self, origin: str, target: EgressTarget, request: Request, until: float) -> Response:
        """Dials the target's addresses, and no others."""
        if origin not in self._odd and self._is_plain(target, request):
            return await self._in_the_loop(origin, target, request, until)
        pool = self._pool(origin, target, request)
        try:
            return await self._exchanges.exchange(pool.client, request, pinned=target.addresses, until=until)
        except CertificateRefused as refused:
            self._abandon(origin, request, pool)
            reason = await self._reasons.of(origin, lambda: refusal_reason(target, self._ca_file))
            if reason is None:
                raise
            raise Failed(Failure.of(FailureKind.TLS, f"{refused.failure.message}: {reason}")) from None
        except Failed:
            self._abandon(origin, request, pool)
            raise
        except asyncio.CancelledError:
            self._abandon(origin, request, pool)
            task = asyncio.current_task()
            if task is None or not task.cancelling():  # then it was the client, which does so when it is closed
                self._must_be_open(FailureKind.CONNECT, "the transport was closed")
            raise

    async def _in_the_loop(self, origin: str, target: EgressTarget, request: Request, until: float) -> Response:
        """A server that is not understood there is asked by wreq from then on: each forgives other mistakes."""
        try:
            return await self._http1.exchange(origin, target, request, until)
        except UnreadableResponse:
            if len(self._odd) < _MOST_WREQ_ORIGINS:
                self._odd.add(origin)
            raise

    def _is_plain(self, target: EgressTarget, request: Request) -> bool:
        """Whether nothing of it needs wreq."""
        return target.scheme == "http" and request.impersonate is None

    async def _looked_up(self, origin: str, request: Request, until: float) -> EgressTarget:
        try:
            async with asyncio.timeout_at(until):
                return await self._guard.check_origin(origin)
        except TimeoutError:
            message = f"no address within {request.request_timeout_seconds:g} s for {redacted(request.url)}"
            raise Failed(Failure.of(FailureKind.TIMEOUT, message)) from None

    def _must_be_open(self, kind: FailureKind, message: str) -> None:
        if self._closed:
            raise Failed(Failure.of(kind, message))

    async def close(self) -> None:
        """See Transport. Sockets that the client keeps open beyond it close when they have idled long enough."""
        self._closed = True
        self._http1.close()
        for pool in self._pools.values():
            pool.client.close()
        self._pools.clear()

    def _abandon(self, origin: str, request: Request, pool: _OriginClient) -> None:
        """The connection may be dead, or busy with what nobody reads any more; over HTTP/2, all others would share it.

        Those under way keep theirs.
        """
        key = _pool_key(origin, request)
        if origin.startswith("https:") and self._pools.get(key) is pool:
            del self._pools[key]

    def _pool(self, origin: str, target: EgressTarget, request: Request) -> _OriginClient:
        key = _pool_key(origin, request)
        pool = self._pools.get(key)
        if pool is None or not same_addresses(pool.addresses, target.addresses):
            pool = self._pools[key] = _OriginClient(
                self._exchanges.client(
                    request.connect_timeout_seconds,
                    pins={target.host: target.addresses},
                    impersonate=request.impersonate,
                ),
                target.addresses,
            )
            if len(self._pools) > _MOST_POOLS:
                self._pools.popitem(last=False)
        self._pools.move_to_end(key)
        return pool


def _pool_key(origin: str, request: Request) -> tuple[str, float, str | None]:
    return (origin, request.connect_timeout_seconds, request.impersonate)


_K = FailureKind
_PROBE_SECONDS: Final = 5.0
_MOST_PROXY_CLIENTS: Final = 16
# Through a proxy these say only that bytes stopped coming, and the proxy is the one who stopped sending them.
_CUT_OFF: Final = frozenset({_K.CONNECT, _K.DNS_TEMPORARY, _K.DNS_UNKNOWN})


class ProxiedTransport:
    """Implements Transport for requests with a route. `ca_file`: certificates to trust besides the usual."""

    def __init__(self, guard: EgressGuard, limits: ResponseLimits | None = None, ca_file: Path | None = None) -> None:
        self._guard = guard
        self._limits = limits or ResponseLimits()
        self._ca_file = ca_file
        self._exchanges: WreqClient | None = None
        self._pools: OrderedDict[tuple[float, str | None, Path | None], wreq.Client] = OrderedDict()
        self._dial = ProxyDialer(guard, ca_file)
        self._gateway = ClientProxy(self._dial)
        self._reasons = RefusalReasons()
        self._starting = asyncio.Lock()
        self._closed = False

    async def send(self, request: Request) -> Response:
        """See Transport. `wire_bytes` is what went over the route, both ways, since its last answer."""
        route = request.route
        if route is None:
            raise Failed(Failure.of(_K.INTERNAL, "a request without a route came to the proxies"))
        url = canonical(request.url)
        if url != request.url:
            request = msgspec.structs.replace(request, url=url)
        target = await self._guard.check_proxied(url)
        exchanges = await self._started()
        trip = self._gateway.trip(route)
        authority = f"{target.host}:{target.port}"
        trip.authorities.add(authority)
        trip.connect_seconds = request.connect_timeout_seconds
        trip.trouble(authority)  # what is left of an earlier request is not this one's
        route.meter.requests += 1
        try:
            response = await self._exchanged(exchanges, request, route, trip, authority)
        except CertificateRefused as refused:
            raise await self._explained(refused, route, trip, target) from None
        if response.header(CLIENT_PROXY_HEADER) == trip.token:
            raise Failed(trip.trouble(authority) or Failure.of(_K.PROXY, f"the proxy {trip.name} failed"))
        if target.scheme == "http" or route.opens_tls:
            body = None if request.method == "HEAD" else response.body
            refusal = trip.read_refusal(response.status, response.headers, tunnel=False, body=body)
            if refusal is not None:
                raise Failed(refusal)
        return msgspec.structs.replace(response, wire_bytes=trip.take_bytes())

    async def close(self) -> None:
        """See Transport."""
        self._closed = True
        for client in self._pools.values():
            client.close()
        self._pools.clear()
        await self._gateway.close()

    async def knock(self, scheme: str, host: str, port: int) -> bool:
        """Whether a proxy can be connected to. Nothing is sent."""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                _, writer = await self._dial(scheme, host, port)
        except (OSError, TimeoutError, Failed):
            return False
        writer.close()
        return True

    async def _started(self) -> WreqClient:
        """The client and the gateway, set up when the first request comes: many processes never use a proxy."""
        async with self._starting:
            if self._closed:
                raise Failed(Failure.of(_K.INTERNAL, "the transport is closed"))
            if self._exchanges is None:
                await self._gateway.start()
                self._exchanges = WreqClient(self._limits, Deadlines(), self._ca_file)
            return self._exchanges

    async def _exchanged(
        self, exchanges: WreqClient, request: Request, route: Route, trip: ActiveRoute, authority: str
    ) -> Response:
        proxy = exchanges.wreq.Proxy.all(f"http://127.0.0.1:{self._gateway.port}", username=trip.token, password="x")  # noqa: S106 the token is the secret, and good on this machine only
        try:
            return await exchanges.exchange(self._client(exchanges, request, route), request, proxy=proxy)
        except Failed as failed:
            blamed = _attributed(failed.failure, trip, authority, route)
            if blamed.kind is _K.TLS and isinstance(failed, CertificateRefused):
                raise CertificateRefused(blamed) from None
            raise Failed(blamed) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or task is None or task.cancelling():
                raise
            raise Failed(Failure.of(_K.CONNECT, "the transport was closed")) from None

    async def _explained(
        self, refused: CertificateRefused, route: Route, trip: ActiveRoute, target: EgressTarget
    ) -> Failed:
        """Says what is wrong with the certificate, if that can be found out."""
        tunnel, ca_file = ProxyTunnel(self._gateway.port, trip.token), route.ca_file or self._ca_file
        origin = f"{target.host}:{target.port}"
        reason = await self._reasons.of(origin, lambda: refusal_reason_behind(tunnel, target, ca_file))
        failure = refused.failure
        return Failed(failure if reason is None else Failure.of(failure.kind, f"{failure.message}: {reason}"))

    def _client(self, exchanges: WreqClient, request: Request, route: Route) -> wreq.Client:
        """Connections are kept apart by token inside a client, so one serves many routes."""
        key = (request.connect_timeout_seconds, request.impersonate, route.ca_file)
        client = self._pools.get(key)
        if client is None:
            client = self._pools[key] = exchanges.client(
                request.connect_timeout_seconds, pins={}, impersonate=request.impersonate, ca_file=route.ca_file
            )
            if len(self._pools) > _MOST_PROXY_CLIENTS:
                self._pools.popitem(last=False)
        self._pools.move_to_end(key)
        return client


class RoutedTransport:
    """Implements Transport: sends each request by the way it names."""

    def __init__(self, direct: Transport, proxied: Transport) -> None:
        self._direct = direct
        self._proxied = proxied

    def send(self, request: Request) -> Coroutine[Any, Any, Response]:
        """See Transport."""
        return (self._direct if request.route is None else self._proxied).send(request)

    async def close(self) -> None:
        """See Transport."""
        await self._direct.close()
        await self._proxied.close()


def _attributed(failure: Failure, trip: ActiveRoute, authority: str, route: Route) -> Failure:
    """What the gateway saw counts before what the client made of it."""
    if failure.kind in {_K.TOO_LARGE, _K.INTERNAL, _K.EGRESS_DENIED}:
        return failure
    trouble = trip.trouble(authority)
    if trouble is not None:
        return trouble
    if failure.kind in _CUT_OFF:
        return Failure.of(_K.PROXY, f"through {route.name}: {failure.message}")
    if failure.kind is _K.TLS and route.opens_tls and route.ca_file is None:
        message = f"{failure.message}, through {route.name}; a provider that opens TLS needs SWATH_PROXY_CA_FILE"
        return Failure.of(_K.ACCESS_POLICY, message)
    return failure

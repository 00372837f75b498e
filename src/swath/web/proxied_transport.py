"""The transport for requests that go through a proxy: client → our gateway on loopback → proxy → site.

Comes after the session, beside direct_transport.py. Says whose fault a failure was: what the proxy did is never the
site's.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.proxies.route import Route
from swath.web.address import canonical
from swath.web.deadlines import Deadlines
from swath.web.egress.guard import Guard, Target
from swath.web.gateway import GATEWAY_HEADER, Gateway
from swath.web.limits import Limits
from swath.web.tls_problems import CertificateRefused, RefusalReasons, Tunnel, refusal_reason_behind
from swath.web.transport import Request, Response, Transport
from swath.web.trip import Trip
from swath.web.upstream import ProxyDial
from swath.web.wreq_exchange import Exchanges

if TYPE_CHECKING:
    import wreq

__all__ = ["ProxiedTransport", "RoutedTransport"]

_K = FailureKind
_KNOCK_SECONDS: Final = 5.0
_MOST_POOLS: Final = 16
# Through a proxy these say only that bytes stopped coming, and the proxy is the one who stopped sending them.
_CUT_SHORT: Final = frozenset({_K.CONNECT, _K.DNS_TEMPORARY, _K.DNS_UNKNOWN})


class ProxiedTransport:
    """Implements Transport for requests with a route. `ca_file`: certificates to trust besides the usual."""

    def __init__(self, guard: Guard, limits: Limits | None = None, ca_file: Path | None = None) -> None:
        self._guard = guard
        self._limits = limits or Limits()
        self._ca_file = ca_file
        self._exchanges: Exchanges | None = None
        self._pools: OrderedDict[tuple[float, str | None, Path | None], wreq.Client] = OrderedDict()
        self._dial = ProxyDial(guard, ca_file)
        self._gateway = Gateway(self._dial)
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
        if response.header(GATEWAY_HEADER) == trip.token:
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
            async with asyncio.timeout(_KNOCK_SECONDS):
                _, writer = await self._dial(scheme, host, port)
        except (OSError, TimeoutError, Failed):
            return False
        writer.close()
        return True

    async def _started(self) -> Exchanges:
        """The client and the gateway, set up when the first request comes: many processes never use a proxy."""
        async with self._starting:
            if self._closed:
                raise Failed(Failure.of(_K.INTERNAL, "the transport is closed"))
            if self._exchanges is None:
                await self._gateway.start()
                self._exchanges = Exchanges(self._limits, Deadlines(), self._ca_file)
            return self._exchanges

    async def _exchanged(
        self, exchanges: Exchanges, request: Request, route: Route, trip: Trip, authority: str
    ) -> Response:
        proxy = exchanges.wreq.Proxy.all(f"http://127.0.0.1:{self._gateway.port}", username=trip.token, password="x")  # noqa: S106 the token is the secret, and good on this machine only
        try:
            return await exchanges.exchange(self._client(exchanges, request, route), request, proxy=proxy)
        except Failed as failed:
            blamed = _blamed(failed.failure, trip, authority, route)
            if blamed.kind is _K.TLS and isinstance(failed, CertificateRefused):
                raise CertificateRefused(blamed) from None
            raise Failed(blamed) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or task is None or task.cancelling():
                raise
            raise Failed(Failure.of(_K.CONNECT, "the transport was closed")) from None

    async def _explained(self, refused: CertificateRefused, route: Route, trip: Trip, target: Target) -> Failed:
        """Says what is wrong with the certificate, if that can be found out."""
        tunnel, ca_file = Tunnel(self._gateway.port, trip.token), route.ca_file or self._ca_file
        origin = f"{target.host}:{target.port}"
        reason = await self._reasons.of(origin, lambda: refusal_reason_behind(tunnel, target, ca_file))
        failure = refused.failure
        return Failed(failure if reason is None else Failure.of(failure.kind, f"{failure.message}: {reason}"))

    def _client(self, exchanges: Exchanges, request: Request, route: Route) -> wreq.Client:
        """Connections are kept apart by token inside a client, so one serves many routes."""
        key = (request.connect_timeout_seconds, request.impersonate, route.ca_file)
        client = self._pools.get(key)
        if client is None:
            client = self._pools[key] = exchanges.client(
                request.connect_timeout_seconds, pins={}, impersonate=request.impersonate, ca_file=route.ca_file
            )
            if len(self._pools) > _MOST_POOLS:
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


def _blamed(failure: Failure, trip: Trip, authority: str, route: Route) -> Failure:
    """What the gateway saw counts before what the client made of it."""
    if failure.kind in {_K.TOO_LARGE, _K.INTERNAL, _K.EGRESS_DENIED}:
        return failure
    trouble = trip.trouble(authority)
    if trouble is not None:
        return trouble
    if failure.kind in _CUT_SHORT:
        return Failure.of(_K.PROXY, f"through {route.name}: {failure.message}")
    if failure.kind is _K.TLS and route.opens_tls and route.ca_file is None:
        message = f"{failure.message}, through {route.name}; a provider that opens TLS needs SWATH_PROXY_CA_FILE"
        return Failure.of(_K.ACCESS_POLICY, message)
    return failure

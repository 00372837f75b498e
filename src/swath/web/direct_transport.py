"""The direct transport: sends requests straight to their sites, to addresses that the egress guard has checked.

Comes after the session; below it is only the network. What has no TLS is spoken in the event loop (http1_exchange.py),
all else by wreq, in which redirects, cookies and decoding are switched off (wreq_exchange.py).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import canonical, origin_of, shown
from swath.web.deadlines import Deadlines
from swath.web.egress.addresses import IPAddress, same_places
from swath.web.egress.guard import Guard, Target
from swath.web.http1_exchange import Http1Exchanges
from swath.web.limits import Limits
from swath.web.tls_problems import CertificateRefused, RefusalReasons, refusal_reason
from swath.web.transport import Request, Response, Unreadable
from swath.web.wreq_exchange import Exchanges

if TYPE_CHECKING:
    import wreq

__all__ = ["DirectTransport"]

_MOST_POOLS: Final = 256
_MOST_ODD: Final = 1_000


class _Pool(NamedTuple):
    """The connections to one origin, at its checked addresses. They close when the last request lets go of it."""

    client: wreq.Client
    addresses: tuple[IPAddress, ...]


class DirectTransport:
    """Implements Transport for requests without a route.

    A client of wreq can be told where a name is only when it is made, so each origin has its own; those that were
    longest without use go when there are too many, and one whose name has moved is replaced.
    """

    def __init__(self, guard: Guard, limits: Limits | None = None, ca_file: Path | None = None) -> None:
        """`ca_file`: certificates (PEM) to trust besides the usual."""
        self._guard = guard
        self._limits = limits or Limits()
        self._ca_file = ca_file
        self._deadlines = Deadlines()
        self._http1 = Http1Exchanges(self._limits, self._deadlines)
        self._odd: set[str] = set()
        self._reasons = RefusalReasons()
        self._pools: OrderedDict[tuple[str, float, str | None], _Pool] = OrderedDict()
        self._closed = False

    @cached_property
    def _exchanges(self) -> Exchanges:
        return Exchanges(self._limits, self._deadlines, self._ca_file)

    def check_impersonation(self, browser: str) -> None:
        """Raises BadInput for a browser that cannot be imitated: before work begins, not with every item."""
        if not self._exchanges.knows(browser):
            raise BadInput(f"impersonate: there is no browser {browser!r} to imitate; one that is known is chrome_143")

    async def send(self, request: Request) -> Response:
        """See Transport."""
        self._must_be_open(FailureKind.INTERNAL, "the transport is closed")
        if request.route is not None:
            raise Failed(Failure.of(FailureKind.INTERNAL, f"no way to {shown(request.url)} by {request.route.name}"))
        url = canonical(request.url)
        if url != request.url:
            request = msgspec.structs.replace(request, url=url)
        until = self._deadlines.loop.time() + request.request_timeout_seconds
        origin = origin_of(url)
        target = self._guard.checked_before(origin) or await self._looked_up(origin, request, until)
        return await self._exchanged(origin, target, request, until)

    async def _exchanged(self, origin: str, target: Target, request: Request, until: float) -> Response:
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

    async def _in_the_loop(self, origin: str, target: Target, request: Request, until: float) -> Response:
        """A server that is not understood there is asked by wreq from then on: each forgives other mistakes."""
        try:
            return await self._http1.exchange(origin, target, request, until)
        except Unreadable:
            if len(self._odd) < _MOST_ODD:
                self._odd.add(origin)
            raise

    def _is_plain(self, target: Target, request: Request) -> bool:
        """Whether nothing of it needs wreq."""
        return target.scheme == "http" and request.impersonate is None

    async def _looked_up(self, origin: str, request: Request, until: float) -> Target:
        try:
            async with asyncio.timeout_at(until):
                return await self._guard.check_origin(origin)
        except TimeoutError:
            message = f"no address within {request.request_timeout_seconds:g} s for {shown(request.url)}"
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

    def _abandon(self, origin: str, request: Request, pool: _Pool) -> None:
        """The connection may be dead, or busy with what nobody reads any more; over HTTP/2, all others would share it.

        Those under way keep theirs.
        """
        key = _key(origin, request)
        if origin.startswith("https:") and self._pools.get(key) is pool:
            del self._pools[key]

    def _pool(self, origin: str, target: Target, request: Request) -> _Pool:
        key = _key(origin, request)
        pool = self._pools.get(key)
        if pool is None or not same_places(pool.addresses, target.addresses):
            pool = self._pools[key] = _Pool(
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


def _key(origin: str, request: Request) -> tuple[str, float, str | None]:
    return (origin, request.connect_timeout_seconds, request.impersonate)

"""The transport on wreq: sends requests straight to their sites, to addresses that the egress guard has checked.

Comes after the session; below it is only the network. Redirects, cookies and decoding are switched off in the client.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from swath.domain.errors import BadInput, Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import canonical, origin_of, shown
from swath.web.egress.addresses import IPAddress
from swath.web.egress.guard import Guard, Target
from swath.web.transport import Request, Response
from swath.web.wreq_exchange import Exchanges, Limits

if TYPE_CHECKING:
    import wreq

__all__ = ["WreqTransport"]

_MOST_POOLS: Final = 256


class _Pool(NamedTuple):
    """The connections to one origin, at its checked addresses. They close when the last request lets go of it."""

    client: wreq.Client
    addresses: tuple[IPAddress, ...]


class WreqTransport:
    """Implements Transport for requests without a route.

    A client can be told where a name is only when it is made, so each origin has its own; those that were longest
    without use go when there are too many, and one whose name has moved is replaced.
    """

    def __init__(self, guard: Guard, limits: Limits | None = None, ca_file: Path | None = None) -> None:
        """`ca_file`: certificates (PEM) to trust besides the usual."""
        self._guard = guard
        self._exchanges = Exchanges(limits or Limits(), ca_file)
        self._pools: OrderedDict[tuple[str, float, str | None], _Pool] = OrderedDict()
        self._closed = False

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
        until = self._exchanges.ends_at(request)
        origin = origin_of(url)
        target = self._guard.checked_before(origin) or await self._looked_up(origin, request, until)
        pool = self._pool(origin, target, request)
        try:
            return await self._exchanges.exchange(pool.client, request, pinned=target.addresses, until=until)
        except Failed:
            self._abandon(origin, request, pool)
            raise
        except asyncio.CancelledError:
            self._abandon(origin, request, pool)
            task = asyncio.current_task()
            if task is None or not task.cancelling():  # then it was the client, which does so when it is closed
                self._must_be_open(FailureKind.CONNECT, "the transport was closed")
            raise

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
        if pool is None or not _same(pool.addresses, target.addresses):
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


def _same(known: tuple[IPAddress, ...], checked: tuple[IPAddress, ...]) -> bool:
    """In any order: name servers shuffle them."""
    return known is checked or set(known) == set(checked)

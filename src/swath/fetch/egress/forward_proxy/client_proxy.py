"""The local forward proxy of the HTTP client: listens on loopback, adds the provider's credentials, counts bytes.

It sees what the client library hides: a refused CONNECT, a proxy that hangs or answers garbage.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from swath.fetch.egress.forward_proxy.upstream import (
    MOST_HEAD_BYTES,
    ActiveRoute,
    DialProxy,
    MessageHead,
    ProxyConnection,
    Streams,
    authority_of_head,
    close_gracefully,
    open_upstream,
    proxy_token,
    read_head,
    relay_requests,
    relay_responses,
    relay_tunnel,
    run_until_one_ends,
)
from swath.fetch.proxies.route import Route

__all__ = ["CLIENT_PROXY_HEADER", "ClientProxy"]

CLIENT_PROXY_HEADER: Final = "x-swath-gateway"  # on answers of its own, with the token: a site cannot make one up
_HEAD_SECONDS: Final = 10.0
_DISCONNECTED: Final = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError)


class ClientProxy:
    """One per process. `dial` connects to a proxy at an address that the guard has checked."""

    def __init__(self, dial: DialProxy) -> None:
        self._dial = dial
        self._server: asyncio.Server | None = None
        self._trips: weakref.WeakKeyDictionary[Route, ActiveRoute] = weakref.WeakKeyDictionary()
        self._by_token: weakref.WeakValueDictionary[str, ActiveRoute] = weakref.WeakValueDictionary()
        self._lines: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listens on a port that the system chooses."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MOST_HEAD_BYTES)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    def trip(self, route: Route) -> ActiveRoute:
        """That of a route. When nobody has the route any more, its lines are closed and its token is void."""
        trip = self._trips.get(route)
        if trip is None:
            trip = self._trips[route] = self._by_token_of(route)
        return trip

    def _by_token_of(self, route: Route) -> ActiveRoute:
        trip = ActiveRoute(route)
        self._by_token[trip.token] = trip
        weakref.finalize(route, _end_soon, asyncio.get_running_loop(), trip).atexit = False
        return trip

    async def close(self) -> None:
        """Closes every line."""
        if self._server is not None:
            self._server.close()
        for task in self._lines:
            task.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    # -- the client's side ---------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._lines.add(task)
            task.add_done_callback(self._lines.discard)
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await read_head(reader)
            trip = self._by_token.get(proxy_token(head))
            authority = authority_of_head(head)
            if trip is None or authority not in trip.authorities:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            with _tracked(trip, authority, task) as line:
                await self._carry(trip, line, head, (reader, writer))
        except (*_DISCONNECTED, asyncio.CancelledError):
            pass  # nobody waits for this task: the client sees its connection end
        finally:
            await close_gracefully(writer)

    async def _carry(self, trip: ActiveRoute, line: ProxyConnection, head: MessageHead, client: Streams) -> None:
        tunnel = head.first.startswith(b"CONNECT ")
        proxy = await open_upstream(self._dial, trip, line, tunnel=tunnel)
        if proxy is None:
            own = f"{CLIENT_PROXY_HEADER}: {trip.token}".encode()
            client[1].write(
                b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n" + own + b"\r\n\r\n"
            )
            return
        try:
            if tunnel:
                client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                up = relay_tunnel(client[0], proxy[1], trip)
            else:
                up = relay_requests(head, client[0], proxy[1], trip, line)
            down = relay_responses(proxy[0], client[1], trip, line, tunnel=tunnel)
            await run_until_one_ends(up, down)
        finally:
            await close_gracefully(proxy[1])


@contextmanager
def _tracked(trip: ActiveRoute, authority: str, task: asyncio.Task[None] | None) -> Iterator[ProxyConnection]:
    line = ProxyConnection(authority, task)
    trip.lines.add(line)
    try:
        yield line
    finally:
        trip.ended(line)


def _end_soon(loop: asyncio.AbstractEventLoop, trip: ActiveRoute) -> None:
    """A route may be let go of in any thread, and after the loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(trip.end)

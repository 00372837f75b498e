"""Gateway: the HTTP client's only way to a proxy. Listens on loopback, adds credentials that nobody else knows, counts.

Before: the client, which shows a token. After: the proxy (upstream.py). It sees what the client would lose: how a proxy
says no to a CONNECT, that it hangs, that it talks garbage.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from swath.proxies.route import Route
from swath.web.relay import (
    HEAD_BYTES,
    Head,
    authority_of,
    closed,
    pass_back,
    pass_on,
    pass_requests,
    read_head,
    token_of,
    until_one_ends,
)
from swath.web.trip import Line, Trip
from swath.web.upstream import Dial, Streams, open_upstream

__all__ = ["GATEWAY_HEADER", "Gateway"]

GATEWAY_HEADER: Final = "x-swath-gateway"  # on answers of its own, with the token: a site cannot make one up
_HEAD_SECONDS: Final = 10.0
_GONE: Final = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError)


class Gateway:
    """One per process. `dial` connects to a proxy at an address that the guard has checked."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._server: asyncio.Server | None = None
        self._trips: weakref.WeakKeyDictionary[Route, Trip] = weakref.WeakKeyDictionary()
        self._by_token: weakref.WeakValueDictionary[str, Trip] = weakref.WeakValueDictionary()
        self._lines: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listens on a port that the system chooses."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    def trip(self, route: Route) -> Trip:
        """That of a route. When nobody has the route any more, its lines are closed and its token is void."""
        trip = self._trips.get(route)
        if trip is None:
            trip = self._trips[route] = self._by_token_of(route)
        return trip

    def _by_token_of(self, route: Route) -> Trip:
        trip = Trip(route)
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
            trip = self._by_token.get(token_of(head))
            authority = authority_of(head)
            if trip is None or authority not in trip.authorities:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            with _line(trip, authority, task) as line:
                await self._carry(trip, line, head, (reader, writer))
        except (*_GONE, asyncio.CancelledError):
            pass  # nobody waits for this task: the client sees its connection end
        finally:
            await closed(writer)

    async def _carry(self, trip: Trip, line: Line, head: Head, client: Streams) -> None:
        tunnel = head.first.startswith(b"CONNECT ")
        proxy = await open_upstream(self._dial, trip, line, tunnel=tunnel)
        if proxy is None:
            own = f"{GATEWAY_HEADER}: {trip.token}".encode()
            client[1].write(
                b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n" + own + b"\r\n\r\n"
            )
            return
        try:
            if tunnel:
                client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                up = pass_on(client[0], proxy[1], trip)
            else:
                up = pass_requests(head, client[0], proxy[1], trip, line)
            down = pass_back(proxy[0], client[1], trip, line, tunnel=tunnel)
            await until_one_ends(up, down)
        finally:
            await closed(proxy[1])


@contextmanager
def _line(trip: Trip, authority: str, task: asyncio.Task[None] | None) -> Iterator[Line]:
    line = Line(authority, task)
    trip.lines.add(line)
    try:
        yield line
    finally:
        trip.ended(line)


def _end_soon(loop: asyncio.AbstractEventLoop, trip: Trip) -> None:
    """A route may be let go of in any thread, and after the loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(trip.end)

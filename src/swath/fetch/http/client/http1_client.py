"""An HTTP/1.1 client in the event loop for http:// URLs: dials checked addresses, pools connections, writes requests.

It uses no threads, which makes it faster than wreq for such sites.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections import OrderedDict
from functools import lru_cache
from typing import Final

import aiohappyeyeballs

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.guard import EgressTarget
from swath.fetch.egress.resolver import IPAddress, same_addresses
from swath.fetch.http.client.http1_connection import Http1Connection
from swath.fetch.http.client.limits import (
    IDLE_SECONDS,
    BodyProgress,
    Deadlines,
    ResponseLimits,
    StallDetector,
    TimeLimit,
    request_timed_out,
)
from swath.fetch.http.messages import Headers, Request, Response
from swath.fetch.url import redacted

__all__ = ["Http1Client"]

_MOST_POOLS: Final = 256
_NEXT_ADDRESS_SECONDS: Final = 0.25  # a name with several: the next is tried beside one that does not answer
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
_WITH_BODY: Final = frozenset({"POST", "PUT"})
_FRAMING_HEADERS: Final = frozenset({"content-length", "transfer-encoding"})  # ours to say
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class _ConnectionPool:
    """The connections to one origin, at its checked addresses, that are not in use; the last used is the next.

    `idle_seconds` is for how long one may wait for its next request: no longer than the server keeps it.
    """

    def __init__(self, target: EgressTarget) -> None:
        self.target = target
        self.idle: list[Http1Connection] = []
        self.idle_seconds = IDLE_SECONDS
        self.closed = False

    def taken(self, now: float) -> Http1Connection | None:
        """One that may still be used."""
        while self.idle:
            connection = self.idle.pop()
            if self._is_good(connection, now) and connection.is_quiet:
                return connection
            connection.abort()
        return None

    def give_back(self, connection: Http1Connection) -> None:
        """Keeps it for the next request, if it can be used for one."""
        if self.closed:
            connection.abort()
        elif connection.usable:
            self.idle.append(connection)

    def died(self, idled_seconds: float) -> None:
        """One that had waited for so long was closed under its next request: those to come wait half as long."""
        self.idle_seconds = min(self.idle_seconds, idled_seconds / 2)

    def tidy(self, now: float) -> bool:
        """Ends those that have waited for too long. Whether any are left."""
        waiting, self.idle = self.idle, []
        for connection in waiting:
            if self._is_good(connection, now):
                self.idle.append(connection)
            else:
                connection.abort()
        return bool(self.idle)

    def _is_good(self, connection: Http1Connection, now: float) -> bool:
        return connection.usable and now - connection.idle_since < self.idle_seconds

    def close(self) -> None:
        """Those in use end with their answers."""
        self.closed = True
        while self.idle:
            self.idle.pop().abort()


class Http1Client:
    """Belongs to one event loop."""

    def __init__(self, limits: ResponseLimits, deadlines: Deadlines) -> None:
        self._limits = limits
        self._deadlines = deadlines
        self._stalls = StallDetector(
            deadlines, limits.min_bytes_per_second, limits.window_seconds, limits.grace_seconds
        )
        self._pools: OrderedDict[str, _ConnectionPool] = OrderedDict()
        self._in_use: set[Http1Connection] = set()
        self._tidying: asyncio.TimerHandle | None = None
        self._closed = False

    async def exchange(self, origin: str, target: EgressTarget, request: Request, until: float) -> Response:
        """Sends the request to one of the target's addresses and reads the answer, until then in the loop's time.

        Raises Failed, or else was cancelled.
        """
        raw = _encode_request(origin, request)
        timer = TimeLimit(self._deadlines, until)
        pace, pool = BodyProgress(timer), self._pool(origin, target)
        try:
            async with timer:
                now = self._deadlines.loop.time()
                connection = pool.taken(now) or await self._dialled(target, request)
                return await self._answered(pool, connection, request, raw, pace)
        except TimeoutError:
            raise request_timed_out(request, pace, self._limits) from None

    async def _answered(
        self, pool: _ConnectionPool, connection: Http1Connection, request: Request, raw: bytes, pace: BodyProgress
    ) -> Response:
        if self._closed:  # while it was dialled
            connection.abort()
        since, now = connection.idle_since, self._deadlines.loop.time()
        self._in_use.add(connection)
        try:
            return await connection.answer_to(request, raw, pace)
        except Failed as failed:
            if since and failed.failure.kind is FailureKind.CONNECT:
                pool.died(now - since)
            raise
        finally:
            self._in_use.discard(connection)
            pool.give_back(connection)
            if self._tidying is None:
                self._tidying = self._deadlines.loop.call_later(IDLE_SECONDS, self._tidy)

    def close(self) -> None:
        """Fails what is under way."""
        self._closed = True
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        for connection in self._in_use:
            connection.abort()
        if self._tidying is not None:
            self._tidying.cancel()

    def _pool(self, origin: str, target: EgressTarget) -> _ConnectionPool:
        pool = self._pools.get(origin)
        if pool is None or not same_addresses(pool.target.addresses, target.addresses):
            if pool is not None:
                pool.close()
            pool = self._pools[origin] = _ConnectionPool(target)
            if len(self._pools) > _MOST_POOLS:
                self._pools.popitem(last=False)[1].close()
        self._pools.move_to_end(origin)
        return pool

    def _tidy(self) -> None:
        now = self._deadlines.loop.time()
        left = [pool.tidy(now) for pool in self._pools.values()]
        self._tidying = self._deadlines.loop.call_later(IDLE_SECONDS, self._tidy) if any(left) else None

    async def _dialled(self, target: EgressTarget, request: Request) -> Http1Connection:
        loop = self._deadlines.loop
        connection = Http1Connection(loop, self._limits, self._stalls)
        try:
            async with asyncio.timeout(request.connect_timeout_seconds):
                dialled = await aiohappyeyeballs.start_connection(
                    [_address_info(address, target.port) for address in target.addresses],
                    happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS,
                    loop=loop,
                )
                connection.line = dialled
                try:
                    await loop.create_connection(lambda: connection, sock=dialled)
                except BaseException:
                    dialled.close()
                    raise
        except TimeoutError:
            raise _failed(FailureKind.TIMEOUT, "the time for connecting is over", request) from None
        except OSError as error:
            refused = isinstance(error, ConnectionRefusedError)
            words = "the connection was refused" if refused else "the connection failed"
            raise _failed(FailureKind.CONNECT, words, request) from None
        return connection


def _address_info(address: IPAddress, port: int) -> tuple[int, int, int, str, tuple[str, int]]:
    """As getaddrinfo would say it, of an address that is known."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    return (family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port))


def _encode_request(origin: str, request: Request) -> bytes:
    """The request as it goes over the wire. Raises Failed internal for one that cannot."""
    if request.method not in _METHODS:
        raise Failed(Failure.of(FailureKind.INTERNAL, f"{request.method!r} is no method that is sent"))
    try:
        fields = _encode_headers(origin, request.headers)
        length = f"Content-Length: {len(request.body)}\r\n" if request.body or request.method in _WITH_BODY else ""
        line = f"{request.method} {request.url[len(origin) :]} HTTP/1.1\r\n"
        return b"".join((line.encode("ascii"), fields, length.encode("ascii"), b"\r\n", request.body))
    except (AttributeError, TypeError, ValueError):  # what an author gave is no text, or none that can stand there
        raise _failed(FailureKind.INTERNAL, "the request cannot be sent", request) from None


@lru_cache(256)  # most requests to an origin have the same
def _encode_headers(origin: str, headers: Headers) -> bytes:
    """Raises ValueError for what is no header."""
    lines = [] if any(name.lower() == "host" for name, _ in headers) else [f"Host: {origin.partition('://')[2]}\r\n"]
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or _CONTROL.search(value):
            raise ValueError
        if name.lower() not in _FRAMING_HEADERS:
            lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode()


def _failed(kind: FailureKind, words: str, request: Request) -> Failed:
    return Failed(Failure.of(kind, f"{words} at {redacted(request.url)}"))

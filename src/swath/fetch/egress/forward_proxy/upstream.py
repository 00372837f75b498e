"""Connects to the proxy of a route and relays bytes both ways.

Shared by the local proxy of the HTTP client and that of browsers. The state of a route in use remembers what went
wrong, so that the proxy is blamed for it and not the site.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import secrets
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.proxies.route import Route

__all__ = [
    "MOST_HEAD_BYTES",
    "ActiveRoute",
    "DialProxy",
    "MessageHead",
    "ProxyConnection",
    "ProxyDialer",
    "Streams",
    "authority_of_head",
    "close_gracefully",
    "open_upstream",
    "proxy_token",
    "read_head",
    "relay_requests",
    "relay_responses",
    "relay_tunnel",
    "run_until_one_ends",
]


class ProxyConnection:
    """One connection through the gateway to one site. `waiting`: something was asked, and no answer has begun."""

    __slots__ = ("authority", "task", "waiting")

    def __init__(self, authority: str, task: asyncio.Task[None] | None) -> None:
        self.authority = authority
        self.task = task
        self.waiting = True


class ActiveRoute:
    """Holds no reference to its route: it ends with it. Nothing here is for people to see."""

    __slots__ = (
        *("__weakref__", "_troubles", "authorities", "authorization", "connect_seconds", "host", "lines", "meter"),
        *("name", "port", "read_refusal", "scheme", "taken_bytes", "token"),
    )

    def __init__(self, route: Route) -> None:
        self.token = secrets.token_hex(16)
        self.name, self.scheme, self.host, self.port = route.name, route.scheme, route.host, route.port
        self.meter, self.read_refusal = route.meter, route.read_refusal
        self.authorization = _authorization(route)
        self.connect_seconds = 10.0
        self.authorities: set[str] = set()
        self.lines: set[ProxyConnection] = set()
        self.taken_bytes = 0
        self._troubles: dict[str, Failure] = {}

    def failed(self, authority: str, message: str) -> None:
        """The proxy itself failed on the way to a site."""
        self.refused(authority, Failure.of(FailureKind.PROXY, f"the proxy {self.name} {message}"))

    def refused(self, authority: str, failure: Failure) -> None:
        """The proxy said no."""
        self._troubles[authority] = failure

    def trouble(self, authority: str) -> Failure | None:
        """What last went wrong on the way to a site, told once. A line on which no answer began is trouble, too."""
        known = self._troubles.pop(authority, None)
        if known is None and any(line.waiting and line.authority == authority for line in self.lines):
            return Failure.of(FailureKind.PROXY, f"the proxy {self.name} did not answer in time")
        return known

    def ended(self, line: ProxyConnection) -> None:
        """A line is closed, by whomever. When no answer ever began on it, that is the proxy's doing."""
        self.lines.discard(line)
        if line.waiting and line.authority not in self._troubles:
            self.failed(line.authority, "sent back no answer")

    def take_bytes(self) -> int:
        """What went over the route since this was last asked."""
        taken, self.taken_bytes = self.taken_bytes, self.meter.bytes
        return self.taken_bytes - taken

    def end(self) -> None:
        """Nobody has the route any more: its lines are closed."""
        for line in self.lines:
            if line.task is not None:
                line.task.cancel()


def _authorization(route: Route) -> bytes:
    if route.username is None:
        return b""
    password = "" if route.password is None else route.password.reveal()
    pair = f"{route.username.reveal()}:{password}".encode()
    return b"Proxy-Authorization: Basic " + base64.b64encode(pair) + b"\r\n"


MOST_HEAD_BYTES: Final = 256 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_CLOSE_SECONDS: Final = 1.0
_TLS_RECORDS: Final = b"\x15\x16"  # an alert or a handshake: what an answer through a tunnel begins with
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9])\d\d[ \r\n]")
_LEAST_STATUS_LINE: Final = len(b"HTTP/1.1 200\n")
_HEAD_END: Final = re.compile(rb"\n\r?\n")


class MessageHead(NamedTuple):
    """The first line of a request or an answer, and its fields."""

    first: bytes
    fields: list[tuple[bytes, bytes]]  # lower-case name, the whole line

    def value(self, name: bytes) -> bytes:
        """Of the first field of that name; empty without one."""
        found = next((line for known, line in self.fields if known == name), b"")
        return found.partition(b":")[2].strip()


async def relay_tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trip: ActiveRoute) -> None:
    """What the client sends through a tunnel, as it is."""
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        trip.meter.sent_bytes += len(chunk)
        await writer.drain()


async def relay_requests(
    head: MessageHead,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    trip: ActiveRoute,
    line: ProxyConnection,
) -> None:
    """Requests in absolute form, one after the other, each with the proxy's own credentials in place of the token."""
    while True:
        line.waiting = True
        kept = [raw for name, raw in head.fields if name not in {b"proxy-authorization", b"proxy-connection"}]
        sent = b"\r\n".join([head.first, *kept, trip.authorization]) + b"\r\n"
        writer.write(sent)
        trip.meter.sent_bytes += len(sent)
        left = int(head.value(b"content-length") or 0)
        while left > 0:
            chunk = await reader.read(min(left, _CHUNK_BYTES))
            if not chunk:
                return
            writer.write(chunk)
            trip.meter.sent_bytes += len(chunk)
            left -= len(chunk)
            await writer.drain()
        head = await read_head(reader)
        if authority_of_head(head) != line.authority or proxy_token(head) != trip.token:
            return


async def relay_responses(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    trip: ActiveRoute,
    line: ProxyConnection,
    *,
    tunnel: bool,
) -> None:
    """What comes back. Until it begins as an answer of the site must, whatever happens is the proxy's doing."""
    begun = b""
    while chunk := await _read(reader):
        if line.waiting:
            begun += chunk
            begins = _begins_tls(begun) if tunnel else _begins_response(begun)
            if begins is False:
                trip.failed(line.authority, "answered something that is neither HTTP nor TLS")
            if begins is not None:
                begun, line.waiting = b"", False
        trip.meter.received_bytes += len(chunk)
        writer.write(chunk)
        await writer.drain()


def _begins_tls(begun: bytes) -> bool:
    return begun[0] in _TLS_RECORDS


def _begins_response(begun: bytes) -> bool | None:
    """Whether a whole head of an answer has come; None while it may still come. Interim heads are none."""
    while True:
        if len(begun) < _LEAST_STATUS_LINE and b"\n" not in begun:
            return None if b"HTTP/1.".startswith(begun[:7]) else False
        status = _STATUS_LINE.match(begun)
        if status is None or len(begun) > MOST_HEAD_BYTES:
            return False
        end = _HEAD_END.search(begun)
        if end is None:
            return None
        if status[1] != b"1":
            return True
        begun = begun[end.end() :]
        if not begun:
            return None


async def _read(reader: asyncio.StreamReader) -> bytes:
    """A proxy that resets a connection has ended it, like one that closes it."""
    with suppress(OSError):
        return await reader.read(_CHUNK_BYTES)
    return b""


async def run_until_one_ends(*ways: Awaitable[None]) -> None:
    """Runs both ways until one ends, then ends the other: neither is of use alone."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def close_gracefully(writer: asyncio.StreamWriter) -> None:
    """Sends what is left, for a moment, and closes."""
    with suppress(OSError, TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await writer.drain()
    writer.close()
    with suppress(OSError, TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await writer.wait_closed()


# -- heads -------------------------------------------------------------------------------------------------------------


async def read_head(reader: asyncio.StreamReader) -> MessageHead:
    """Raises IncompleteReadError or LimitOverrunError when none comes."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    return MessageHead(first, [(raw.partition(b":")[0].strip().lower(), raw) for raw in lines])


def proxy_token(head: MessageHead) -> str:
    """Who the client says it is; empty when it does not."""
    kind, _, value = head.value(b"proxy-authorization").partition(b" ")
    if kind.lower() != b"basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).partition(b":")[0].decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def authority_of_head(head: MessageHead) -> str:
    """`host:port` of what is asked for."""
    words = head.first.decode("latin-1").split(" ")
    if len(words) != 3:
        return ""
    if words[0] == "CONNECT":
        return words[1]
    parts = urlsplit(words[1])
    return parts.netloc if parts.netloc.rpartition(":")[2].isdigit() else f"{parts.netloc}:80"


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
DialProxy = Callable[[str, str, int], Awaitable[Streams]]  # scheme, host, port of a proxy; raises Failed or OSError

_K = FailureKind
_CONNECT_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?")


class ProxyDialer:
    """Implements Dial. `ca_file`: certificates to trust besides the usual, of proxies that are spoken to by TLS."""

    def __init__(self, guard: EgressGuard, ca_file: Path | None = None) -> None:
        self._guard = guard
        self._ca_file = ca_file

    async def __call__(self, scheme: str, host: str, port: int) -> Streams:
        """A connection to a proxy, at an address that was checked. Raises Failed or OSError."""
        try:
            target = await self._guard.check_proxy(host, port)
        except Failed as failed:
            if failed.failure.kind not in {_K.DNS_TEMPORARY, _K.DNS_UNKNOWN}:
                raise
            raise OSError("the proxy's name cannot be looked up") from None
        tls = _tls_to_proxy(self._ca_file) if scheme == "https" else None
        for address in target.addresses[:-1]:
            with suppress(OSError):
                return await _connect(str(address), port, tls, host)
        return await _connect(str(target.addresses[-1]), port, tls, host)


async def open_upstream(dial: DialProxy, trip: ActiveRoute, line: ProxyConnection, *, tunnel: bool) -> Streams | None:
    """A connection to the trip's proxy, with a tunnel through it if one was asked for. None: the trip knows why not."""
    proxy: Streams | None = None
    try:
        async with asyncio.timeout(trip.connect_seconds):
            proxy = await dial(trip.scheme, trip.host, trip.port)
            if not tunnel or await _open_tunnel(trip, line, proxy):
                return proxy
    except Failed as failed:
        trip.refused(line.authority, failed.failure)
    except TimeoutError:
        trip.failed(line.authority, "did not answer in time")
    except OSError:
        trip.failed(line.authority, "cannot be reached" if proxy is None else "closed the connection")
    except asyncio.IncompleteReadError as error:
        trip.failed(line.authority, "answered something that is no HTTP" if error.partial else "closed the connection")
    except asyncio.LimitOverrunError:
        trip.failed(line.authority, "answered something that is no HTTP")
    except asyncio.CancelledError:
        if proxy is not None:
            proxy[1].close()
        raise
    if proxy is not None:
        await close_gracefully(proxy[1])
    return None


async def _open_tunnel(trip: ActiveRoute, line: ProxyConnection, proxy: Streams) -> bool:
    authority = line.authority.encode()
    asked = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (authority, authority, trip.authorization)
    proxy[1].write(asked)
    trip.meter.sent_bytes += len(asked)
    head = await read_head(proxy[0])
    trip.meter.received_bytes += len(head.first) + sum(len(raw) + 2 for _, raw in head.fields) + 4
    status = _CONNECT_STATUS_LINE.fullmatch(head.first)
    if status is None:
        trip.failed(line.authority, "answered something that is no HTTP")
        return False
    if status[1].startswith(b"2"):
        return True
    headers = tuple(
        (name.decode("latin-1"), raw.partition(b":")[2].strip().decode("latin-1")) for name, raw in head.fields
    )
    refusal = trip.read_refusal(int(status[1]), headers, tunnel=True)
    if refusal is None:
        trip.failed(line.authority, f"made no tunnel ({int(status[1])})")
    else:
        trip.refused(line.authority, refusal)
    return False


async def _connect(address: str, port: int, tls: ssl.SSLContext | None, host: str) -> Streams:
    name = host if tls is not None else None
    return await asyncio.open_connection(address, port, ssl=tls, server_hostname=name, limit=MOST_HEAD_BYTES)


def _tls_to_proxy(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context

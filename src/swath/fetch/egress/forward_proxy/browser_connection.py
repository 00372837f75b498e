"""One connection from the browser: a tunnel (TLS and WebSockets), or plain HTTP requests, each written anew."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.forward_proxy.browser_egress import (
    BROWSER_PROXY_HEADER,
    AttemptTraffic,
    EgressDialer,
    UpstreamConnection,
    authority_of_url,
)
from swath.fetch.egress.forward_proxy.http1_codec import (
    MalformedMessage,
    MessageReader,
    RequestHead,
    ResponseHead,
    body_bytes,
    request_head_bytes,
    response_head_bytes,
)
from swath.fetch.egress.forward_proxy.upstream import Streams, run_until_one_ends
from swath.fetch.proxies.route import Route
from swath.fetch.url import canonical, origin_of

__all__ = ["BrowserConnection", "PlainRequestForwarder"]

_RESENDABLE: Final = frozenset({b"GET", b"HEAD"})


class _SiteConnection:
    """A connection to a site and the answers on it."""

    def __init__(self, reached: UpstreamConnection, heard: Callable[[int, UpstreamConnection], None]) -> None:
        self.reached = reached
        self.answers = MessageReader(reached.reader, lambda count: heard(count, reached), answers=True)
        self.used = False
        self.spent = False  # nothing else can be said on it


class PlainRequestForwarder:
    """Those of one line."""

    def __init__(
        self, traffic: AttemptTraffic, dialler: EgressDialer, client: asyncio.StreamWriter, alive: Callable[[], None]
    ) -> None:
        self._traffic = traffic
        self._dialler = dialler
        self._client = client
        self._alive = alive
        self._site: _SiteConnection | None = None

    async def close(self) -> None:
        """Lets go of the site."""
        if self._site is not None:
            site, self._site = self._site, None
            await site.reached.close()

    async def pass_on(
        self, ask: RequestHead, body: MessageReader, address: tuple[str, bytes], route: Route | None
    ) -> bool:
        """One request and its answer. Whether the line is good for another. Raises Failed while nothing is answered."""
        site = await self._connected(ask, address[0], route)
        again = site.used
        said = await self._asked(site, ask, body, address)
        if said is None and again and not site.answers.begun:
            # A site may close a line just when it is used again; what has no body can be asked once more.
            await self.close()
            site = await self._connected(ask, address[0], route)
            said = await self._asked(site, ask, None, address)
        if said is None:
            raise Failed(self._no_answer(site.reached))
        return await self._answered(site, ask, said)

    async def _connected(self, ask: RequestHead, url: str, route: Route | None) -> _SiteConnection:
        site = self._site
        if site is not None and not self._fits(site, ask, url, route):
            await self.close()
            site = None
        if site is None:
            reached = await self._dialler.reach(self._traffic, url, route, tunnel=False)
            site = self._site = _SiteConnection(reached, self._heard)
        return site

    @staticmethod
    def _fits(site: _SiteConnection, ask: RequestHead, url: str, route: Route | None) -> bool:
        """Whether a request may go over a connection that was used before: one that can be sent again, to the same."""
        same = site.reached.route is route and authority_of_url(url) == site.reached.authority
        again = ask.method in _RESENDABLE and not ask.has_body
        return same and again and site.answers.is_idle and not site.reached.reader.at_eof()

    async def _asked(
        self, site: _SiteConnection, ask: RequestHead, body: MessageReader | None, address: tuple[str, bytes]
    ) -> ResponseHead | None:
        """Sends it, and waits for the head of the answer. None: there is none."""
        url, rest = address
        reached, host = site.reached, url.removeprefix("http://").removesuffix("/").encode()
        proxied = b"" if reached.trip is None else reached.trip.authorization
        target = rest if reached.trip is None else b"http://" + host + rest
        reached.waits(waits=True)
        site.answers.begun = False
        self._send(reached, request_head_bytes(ask, target, host, proxied))
        sending = asyncio.ensure_future(self._send_body(reached, ask, body))
        try:
            while True:
                said = await site.answers.next()
                if isinstance(said, ResponseHead) and said.status >= 200:
                    break
        except asyncio.IncompleteReadError:
            return None
        except MalformedMessage as garbled:
            await self._garbled(reached, garbled)
            return None
        finally:
            if not sending.done():  # it was answered before all was said
                sending.cancel()
                site.spent = True
            await asyncio.gather(sending, return_exceptions=True)
        reached.waits(waits=False)
        return said

    async def _send_body(self, reached: UpstreamConnection, ask: RequestHead, body: MessageReader | None) -> None:
        while body is not None and (piece := await body.next()) is not None:
            if isinstance(piece, bytes):
                self._send(reached, body_bytes(piece, chunked=ask.is_chunked))
                await reached.writer.drain()
        if ask.is_chunked:
            self._send(reached, body_bytes(b"", chunked=True))

    async def _garbled(self, reached: UpstreamConnection, garbled: MalformedMessage) -> None:
        """What is no HTTP to us may be some to the browser, so it is passed on as it is, and ends the line."""
        if reached.trip is not None:
            reached.trip.failed(reached.authority, "answered something that is no HTTP")
            reached.waits(waits=False)
            return
        chunk = garbled.raw
        while chunk:
            self._client.write(chunk)
            await self._client.drain()
            chunk = await reached.reader.read(_CHUNK_BYTES)
            self._heard(len(chunk), reached)
        raise ConnectionAbortedError

    async def _answered(self, site: _SiteConnection, ask: RequestHead, said: ResponseHead) -> bool:
        reached = site.reached
        self._check_refusal(reached, ask, said)
        bodiless = ask.method == b"HEAD"
        last = said.ends_with_line and not bodiless
        self._client.write(response_head_bytes(said, last=last or not ask.stays))
        try:
            while not bodiless and (piece := await site.answers.next()) is not None:
                if isinstance(piece, bytes):
                    self._client.write(body_bytes(piece, chunked=said.is_chunked))
                    await self._client.drain()
        except (asyncio.IncompleteReadError, MalformedMessage):
            if not last:
                self._traffic.note(reached.authority, self._no_answer(reached))
                raise ConnectionAbortedError from None
        if said.is_chunked and not bodiless:
            self._client.write(body_bytes(b"", chunked=True))
        await self._client.drain()
        site.used = True
        if bodiless or site.spent or not said.stays:
            await self.close()
        return ask.stays and not last

    def _check_refusal(self, reached: UpstreamConnection, ask: RequestHead, said: ResponseHead) -> None:
        if reached.trip is None:
            return
        headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in said.fields)
        body = b"" if said.is_empty and ask.method != b"HEAD" else None
        refusal = reached.trip.read_refusal(said.status, headers, tunnel=False, body=body)
        if refusal is not None:
            raise Failed(refusal)

    def _no_answer(self, reached: UpstreamConnection) -> Failure:
        trip = reached.trip
        reached.waits(waits=False)
        if trip is None:
            return Failure.of(_K.CONNECT, f"the connection was closed early at {reached.authority}")
        return trip.trouble(reached.authority) or Failure.of(_K.PROXY, f"the proxy {trip.name} sent back no answer")

    def _send(self, reached: UpstreamConnection, data: bytes) -> None:
        self._traffic.sent(len(data), reached.trip)
        reached.writer.write(data)

    def _heard(self, count: int, reached: UpstreamConnection) -> None:
        self._alive()
        self._traffic.received(count, reached.trip)


_log = logging.getLogger("swath.browser.exits.exit")
_K = FailureKind
_CHUNK_BYTES: Final = 64 * 1024
_FIRST_BYTES: Final = b"\x15\x16H"  # TLS (an alert or a handshake), or HTTP, as where a WebSocket is opened
_CONNECT_TARGET: Final = re.compile(rb"([^/?#@\s]+):([0-9]{1,5})")
_HTTP_TARGET: Final = re.compile(rb"http://([^/?#]+)(.*)", re.IGNORECASE)


class BrowserConnection:
    """Lives as long as its connection."""

    def __init__(self, traffic: AttemptTraffic, dialler: EgressDialer, idle_seconds: float, client: Streams) -> None:
        self._traffic = traffic
        self._dialler = dialler
        self._idle_seconds = idle_seconds
        self._reader, self._writer = client
        self._bound = asyncio.timeout(idle_seconds)
        self._where = ""  # whose answer is waited for

    async def run(self) -> None:
        """To the end of the connection. Raises OSError and the like when the browser has gone."""
        plain = PlainRequestForwarder(self._traffic, self._dialler, self._writer, self._alive)
        try:
            async with self._bound:
                await self._run(plain)
        except TimeoutError:
            if self._where:
                message = f"nothing came from {self._where} for {self._idle_seconds:g} s"
                self._traffic.note(self._where, Failure.of(_K.TIMEOUT, message))
        finally:
            await plain.close()

    async def _run(self, plain: PlainRequestForwarder) -> None:
        reading = MessageReader(self._reader, lambda _: self._alive(), answers=False)
        stays = True
        while stays:
            self._where = ""
            try:
                ask = await reading.next()
            except MalformedMessage:
                self._say_no(400)
                return
            if isinstance(ask, RequestHead):  # anything else is left of a body that nobody waited for
                stays = await self._pass_on(ask, reading, plain)

    async def _pass_on(self, ask: RequestHead, reading: MessageReader, plain: PlainRequestForwarder) -> bool:
        """One request, or the tunnel. Whether the line is good for another."""
        self._traffic.requests += 1
        try:
            url, rest = _requested_url(ask)
            self._where = authority_of_url(url)
            route = self._dialler.route(self._traffic, url)
            if route is not None:
                route.meter.requests += 1
            if ask.method != b"CONNECT":
                return await plain.pass_on(ask, reading, (url, rest), route)
            await self._tunnel(ask, await self._dialler.reach(self._traffic, url, route, tunnel=True))
        except Failed as failed:
            self._refused(failed.failure)
        except (OSError, EOFError):
            raise
        except Exception:  # noqa: BLE001 nobody else sees this task: the browser is told, and the log
            _log.exception("an exit failed on the way to %s", self._where)
            self._refused(Failure.of(_K.INTERNAL, f"the exit failed on the way to {self._where}"))
        return False

    # -- tunnels -------------------------------------------------------------------------------------------------------

    async def _tunnel(self, ask: RequestHead, reached: UpstreamConnection) -> None:
        async with reached:
            self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await run_until_one_ends(self._up(ask.left_over, reached), self._down(reached, self._traffic.sent_bytes))

    async def _up(self, chunk: bytes, reached: UpstreamConnection) -> None:
        chunk = chunk or await self._reader.read(_CHUNK_BYTES)
        while chunk:
            self._alive()
            self._traffic.sent(len(chunk), reached.trip)
            reached.writer.write(chunk)
            await reached.writer.drain()
            chunk = await self._reader.read(_CHUNK_BYTES)
        reached.waits(waits=False)  # the browser hung up: nobody waits any more

    async def _down(self, reached: UpstreamConnection, sent_before: int) -> None:
        begun = False
        while chunk := await _read(reached.reader):
            self._alive()
            if not begun:
                begun, self._where = True, ""
                reached.waits(waits=False)
                if reached.trip is not None and chunk[0] not in _FIRST_BYTES:
                    reached.trip.failed(reached.authority, "answered something that is neither HTTP nor TLS")
            self._traffic.received(len(chunk), reached.trip)
            self._writer.write(chunk)
            await self._writer.drain()
        if not begun and reached.trip is None and self._traffic.sent_bytes > sent_before:
            message = f"the connection was closed early at {reached.authority}"
            self._traffic.note(reached.authority, Failure.of(_K.CONNECT, message))

    # -- answers of our own --------------------------------------------------------------------------------------------

    def _refused(self, failure: Failure) -> None:
        if self._where:
            self._traffic.note(self._where, failure)
        self._say_no(403 if failure.kind in {_K.EGRESS_DENIED, _K.INVALID_INPUT, _K.TOO_LARGE} else 502)

    def _say_no(self, status: int) -> None:
        own = f"{BROWSER_PROXY_HEADER}: {self._traffic.token}\r\nCache-Control: no-store\r\nContent-Length: 0\r\n"
        self._writer.write(f"HTTP/1.1 {status} No\r\n{own}Connection: close\r\n\r\n".encode())

    def _alive(self) -> None:
        self._bound.reschedule(asyncio.get_running_loop().time() + self._idle_seconds)


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Who resets a connection has ended it, like one that closes it."""
    try:
        return await reader.read(_CHUNK_BYTES)
    except OSError:
        return b""


def _requested_url(ask: RequestHead) -> tuple[str, bytes]:
    """The canonical address of what is asked for, as far as the host, and the rest. Raises Failed: invalid_input."""
    found = (_CONNECT_TARGET if ask.method == b"CONNECT" else _HTTP_TARGET).fullmatch(ask.target)
    if found is None:
        raise Failed(Failure.of(_K.INVALID_INPUT, "the browser asked for something that is no web address"))
    if ask.method != b"CONNECT":
        url, rest = f"http://{found[1].decode('latin-1')}/", found[2]
    else:  # a tunnel says no scheme; that of its port, so that the usual one needs no spelling
        scheme = "http" if found[2] == b"80" else "https"
        url, rest = f"{scheme}://{ask.target.decode('latin-1')}/", b""
    return f"{origin_of(canonical(url))}/", rest if rest.startswith(b"/") else b"/" + rest

"""Exit line: one connection from the browser: a tunnel (all that is TLS, and WebSockets), or plain requests.

Before: exits.py has accepted it. After: exit_plain.py for requests without TLS, exit_dial.py for the way on.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Final

from swath.browser.exits.dial import Dialler, Reached, authority_of
from swath.browser.exits.exit import EXIT_HEADER
from swath.browser.exits.plain import PlainRequests
from swath.browser.exits.traffic import Traffic
from swath.browser.exits.wire import Ask, Garbled, Reading
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.address import canonical, origin_of
from swath.web.relay import until_one_ends
from swath.web.upstream import Streams

__all__ = ["ExitLine"]

_log = logging.getLogger("swath.browser.exits.exit")
_K = FailureKind
_CHUNK_BYTES: Final = 64 * 1024
_BEGINNINGS: Final = b"\x15\x16H"  # TLS (an alert or a handshake), or HTTP, as where a WebSocket is opened
_TUNNEL: Final = re.compile(rb"([^/?#@\s]+):([0-9]{1,5})")
_PLAIN: Final = re.compile(rb"http://([^/?#]+)(.*)", re.IGNORECASE)


class ExitLine:
    """Lives as long as its connection."""

    def __init__(self, traffic: Traffic, dialler: Dialler, idle_seconds: float, client: Streams) -> None:
        self._traffic = traffic
        self._dialler = dialler
        self._idle_seconds = idle_seconds
        self._reader, self._writer = client
        self._bound = asyncio.timeout(idle_seconds)
        self._where = ""  # whose answer is waited for

    async def run(self) -> None:
        """To the end of the connection. Raises OSError and the like when the browser has gone."""
        plain = PlainRequests(self._traffic, self._dialler, self._writer, self._alive)
        try:
            async with self._bound:
                await self._run(plain)
        except TimeoutError:
            if self._where:
                message = f"nothing came from {self._where} for {self._idle_seconds:g} s"
                self._traffic.note(self._where, Failure.of(_K.TIMEOUT, message))
        finally:
            await plain.close()

    async def _run(self, plain: PlainRequests) -> None:
        reading = Reading(self._reader, lambda _: self._alive(), answers=False)
        stays = True
        while stays:
            self._where = ""
            try:
                ask = await reading.next()
            except Garbled:
                self._say_no(400)
                return
            if isinstance(ask, Ask):  # anything else is left of a body that nobody waited for
                stays = await self._pass_on(ask, reading, plain)

    async def _pass_on(self, ask: Ask, reading: Reading, plain: PlainRequests) -> bool:
        """One request, or the tunnel. Whether the line is good for another."""
        self._traffic.requests += 1
        try:
            url, rest = _address(ask)
            self._where = authority_of(url)
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

    async def _tunnel(self, ask: Ask, reached: Reached) -> None:
        async with reached:
            self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await until_one_ends(self._up(ask.left_over, reached), self._down(reached, self._traffic.sent_bytes))

    async def _up(self, chunk: bytes, reached: Reached) -> None:
        chunk = chunk or await self._reader.read(_CHUNK_BYTES)
        while chunk:
            self._alive()
            self._traffic.sent(len(chunk), reached.trip)
            reached.writer.write(chunk)
            await reached.writer.drain()
            chunk = await self._reader.read(_CHUNK_BYTES)
        reached.waits(waits=False)  # the browser hung up: nobody waits any more

    async def _down(self, reached: Reached, sent_before: int) -> None:
        begun = False
        while chunk := await _read(reached.reader):
            self._alive()
            if not begun:
                begun, self._where = True, ""
                reached.waits(waits=False)
                if reached.trip is not None and chunk[0] not in _BEGINNINGS:
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
        own = f"{EXIT_HEADER}: {self._traffic.token}\r\nCache-Control: no-store\r\nContent-Length: 0\r\n"
        self._writer.write(f"HTTP/1.1 {status} No\r\n{own}Connection: close\r\n\r\n".encode())

    def _alive(self) -> None:
        self._bound.reschedule(asyncio.get_running_loop().time() + self._idle_seconds)


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Who resets a connection has ended it, like one that closes it."""
    try:
        return await reader.read(_CHUNK_BYTES)
    except OSError:
        return b""


def _address(ask: Ask) -> tuple[str, bytes]:
    """The canonical address of what is asked for, as far as the host, and the rest. Raises Failed: invalid_input."""
    found = (_TUNNEL if ask.method == b"CONNECT" else _PLAIN).fullmatch(ask.target)
    if found is None:
        raise Failed(Failure.of(_K.INVALID_INPUT, "the browser asked for something that is no web address"))
    if ask.method != b"CONNECT":
        url, rest = f"http://{found[1].decode('latin-1')}/", found[2]
    else:  # a tunnel says no scheme; that of its port, so that the usual one needs no spelling
        scheme = "http" if found[2] == b"80" else "https"
        url, rest = f"{scheme}://{ask.target.decode('latin-1')}/", b""
    return f"{origin_of(canonical(url))}/", rest if rest.startswith(b"/") else b"/" + rest

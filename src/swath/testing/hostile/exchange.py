"""One request as a behaviour sees it: what was asked, and a wire to put any bytes on. Made by site.py."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final
from urllib.parse import parse_qs, urlsplit

import msgspec

__all__ = ["TICK_SECONDS", "Exchange", "Places", "Wire", "head", "html", "whole"]

TICK_SECONDS: Final = 1.0  # between the bytes of a server that drips


class Places(msgspec.Struct, frozen=True):
    """host:port of the site itself, and of a port on the same host that nobody must reach."""

    site: str
    canary: str


Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Exchange:
    """Each method raises ConnectionError when the client has gone, which ends the behaviour."""

    def __init__(self, wire: Wire, places: Places, target: str = "/", fields: str = "", stream: int = 0) -> None:
        self._reader, self._writer = wire
        self.places = places
        self.target = target
        self.fields = fields  # the header lines of the request, as they came
        self.stream = stream  # of HTTP/2; 0 for HTTP/1.1
        self.keep_open = False  # set by a behaviour that wants another request on this connection

    @property
    def number(self) -> int:
        """The `n` of the address, from 0; for behaviours that go on from request to request."""
        return int(parse_qs(urlsplit(self.target).query).get("n", ["0"])[0])

    async def send(self, raw: bytes) -> None:
        """Puts bytes on the wire, no faster than the client takes them."""
        if self._writer.is_closing():
            raise ConnectionResetError("the client has gone")
        self._writer.write(raw)
        await self._writer.drain()

    async def drip(self, raw: bytes) -> None:
        """The same at one byte a tick."""
        for start in range(len(raw)):
            await self.send(raw[start : start + 1])
            await asyncio.sleep(TICK_SECONDS)

    async def repeat(self, raw: bytes, times: int | None = None) -> None:
        """The same bytes again and again, for ever by default."""
        sent = 0
        while times is None or sent < times:
            await self.send(raw)
            sent += 1
            await asyncio.sleep(0)  # a client in the same process gets its turn

    async def hold(self) -> None:
        """Does nothing until the client gives up or the site is stopped."""
        if self.stream:  # somebody else reads, and cancels us when there is nothing more to read
            await asyncio.Event().wait()
        while await self._reader.read(0x10000):
            pass

    def close(self) -> None:
        """Ends the connection in good order, when what was sent has gone."""
        self._writer.close()

    def reset(self) -> None:
        """Cuts the connection hard, so that the client sees a reset instead of an end."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


def head(*fields: bytes, status: bytes = b"200 OK") -> bytes:
    """A status line and header lines, and the empty line after them."""
    return b"\r\n".join([b"HTTP/1.1 " + status, *fields, b"", b""])


def whole(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    """A whole answer with an honest length."""
    return head(b"Content-Length: %d" % len(body), b"Connection: close", *fields, status=status) + body


def html(text: str) -> bytes:
    """A small page."""
    return f"<!doctype html><title>hostile</title><h1>{text}</h1>".encode()

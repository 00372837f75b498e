"""Relay: bytes through the gateway, one way each, counted; and the heads of requests and answers that it must read.

Used by gateway.py, which knows between whom.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from swath.web.trip import Line, Trip

__all__ = [
    "HEAD_BYTES",
    "Head",
    "authority_of",
    "closed",
    "pass_back",
    "pass_on",
    "pass_requests",
    "read_head",
    "token_of",
    "until_one_ends",
]

HEAD_BYTES: Final = 256 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_GOODBYE_SECONDS: Final = 1.0
_TLS_RECORDS: Final = b"\x15\x16"  # an alert or a handshake: what an answer through a tunnel begins with
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-9])\d\d[ \r\n]")
_LEAST_STATUS_LINE: Final = len(b"HTTP/1.1 200\n")
_HEAD_END: Final = re.compile(rb"\n\r?\n")


class Head(NamedTuple):
    """The first line of a request or an answer, and its fields."""

    first: bytes
    fields: list[tuple[bytes, bytes]]  # lower-case name, the whole line

    def value(self, name: bytes) -> bytes:
        """Of the first field of that name; empty without one."""
        found = next((line for known, line in self.fields if known == name), b"")
        return found.partition(b":")[2].strip()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trip: Trip) -> None:
    """What the client sends through a tunnel, as it is."""
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        trip.meter.sent_bytes += len(chunk)
        await writer.drain()


async def pass_requests(
    head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trip: Trip, line: Line
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
        if authority_of(head) != line.authority or token_of(head) != trip.token:
            return


async def pass_back(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, trip: Trip, line: Line, *, tunnel: bool
) -> None:
    """What comes back. Until it begins as an answer of the site must, whatever happens is the proxy's doing."""
    begun = b""
    while chunk := await _read(reader):
        if line.waiting:
            begun += chunk
            begins = _begins_tls(begun) if tunnel else _begins_answer(begun)
            if begins is False:
                trip.failed(line.authority, "answered something that is neither HTTP nor TLS")
            if begins is not None:
                begun, line.waiting = b"", False
        trip.meter.received_bytes += len(chunk)
        writer.write(chunk)
        await writer.drain()


def _begins_tls(begun: bytes) -> bool:
    return begun[0] in _TLS_RECORDS


def _begins_answer(begun: bytes) -> bool | None:
    """Whether a whole head of an answer has come; None while it may still come. Interim heads are none."""
    while True:
        if len(begun) < _LEAST_STATUS_LINE and b"\n" not in begun:
            return None if b"HTTP/1.".startswith(begun[:7]) else False
        status = _STATUS_LINE.match(begun)
        if status is None or len(begun) > HEAD_BYTES:
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


async def until_one_ends(*ways: Awaitable[None]) -> None:
    """Runs both ways until one ends, then ends the other: neither is of use alone."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Sends what is left, for a moment, and closes."""
    with suppress(OSError, TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await writer.drain()
    writer.close()
    with suppress(OSError, TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            await writer.wait_closed()


# -- heads -------------------------------------------------------------------------------------------------------------


async def read_head(reader: asyncio.StreamReader) -> Head:
    """Raises IncompleteReadError or LimitOverrunError when none comes."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    return Head(first, [(raw.partition(b":")[0].strip().lower(), raw) for raw in lines])


def token_of(head: Head) -> str:
    """Who the client says it is; empty when it does not."""
    kind, _, value = head.value(b"proxy-authorization").partition(b" ")
    if kind.lower() != b"basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).partition(b":")[0].decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def authority_of(head: Head) -> str:
    """`host:port` of what is asked for."""
    words = head.first.decode("latin-1").split(" ")
    if len(words) != 3:
        return ""
    if words[0] == "CONNECT":
        return words[1]
    parts = urlsplit(words[1])
    return parts.netloc if parts.netloc.rpartition(":")[2].isdigit() else f"{parts.netloc}:80"

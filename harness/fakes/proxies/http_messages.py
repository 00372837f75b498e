"""The little HTTP/1.1 that the proxies under test speak: heads, whole requests, and bytes between two connections."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

__all__ = ["ProxyRequest", "read_request", "relay", "request_bytes"]


class ProxyRequest(NamedTuple):
    """One request, whole. Header names are lower-case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> ProxyRequest:
    """Raises IncompleteReadError when the other side has hung up."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")[:-4].split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return ProxyRequest(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))


def request_bytes(status: int, reason: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """An answer."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join([*lines, f"Content-Length: {len(body)}"]) + "\r\n\r\n").encode("latin-1") + body


async def relay(
    one: tuple[asyncio.StreamReader, asyncio.StreamWriter], other: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Bytes both ways until one side ends."""
    ways = [asyncio.ensure_future(_copied(one[0], other[1])), asyncio.ensure_future(_copied(other[0], one[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for writer in (one[1], other[1]):
            writer.close()
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()

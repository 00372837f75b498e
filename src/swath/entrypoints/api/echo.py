"""The echo that `example-http` needs, on a listener of its own beside the API's.

Served where SWATH_DEMO_URL says, if that is on this very machine and nobody else listens there. Often that is
`swath demo-site` or another controller, which serve it too; if it is somebody else, people are told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from swath.entrypoints.api.doorkeeper import is_loopback
from swath.testing.demo_county.connection import Connection
from swath.testing.demo_county.echo import Echo

__all__ = ["serving_echo"]

ASK_SECONDS: Final = 2.0
_MOST_BYTES: Final = 4_096  # of an answer

_log = logging.getLogger("swath.api")


@asynccontextmanager
async def serving_echo(demo_url: str) -> AsyncIterator[bool]:
    """Whether it is served from here, while the context lasts."""
    parts = urlsplit(demo_url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme != "http" or port is None or not is_loopback(host):
        yield False
        return
    connections: set[Connection] = set()
    echo = Echo()
    try:
        server = await asyncio.get_running_loop().create_server(lambda: Connection(echo, connections), host, port)
    except OSError as error:
        if await _echoes(host, port):
            _log.info("the echo of the demo site is served by another process")
        else:
            told = "nobody serves the echo that example-http needs, at %s: %s; let SWATH_DEMO_URL name a free port"
            _log.warning(told, demo_url, error.strerror)
        yield False
        return
    try:
        yield True
    finally:
        server.close()
        for connection in tuple(connections):
            connection.abort()


async def _echoes(host: str, port: int) -> bool:
    """Whether the one who listens there already is an echo, too."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(ASK_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(f"GET /echo HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            head, _, body = (await reader.read(_MOST_BYTES)).partition(b"\r\n\r\n")
            body = body or await reader.read(_MOST_BYTES)
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.close()
    return head.startswith(b"HTTP/1.1 200 ") and body.startswith(b'{"method": "GET"')

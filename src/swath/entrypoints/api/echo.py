"""The echo that `example-http` needs, on a listener of its own beside the API's.

Served where SWATH_DEMO_URL says, if that is on this very machine and nobody else listens there. Often that is
`swath demo-site` or another controller, which serve it too; if it is somebody else, people are told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from swath.entrypoints.api.doorkeeper import is_loopback
from swath.testing.demo_county.connection import Connection
from swath.testing.demo_county.echo import Echo
from swath.web.demo_proof import DemoProof

__all__ = ["serving_echo"]

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
        if await DemoProof(host, port).holds():
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

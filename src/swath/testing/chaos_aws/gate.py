"""Gate: a forwarder in front of a server that can refuse connections, or swallow what is sent and never answer.

Used by outages.py for a store that is down. S3 has S3Faults, which speaks HTTP and can answer 503.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from swath.testing.proxies.listener import Listener

__all__ = ["Gate", "Shut"]

_CHUNK_BYTES: Final = 65_536


class Shut(StrEnum):
    """How a server is away."""

    REFUSES = "refuses"  # nobody listens, and what was open is cut
    SWALLOWS = "swallows"  # connections are there, and nothing ever comes back


class Gate(Listener):
    """Forwards bytes both ways while it is open."""

    def __init__(self, upstream_url: str) -> None:
        super().__init__()
        self._upstream = urlsplit(upstream_url)
        self._swallows = False

    async def shut(self, how: Shut) -> None:
        """From now on nobody gets through."""
        if how is Shut.SWALLOWS:
            self._swallows = True
        else:
            await self.stop()

    async def open_again(self) -> None:
        """Lets everybody through again, on the same port; what was swallowed is cut, and never comes."""
        await self.stop()
        self._swallows = False
        await self.start()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, there and back, until either side ends it."""
        up_reader, up_writer = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        try:
            ways = [asyncio.create_task(self._carry(*way)) for way in ((reader, up_writer), (up_reader, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            up_writer.transport.abort()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(_CHUNK_BYTES):
            if not self._swallows:
                sink.write(data)
                await sink.drain()

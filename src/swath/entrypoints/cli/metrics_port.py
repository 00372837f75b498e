"""The port of a worker: `GET /metrics` for Prometheus and `GET /live` for whoever restarts containers (W5, O2).

It is served by the worker's own event loop: one that stands still does not answer, which is what a probe wants to know.
Small, so that a worker need not import the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from swath.domain.errors import UserError
from swath.observe.figures import FIGURES

__all__ = ["MetricsPlace", "serve_metrics"]

PATIENCE_SECONDS: Final = 5.0
MOST_AT_ONCE: Final = 50  # connections; the one that has waited longest makes room, so that a probe always gets in
_MOST_LINE: Final = 4_096
_MOST_HEADERS: Final = 100
_TEXT: Final = "text/plain; charset=utf-8"


class MetricsPlace(NamedTuple):
    """Where to listen. Without a port: nowhere; 0 is a free one."""

    host: str = "127.0.0.1"
    port: int | None = None


@asynccontextmanager
async def serve_metrics(place: MetricsPlace) -> AsyncIterator[int | None]:
    """Serves them while the block lasts, and gives the port. Raises UserError when it cannot be had."""
    if place.port is None:
        yield None
        return
    waiting: dict[asyncio.StreamWriter, None] = {}
    try:
        server = await asyncio.start_server(partial(_let_in, waiting), place.host, place.port, limit=_MOST_LINE)
    except OSError as error:
        told = f"--metrics-port: cannot listen on {place.host}:{place.port}"
        raise UserError(f"{told}: {error.strerror or error}; choose another") from None
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _let_in(
    waiting: dict[asyncio.StreamWriter, None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    if len(waiting) >= MOST_AT_ONCE:
        oldest = next(iter(waiting))
        del waiting[oldest]
        oldest.transport.abort()
    waiting[writer] = None
    try:
        await _answer(reader, writer)
    finally:
        waiting.pop(writer, None)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request, then the end."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            method, path = await _asked(reader)
            status, kind, body = _told(method, path)
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + (b"" if method == "HEAD" else body))
            await writer.drain()
    except (TimeoutError, OSError, ValueError):  # too slow, gone, or no HTTP
        pass
    finally:
        writer.close()


async def _asked(reader: asyncio.StreamReader) -> tuple[str, str]:
    method, path, _ = (await reader.readline()).decode("latin-1").split(" ", 2)
    for _ in range(_MOST_HEADERS):
        if (await reader.readline()).strip() == b"":
            return method, path.partition("?")[0]
    raise ValueError("too many headers")


def _told(method: str, path: str) -> tuple[str, str, bytes]:
    if method not in ("GET", "HEAD"):
        return "405 Method Not Allowed", _TEXT, b"only GET\n"
    if path == "/live":
        return "200 OK", _TEXT, b"alive\n"
    if path == "/metrics":
        from swath.observe.metrics import CONTENT_TYPE, exposition

        return "200 OK", CONTENT_TYPE, exposition(FIGURES)
    return "404 Not Found", _TEXT, b"there are /metrics and /live\n"

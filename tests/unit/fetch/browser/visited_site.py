"""A site of our own behind a browser: a table of answers under any name, served on the port that the context has as its
proxy. So a page of `http://site.example/` is one of ours, and nothing ever leaves this machine.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

HOST = "http://site.example"

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


def html(body: str, *headers: str, status: str = "200 OK", kind: str = "text/html; charset=utf-8") -> bytes:
    """A whole answer. A body that is a piece of a page becomes one."""
    content = body.encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(content)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def moved(to: str, status: str = "302 Found") -> bytes:
    return f"HTTP/1.1 {status}\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


class Asked(msgspec.Struct, frozen=True):
    method: str
    path: str
    head: str
    body: bytes


class VisitedSite:
    """`answers` by path (with the query, or without); what is not there is a 404. `asked` is what came, in order, but
    for the icon of the site, which browsers ask for when they like."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[Asked] = []
        self.port = 0

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked if asked.method != "CONNECT"]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = re.search(r"(?im)^content-length: (\d+)", head)
            body = await reader.readexactly(int(length[1])) if length else b""
            method, url, _ = head.split(" ", 2)
            path = "/" + url.partition("://")[2].partition("/")[2] if "://" in url else url
            if path != "/favicon.ico":
                self.asked.append(Asked(method, path, head, body))
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n")
                continue
            found = self.answers.get(path) or self.answers.get(path.partition("?")[0])
            if found is None or isinstance(found, bytes):
                writer.write(found or html("<h1>Not here</h1>", status="404 Not Found"))
            else:
                await found(writer)
            await writer.drain()


@asynccontextmanager
async def visited_site() -> AsyncIterator[VisitedSite]:
    site = VisitedSite()
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await site.serve(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

"""What the tests of exits share: an exit with its guard, a raw client of it, and sites that note what reached them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from harness.fakes.listener import Listener
from swath.domain.errors import Failed
from swath.domain.failure import Failure
from swath.fetch.egress.forward_proxy.browser_proxy import BrowserProxies, BrowserProxyLimits, ContextForwardProxy
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.proxies.route import Route
from tests.support.clock import FakeClock
from tests.unit.fetch.http.sites import TableResolver

PLENTY = 50_000_000


class StraightWay:
    """Implements Way: straight, or by one route, or none."""

    def __init__(self, route: Route | None = None, failure: Failure | None = None) -> None:
        self.chosen, self.failure = route, failure
        self.asked: list[str] = []

    def route(self, url: str) -> Route | None:
        self.asked.append(url)
        if self.failure is not None:
            raise Failed(self.failure)
        return self.chosen


class RawSite(Listener):
    """Answers each request in turn with the next of `answers`, the last one again and again; keeps what it heard."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__()
        self.answers = answers or (answer(b"<p>hello</p>"),)
        self.heard = b""
        self.connections = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = 0
        while chunk := await reader.read(65_536):
            self.heard += chunk
            if chunk.endswith((b"\r\n\r\n", b"end", b"0\r\n\r\n")):
                said = self.answers[min(number, len(self.answers) - 1)]
                number += 1
                writer.write(said)
                await writer.drain()
                if b"Connection: close" in said or (b"Content-Length" not in said and b"chunked" not in said):
                    return


def answer(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def exits(
    allowed: Collection[str] = (),
    names: dict[str, list[str] | Failure] | None = None,
    limits: BrowserProxyLimits | None = None,
    guard: type[EgressGuard] = EgressGuard,
) -> AsyncIterator[BrowserProxies]:
    made = BrowserProxies(guard(TableResolver(names or {}), FakeClock(), allow_private=allowed), limits)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def serving(
    allowed: Collection[str] = (),
    way: StraightWay | None = None,
    names: dict[str, list[str] | Failure] | None = None,
    limits: BrowserProxyLimits | None = None,
    most_bytes: int = PLENTY,
) -> AsyncIterator[ContextForwardProxy]:
    """One exit that serves an attempt."""
    async with exits(allowed, names, limits) as made:
        exit_ = await made.open()
        exit_.serve(way or StraightWay(), most_bytes)
        yield exit_


async def said(port: int, *messages: bytes, enough: bytes = b"") -> bytes:
    """What a client is answered until the connection ends, or until it has `enough`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        async with asyncio.timeout(60):
            for message in messages:
                writer.write(message)
            while chunk := await reader.read(65_536):
                got += chunk
                if enough and got.endswith(enough):
                    break
    except ConnectionError:
        pass
    finally:
        writer.close()
    return got


def get(url: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {url} HTTP/1.1", "Host: whatever", *headers]).encode() + b"\r\n\r\n"


def connect(authority: str) -> bytes:
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()

"""Measures how many detail pages a second the demo county serves on one core.

`python -m harness.bench.site_load` starts the site in a process of its own, on a core of its own where there are
two.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection as Pipe
from typing import cast
from urllib.parse import urlencode, urlsplit

from swath.demo.county.control import FaultSettings
from swath.demo.county.http import COOKIE
from swath.demo.county.pages import AGREE_BUTTON, TERMS_VERSION
from swath.demo.county.parcels import exists
from swath.demo.county.server import fastest_loop, serve_forever

START_SECONDS = 30.0
ANSWER_SECONDS = 30.0
_MARKER = b"<h1>Parcel detail</h1>"


@dataclass(slots=True)
class Load:
    """What was measured over one run; the visitors add to it as they go."""

    pages: int = 0
    page_bytes: int = 0
    errors: int = 0
    seconds: float = 0.0
    server_cpu_seconds: float = 0.0

    def report(self) -> str:
        pages, seconds = max(self.pages, 1), max(self.seconds, 1e-9)
        return (
            f"{self.pages / seconds:,.0f} detail pages/s"
            f" ({self.pages:,} pages of {self.page_bytes / pages:,.0f} bytes in {seconds:.1f} s)\n"
            f"{1_000 * self.server_cpu_seconds / pages:.3f} ms CPU per page in the server"
            f" (it had {self.server_cpu_seconds / seconds:.0%} of a core;"
            f" a whole one would serve {self.pages / max(self.server_cpu_seconds, 1e-9):,.0f} pages/s)\n"
            f"{self.errors:,} errors"
        )


class Visitor(asyncio.Protocol):
    """A client of one connection that does as little as possible per page, so that the server is what is measured."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the site closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or self._answer is None or self._answer.done():
            return
        length = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
        if len(body) >= int(length):
            self._answer.set_result(self._received)

    async def ask(self, request: bytes) -> bytes:
        """Send a request, whole, and return the answer, whole; OSError if the connection is or gets lost."""
        if self._transport is None:
            raise ConnectionResetError("the connection is closed")
        self._received = b""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def leave(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def measure(base_url: str, *, seconds: float, connections: int) -> Load:
    """Load a running site for that long and return what came of it."""
    load = Load()
    parcel_ids = existing_parcels()
    visitors = [await _visitor(base_url) for _ in range(connections)]
    cookies = [await _agree(visitor) for visitor in visitors]
    clerk = await _visitor(base_url)
    cpu_before, started = await _cpu_seconds(clerk), time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for visitor, cookie in zip(visitors, cookies, strict=True):
            tasks.create_task(_get_pages(visitor, cookie, parcel_ids, load, until=started + seconds))
    load.seconds = time.monotonic() - started
    load.server_cpu_seconds = await _cpu_seconds(clerk) - cpu_before
    for visitor in (*visitors, clerk):
        visitor.leave()
    return load


def existing_parcels() -> Iterator[str]:
    """Yield numbers of parcels that exist, spread over the county, without end."""
    for number in count():
        digits = f"{number * 7_919 % 100_000_000:08d}"
        parcel_id = f"{digits[:3]}-{digits[3:5]}-{digits[5:]}"
        if exists(parcel_id):
            yield parcel_id


async def _visitor(base_url: str) -> Visitor:
    address = urlsplit(base_url)
    host, port = address.hostname or "127.0.0.1", address.port or 80
    _, visitor = await asyncio.get_running_loop().create_connection(Visitor, host, port)
    return visitor


async def _agree(visitor: Visitor) -> bytes:
    """Accept the disclaimer and return the session cookie."""
    form = urlencode({"next": "/search", "terms_version": TERMS_VERSION, AGREE_BUTTON: "I agree"}).encode()
    head = b"POST /disclaimer HTTP/1.1\r\nHost: demo\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    answer = await visitor.ask(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(form), form))
    name = f"Set-Cookie: {COOKIE}=".encode()
    return answer.partition(name)[2].partition(b";")[0]


async def _get_pages(visitor: Visitor, cookie: bytes, parcel_ids: Iterator[str], load: Load, *, until: float) -> None:
    headers = b" HTTP/1.1\r\nHost: demo\r\nAccept: text/html\r\nUser-Agent: load\r\nCookie: %b=%b\r\n\r\n"
    headers %= (COOKIE.encode(), cookie)
    while time.monotonic() < until:
        request = b"GET /parcel/%b%b" % (next(parcel_ids).encode(), headers)
        try:
            answer = await visitor.ask(request)
        except OSError:
            load.errors += 1
            return
        if _MARKER in answer:
            load.pages += 1
            load.page_bytes += len(answer)
        else:
            load.errors += 1


async def _cpu_seconds(clerk: Visitor) -> float:
    answer = await clerk.ask(b"GET /_site/counters HTTP/1.1\r\nHost: demo\r\n\r\n")
    return float(json.loads(answer.partition(b"\r\n\r\n")[2])["cpu_seconds"])


def _pin_to(core: int | None) -> None:
    if core is not None and sys.platform == "linux":
        os.sched_setaffinity(0, {core})


def _two_cores() -> tuple[int | None, int | None]:
    """Return a core for the server and one for the visitors, or none where they cannot have one each."""
    cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
    return (cores[0], cores[1]) if len(cores) > 1 else (None, None)


def _serve(core: int | None, pipe: Pipe) -> None:
    _pin_to(core)
    serve_forever("127.0.0.1", 0, FaultSettings(), pipe.send)


def main() -> int:
    """Run site and visitors, print the report; the exit code is 1 when there were errors."""
    parser = argparse.ArgumentParser(description="Load the demo county and print how many pages a second it serves.")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=16)
    arguments = parser.parse_args()
    server_core, visitor_core = _two_cores()
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    server = processes.Process(target=_serve, args=(server_core, theirs), daemon=True)
    server.start()
    try:
        if not ours.poll(START_SECONDS):
            print("the site did not start", file=sys.stderr)
            return 1
        _pin_to(visitor_core)
        with asyncio.Runner(loop_factory=fastest_loop) as runner:
            load = runner.run(measure(ours.recv(), seconds=arguments.seconds, connections=arguments.connections))
    finally:
        server.terminate()
        server.join()
    print(load.report())
    return 1 if load.errors or not load.pages else 0


if __name__ == "__main__":
    sys.exit(main())

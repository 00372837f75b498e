"""The detection page as a running server: hands out the page, keeps the headers of every request, takes the report.

A browser opens `address`, presses the button, and the page sends what it saw; `report` waits for it.
"""

from __future__ import annotations

import asyncio
import itertools
from importlib.resources import files
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

from harness.fakes.detection_page.facts import Facts, Headers

__all__ = ["DetectionSite"]

_PAGES: Final = {
    "/": ("page.html", "text/html"),
    "/child": ("child.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/window.js": ("window.js", "text/javascript"),
    "/realm.js": ("realm.js", "text/javascript"),
    "/worker.js": ("worker.js", "text/javascript"),
    "/service.js": ("service.js", "text/javascript"),
}
_HINTS: Final = "Sec-CH-UA-Full-Version-List, Sec-CH-UA-Platform-Version, Sec-CH-UA-Arch, Sec-CH-UA-Bitness"
_LARGEST_REPORT_BYTES: Final = 1 << 20


class DetectionSite:
    """Two origins on loopback, so that a frame can be of another site.

    >>> async with DetectionSite() as site:
    ...     await page.goto(site.address("one")); await page.click("#start"); facts = await site.report("one")
    """

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._arrivals: dict[str, dict[str, Headers]] = {}
        self._reports: dict[str, asyncio.Future[Facts]] = {}
        self._numbers = itertools.count(1)
        self.port = 0

    def address(self, visit: str | None = None, *, itself: bool = False) -> str:
        """Where to send a browser. With `itself` the page looks without being pressed, for a browser without driver."""
        visit = visit or f"visit{next(self._numbers)}"
        url = f"http://127.0.0.1:{self.port}/?visit={visit}&elsewhere=http://localhost:{self.port}"
        return url + "&itself" if itself else url

    async def report(self, visit: str, within_seconds: float = 30) -> Facts:
        """What the page saw, with the headers that the server saw. TimeoutError when it never tells."""
        async with asyncio.timeout(within_seconds):
            return await self._report(visit)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._connections):
            writer.close()
        await self._server.wait_closed()

    def _report(self, visit: str) -> asyncio.Future[Facts]:
        return self._reports.setdefault(visit, asyncio.get_running_loop().create_future())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                target, headers = _parsed(head)
                length = min(int(headers.get("content-length", "0")), _LARGEST_REPORT_BYTES)
                body = await reader.readexactly(length) if length else b""
                writer.write(self._answer(target, headers, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the browser has gone
        finally:
            self._connections.discard(writer)
            writer.close()

    def _answer(self, target: str, headers: Headers, body: bytes) -> bytes:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        visit, realm = query.get("visit", ""), query.get("realm", "window")
        if parts.path == "/report":
            self._take(visit, body)
            return _response("text/plain", b"thanks")
        if parts.path == "/echo":
            return _response("application/json", msgspec.json.encode(headers))
        name, media_type = _PAGES.get(parts.path, ("", ""))
        if not name:
            return _response("text/plain", b"nothing here", "404 Not Found")
        if visit:
            self._arrivals.setdefault(visit, {})[realm] = headers
        return _response(media_type, files(__package__).joinpath(name).read_bytes())

    def _take(self, visit: str, body: bytes) -> None:
        seen = msgspec.json.decode(body, type=Facts)
        whole = msgspec.structs.replace(seen, arrivals=self._arrivals.get(visit, {}))
        if not self._report(visit).done():
            self._report(visit).set_result(whole)


def _parsed(head: str) -> tuple[str, Headers]:
    first, *rest = head.split("\r\n")
    pairs = (line.partition(":") for line in rest if line)
    return first.split(" ")[1], {name.lower(): value.strip() for name, _, value in pairs}


def _response(media_type: str, body: bytes, status: str = "200 OK") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {media_type}; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        f"Accept-CH: {_HINTS}\r\nCache-Control: no-store\r\nAccess-Control-Allow-Origin: *\r\n\r\n"
    )
    return head.encode() + body

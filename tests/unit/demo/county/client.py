"""A plain HTTP client for the tests of the demo county: one connection, and everything it sends is in plain sight."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlencode, urlsplit

from selectolax.lexbor import LexborHTMLParser


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def html(self) -> LexborHTMLParser:
        return LexborHTMLParser(self.body)

    @property
    def location(self) -> str:
        return self.headers["location"]

    def text_of(self, selector: str) -> str:
        node = self.html.css_first(selector)
        assert node is not None, f"no {selector} in {self.body[:2000]!r}"
        return node.text().strip()

    def fields(self, form: str) -> dict[str, str]:
        """Return the hidden fields and selected options of a form, as a browser would send them."""
        inputs = self.html.css(f"{form} input[type=hidden]")
        fields = {node.attributes["name"] or "": node.attributes["value"] or "" for node in inputs}
        for option in self.html.css(f"{form} select option[selected]"):
            assert option.parent is not None
            fields[option.parent.attributes["name"] or ""] = option.attributes["value"] or ""
        return fields


class Client:
    """One connection to the site, with the session cookie it was given."""

    def __init__(self, base_url: str) -> None:
        self._address = urlsplit(base_url)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.cookie = ""

    async def __aenter__(self) -> Self:
        self._streams = await asyncio.open_connection(self._address.hostname, self._address.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()

    async def leave(self) -> None:
        if self._streams is not None:
            writer = self._streams[1]
            self._streams = None
            writer.close()
            with suppress(ConnectionError):  # the site may have cut the line already
                await writer.wait_closed()

    async def get(self, path: str) -> Answer:
        return await self.ask("GET", path)

    async def post(self, path: str, form: dict[str, str]) -> Answer:
        return await self.ask("POST", path, urlencode(form).encode(), "application/x-www-form-urlencoded")

    async def ask(self, method: str, path: str, body: bytes = b"", content_type: str = "") -> Answer:
        await self.send(self.request(method, path, body, content_type))
        return await self.receive(has_body=method != "HEAD")

    def request(self, method: str, path: str, body: bytes = b"", content_type: str = "") -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: demo"]
        if self.cookie:
            lines.append(f"Cookie: other=1; county_session={self.cookie}")
        if content_type:
            lines.append(f"Content-Type: {content_type}")
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    async def send(self, data: bytes) -> None:
        assert self._streams is not None
        self._streams[1].write(data)
        await self._streams[1].drain()

    async def receive(self, *, has_body: bool = True) -> Answer:
        """Read one answer; asyncio.IncompleteReadError if the connection ends instead."""
        assert self._streams is not None
        reader = self._streams[0]
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        length = int(headers["content-length"]) if has_body else 0
        return Answer(int(head[0].split(" ")[1]), headers, await reader.readexactly(length))

    async def at_end(self) -> bool:
        """Wait for the site to close the connection; False if it sends something instead."""
        assert self._streams is not None
        return await self._streams[0].read(1) == b""

    async def agree(self) -> None:
        """Accept the disclaimer and keep the session cookie."""
        page = await self.get("/disclaimer?next=/search")
        answer = await self.post("/disclaimer", page.fields("#disclaimer") | {"btnAgree": "I agree"})
        self.cookie = answer.headers["set-cookie"].partition("county_session=")[2].partition(";")[0]

    async def search(self, parcel_id: str, **changes: str) -> Answer:
        """Fill in and post the search form; `changes` replace fields of it."""
        form = (await self.get("/search")).fields("#lookup")
        return await self.post("/search", form | {"parcel": parcel_id, "ctl00$cphMain$btnSearch": "Search"} | changes)


async def until(is_true: Callable[[], bool]) -> None:
    """Let the site run until something is true of it."""
    async with asyncio.timeout(60):
        while not is_true():
            await asyncio.sleep(0)

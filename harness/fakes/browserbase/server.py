"""FakeBrowserbase: its REST API and the relay to its browsers, on one port of loopback.

Paths, shapes, limits and refusals are those that are documented; behind every session is a real Chromium, reached by a
WebSocket whose address holds a signing key. Tests may break things: answers to come, browsers, and time.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from harness.fakes.browserbase.sessions import Plan, Refused, Session, Sessions
from harness.fakes.listener import Listener

__all__ = ["FakeBrowserbase"]

_MOST_HEAD: Final = 64 * 1024


class FakeBrowserbase(Listener):
    """`async with FakeBrowserbase() as server`. `asked` are the requests so far, as method and path."""

    def __init__(self, key: str = "bb_test_key", plan: Plan | None = None) -> None:
        super().__init__()
        self.key = key
        self.sessions = Sessions(plan or Plan())
        self.asked: list[str] = []
        self.orders: list[dict[str, Any]] = []
        self._faults: list[Refused] = []
        self._mute = 0

    def refuse_next(self, status: int, times: int = 1, retry_after_seconds: float | None = None) -> None:
        """The next requests get this answer, and nothing is done."""
        self._faults += [Refused(status, "as a test asked for", retry_after_seconds)] * times

    def lose_next_answer(self) -> None:
        """The next request is carried out, and its answer never arrives."""
        self._mute += 1

    async def stop(self) -> None:
        """All browsers end with it."""
        await super().stop()
        await self.sessions.close()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request for each connection, or a line to a browser."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        if headers.get("upgrade", "").lower() == "websocket":
            await self._relay(target, head, reader, writer)
            return
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path = urlsplit(target).path
        self.asked.append(f"{method} {path}")
        try:
            self._let_in(headers)
            status, answer = await self._answer(method, target, json.loads(body) if body else {})
        except Refused as refused:
            told = {"statusCode": refused.status, "message": refused.message}
            _send(writer, refused.status, told, refused.retry_after_seconds)
            return
        if self._mute:
            self._mute -= 1
            writer.transport.abort()
            return
        _send(writer, status, answer)

    def _let_in(self, headers: dict[str, str]) -> None:
        if self._faults:
            raise self._faults.pop(0)
        if headers.get("x-bb-api-key") != self.key:
            raise Refused(401, "Unauthorized")

    async def _answer(self, method: str, target: str, order: dict[str, Any]) -> tuple[int, Any]:
        parts = urlsplit(target)
        match method, parts.path.strip("/").split("/"):
            case "POST", ["v1", "sessions"]:
                self.orders.append(order)
                session = await self.sessions.create(order)
                return 201, session.view() | self._ways_in(session)
            case "GET", ["v1", "sessions"]:
                wanted = parse_qs(parts.query).get("status")
                return 200, [s.view() for s in self.sessions.all.values() if not wanted or s.status in wanted]
            case "GET", ["v1", "sessions", session_id]:
                return 200, self._named(session_id).view()
            case "POST", ["v1", "sessions", session_id]:
                if order.get("status") != "REQUEST_RELEASE":
                    raise Refused(400, "status must be REQUEST_RELEASE")
                session = self._named(session_id)
                await self.sessions.end(session, "COMPLETED")
                return 200, session.view()
        raise Refused(404, "Not Found")

    def _named(self, session_id: str) -> Session:
        session = self.sessions.all.get(session_id)
        if session is None:
            raise Refused(404, "Session not found")
        return session

    def _ways_in(self, session: Session) -> dict[str, str]:
        return {
            "connectUrl": f"ws://127.0.0.1:{self.port}/?signingKey={session.signing_key}",
            "seleniumRemoteUrl": f"http://127.0.0.1:{self.port}/webdriver",
            "signingKey": session.signing_key,
        }

    async def _relay(self, target: str, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        keys = parse_qs(urlsplit(target).query).get("signingKey", [""])
        session = next((s for s in self.sessions.running() if s.signing_key in keys), None)
        if session is None:
            _send(writer, 401, {"statusCode": 401, "message": "Unauthorized"})
            return
        session.lines += 1
        try:
            await _joined(session, head.replace(target, session.chromium.path, 1), reader, writer)
        finally:
            session.lines -= 1
            if not session.chromium.alive:
                await self.sessions.end(session, "ERROR")
            elif not session.keep_alive and not session.lines:
                await self.sessions.end(session, "COMPLETED")


async def _joined(session: Session, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until either side is gone. What is said over it is CDP and none of our business."""
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", session.chromium.port)
    try:
        lines = [line for line in head.split("\r\n") if not line.lower().startswith(("host:", "origin:"))]
        lines.insert(1, f"Host: 127.0.0.1:{session.chromium.port}")
        inner_writer.write("\r\n".join(lines).encode("latin-1"))
        ways = {
            asyncio.ensure_future(_pour(reader, inner_writer)),
            asyncio.ensure_future(_pour(inner_reader, writer)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
    finally:
        inner_writer.transport.abort()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while block := await reader.read(_MOST_HEAD):
        writer.write(block)
        await writer.drain()


def _send(writer: asyncio.StreamWriter, status: int, answer: Any, retry_after_seconds: float | None = None) -> None:
    body = json.dumps(answer).encode()
    wait = "" if retry_after_seconds is None else f"Retry-After: {retry_after_seconds:g}\r\n"
    head = f"HTTP/1.1 {status} .\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{wait}"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)

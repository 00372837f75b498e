"""A forwarding server in front of S3 that injects faults, for clients that have no hook. Deterministic for a seed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from harness.fakes.listener import Listener

__all__ = ["S3Faults", "S3Rates"]

DELAY_SECONDS: Final = (0.5, 6.0)  # of an answer, and of what arrives again
_CODES: Final = {403: "AccessDenied", 503: "SlowDown"}
_XML: Final = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>injected</Message></Error>'


class S3Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The probability of each fault, for one request."""

    slow_down: float = 0.0  # 503, not carried out
    server_error: float = 0.0  # 500; every other one although the request was carried out
    cut_request: float = 0.0  # the connection breaks in the middle of what is sent
    cut_answer: float = 0.0  # … and of what is answered
    withheld: float = 0.0  # carried out, and then the connection breaks without an answer
    delayed: float = 0.0  # carried out, and answered seconds later
    doubled: float = 0.0  # what is put arrives twice, as when a client sends it again, and the second is answered


class _Request(NamedTuple):
    head: bytes
    body: bytes


class S3Faults(Listener):
    """One request for each connection. `down` refuses everything; `injected` counts what was done. `denied` says which
    paths are refused now, by a part of them, with which status: the results of one job, say."""

    def __init__(self, upstream_url: str, seed: int, rates: S3Rates) -> None:
        super().__init__()
        self.rates = rates
        self.down = False
        self.injected: Counter[str] = Counter()
        self.denied: Callable[[], Mapping[str, int]] = dict
        self._upstream = urlsplit(upstream_url)
        self._random = random.Random(seed)  # noqa: S311 faults need no crypto

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one request, or breaks off on the way."""
        if self.down:
            raise ConnectionAbortedError("down")
        request = await _read(reader, writer)
        instead = await self._instead_of(request)
        if instead is not None:
            writer.write(instead)
            return
        answer = await self._carried_out(request)
        if self._happens("cut_answer"):
            start = answer.find(b"\r\n\r\n") + 4
            writer.write(answer[: start + (len(answer) - start) // 2])
            await writer.drain()
            raise ConnectionAbortedError("cut")
        writer.write(answer)

    async def _instead_of(self, request: _Request) -> bytes | None:
        """An answer that is not S3's own; None when the request is to be carried out."""
        if refused := self._refusal(request):
            self.injected["denied"] += 1
            return refused
        if self._happens("slow_down"):
            return _error(503, "SlowDown")
        if self._happens("cut_request"):
            await self._forwarded(request, len(request.body) // 2)
            raise ConnectionAbortedError("cut")
        if self._happens("server_error"):
            if self._random.random() < 0.5:
                await self._forwarded(request)
            return _error(500, "InternalError")
        return None

    async def _carried_out(self, request: _Request) -> bytes:
        """S3's answer, perhaps late; or none, although the request was carried out."""
        if request.head.startswith(b"PUT ") and self._happens("doubled"):
            await self._forwarded(request)
        answer = await self._forwarded(request)
        if self._happens("delayed"):
            await asyncio.sleep(self._random.uniform(*DELAY_SECONDS))
        if self._happens("withheld"):
            raise ConnectionAbortedError("withheld")
        return answer

    def _refusal(self, request: _Request) -> bytes | None:
        target = unquote(request.head.split(b" ", 2)[1].decode("ascii", "replace"))
        for part, status in self.denied().items():
            if part in target:
                return _error(status, _CODES.get(status, "InternalError"))
        return None

    async def _forwarded(self, request: _Request, body_bytes: int | None = None) -> bytes:
        """All of the answer; nothing when only a part of the body was sent."""
        up_reader, up_writer = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        try:
            up_writer.write(request.head + request.body[:body_bytes])
            await up_writer.drain()
            return await up_reader.read() if body_bytes is None else b""
        finally:
            up_writer.transport.abort()

    def _happens(self, kind: str) -> bool:
        rate: float = getattr(self.rates, kind)
        happens = self._random.random() < rate
        self.injected[kind] += happens
        return happens


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Request:
    """The request with the headers that concern one connection replaced; signatures do not cover them."""
    lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    names = [line.partition(b":")[0].strip().lower() for line in lines]
    values = dict(zip(names[1:], (line.partition(b":")[2].strip() for line in lines[1:]), strict=True))
    if b"expect" in values:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if values.get(b"transfer-encoding", b"").lower() == b"chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(values.get(b"content-length", b"0")))
    kept = [line for line, name in zip(lines, names, strict=True) if name not in {b"connection", b"expect"}]
    return _Request(b"\r\n".join([*kept, b"Connection: close"]) + b"\r\n\r\n", body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    """As they came, framing and all."""
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line + await reader.readexactly(size + 2)
        if not size:
            return body


def _error(status: int, code: str) -> bytes:
    body = _XML.format(code=code).encode()
    head = f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body

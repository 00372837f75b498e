"""A plain proxy with faults: it works until it is told not to. For everything that is not any provider's speciality."""

from __future__ import annotations

import asyncio
import base64
import ssl
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from harness.fakes.listener import Listener
from harness.fakes.proxies.http_messages import ProxyRequest, read_request, relay, request_bytes

__all__ = ["Fault", "FaultyProxy"]

GARBAGE: Final = b"\x00\x01\x02 this is no protocol at all\r\n\r\n" * 4


class Fault(StrEnum):
    """What goes wrong."""

    NONE = "none"
    REFUSES_LOGIN = "answers 407"
    FORBIDS = "answers 403"
    FAILS = "answers 502"
    HANGS = "never answers"
    CLOSES = "closes at once"
    GARBAGE = "answers garbage"
    CLOSES_TUNNEL = "closes after CONNECT"
    GARBAGE_IN_TUNNEL = "garbage after CONNECT"
    HANGS_IN_TUNNEL = "silent after CONNECT"
    CUTS_ANSWER = "cuts the answer short"


class FaultyProxy(Listener):
    """Reaches only what `hosts` maps to loopback, and lets in who has the credentials, if there are any."""

    def __init__(self, hosts: dict[str, int], login: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.fault = Fault.NONE
        self.requests: list[str] = []
        self._hosts = hosts
        self._login = login

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request or one tunnel; it keeps nothing alive."""
        asked = await read_request(reader)
        self.requests.append(f"{asked.method} {asked.target}")
        given = base64.b64decode(asked.headers.get("proxy-authorization", "").removeprefix("Basic ")).decode()
        if self._login is not None and given != self._login:
            writer.write(request_bytes(407, "No", {"Proxy-Authenticate": "Basic", "Connection": "close"}))
            return
        if await self._goes_wrong(writer):
            return
        tunnel = asked.method == "CONNECT"
        parts = urlsplit(asked.target)
        authority = asked.target if tunnel else f"{parts.hostname}:{parts.port or 80}"
        site = await asyncio.open_connection("127.0.0.1", self._hosts[authority])
        try:
            if tunnel:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await self._tunnel(reader, writer, site)
            else:
                writer.write(await self._fetched(asked, site))
        finally:
            site[1].close()

    async def _fetched(self, asked: ProxyRequest, site: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
        parts = urlsplit(asked.target)
        lines = [f"{asked.method} {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
        site[1].write(("\r\n".join([*lines, f"Content-Length: {len(asked.body)}"]) + "\r\n\r\n").encode() + asked.body)
        answer = await site[0].read(-1)
        return answer[: len(answer) // 2] if self.fault is Fault.CUTS_ANSWER else answer

    async def _goes_wrong(self, writer: asyncio.StreamWriter) -> bool:
        answers = {Fault.REFUSES_LOGIN: 407, Fault.FORBIDS: 403, Fault.FAILS: 502}
        if self.fault in answers:
            writer.write(request_bytes(answers[self.fault], "No", {"Connection": "close"}))
        elif self.fault is Fault.GARBAGE:
            writer.write(GARBAGE)
        elif self.fault is Fault.HANGS:
            await asyncio.Event().wait()
        return self.fault in {*answers, Fault.GARBAGE, Fault.CLOSES}

    async def _tunnel(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        site: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        await writer.drain()
        if self.fault is Fault.GARBAGE_IN_TUNNEL:
            writer.write(GARBAGE)
        elif self.fault is Fault.HANGS_IN_TUNNEL:
            await asyncio.Event().wait()
        elif self.fault is not Fault.CLOSES_TUNNEL:
            await relay((reader, writer), site)

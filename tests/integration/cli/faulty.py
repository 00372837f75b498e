"""Somebody who listens where a controller should, and answers as a test wants."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

__all__ = ["Faulty", "answering", "envelope"]


class Faulty:
    """`requests` are the heads that came."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
            writer.write(self.answer)
            await writer.drain()
        finally:
            writer.close()


def envelope(status: int, code: str, message: str, details: Any = None, **headers: str) -> bytes:
    """An error as a controller tells it."""
    error = {"code": code, "message": message, "details": details}
    body = json.dumps({"success": False, "data": None, "error": error, "request_id": "r"}).encode()
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def answering(answer: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Faulty]:
    """Listens on loopback."""
    faulty = Faulty(answer)
    server = await asyncio.start_server(faulty.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "http://127.0.0.1" if tls is None else "https://localhost"
    faulty.url = f"{scheme}:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield faulty

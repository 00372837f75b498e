"""A site on loopback that counts visits by cookie: what a session has kept of it can be seen in its page."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def counting_site() -> AsyncIterator[str]:
    """Its address. Every page says how often its visitor was there before, by the cookie `seen`."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        cookies = next((line[8:] for line in head.split("\r\n") if line.lower().startswith("cookie: ")), "")
        pairs = dict(pair.strip().split("=", 1) for pair in cookies.split(";") if "=" in pair)
        seen = int(pairs.get("seen", "0"))
        body = f"<title>{seen}</title><link rel=icon href='data:,'><h1>seen {seen}</h1>".encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nSet-Cookie: seen=%d\r\n"
            b"Content-Length: %d\r\n\r\n" % (seen + 1, len(body)) + body
        )
        await writer.drain()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()

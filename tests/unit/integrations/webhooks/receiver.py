"""Somebody who receives webhooks: a real HTTP server on loopback that keeps what came and answers as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

__all__ = ["Answer", "Received", "Receiver", "receiving", "saying"]

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Received(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def saying(status: int, *lines: str) -> Answer:
    """A short answer with this status and further header lines."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        head = [f"HTTP/1.1 {status} So", "Content-Length: 2", "Connection: close", *lines]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\nok")
        await writer.drain()

    return answer


class Receiver:
    """Gives its answers in turn, and the last one ever after."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.received: list[Received] = []
        self.address = ""
        self.came = asyncio.Condition()

    @property
    def url(self) -> str:
        """Where to post to."""
        return f"http://{self.address}/hooks/t0ken?x=1"

    async def until(self, number: int) -> list[Received]:
        """What came, once it is so many."""
        async with asyncio.timeout(60), self.came:
            await self.came.wait_for(lambda: len(self.received) >= number)
        return self.received

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        try:
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            async with self.came:
                self.received.append(Received(first.split()[1], headers, body))
                self.came.notify_all()
            await self.answers[min(len(self.received), len(self.answers)) - 1](writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def receiving(*answers: Answer) -> AsyncIterator[Receiver]:
    """A receiver that says yes unless it is told otherwise."""
    receiver = Receiver(list(answers) or [saying(200)])
    serving: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(receiver.serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    receiver.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield receiver
    finally:
        server.close()
        for task in tuple(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

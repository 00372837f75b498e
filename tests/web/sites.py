"""Two stand-ins for a web site: raw bytes over loopback for the transport, and a table of answers for the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from swath.domain.policy import Timeouts
from swath.testing.clock import FakeClock
from swath.web.session import WebSession
from swath.web.transport import Headers, Request, Response

Handler = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_site(handler: Handler) -> AsyncIterator[str]:
    """Serves one request per connection: the handler gets its head and writes whatever bytes it likes."""

    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await handler(head, reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def answering(raw: bytes) -> Handler:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)

    return handler


def plain(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), b"Connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class TableTransport:
    """Answers by method and address from a table, and remembers what it was asked."""

    def __init__(self, answers: dict[str, Response | Exception]) -> None:
        self.answers = answers
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self.answers.get(f"{request.method} {request.url}") or self.answers[request.url]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.answers = {}

    def header(self, name: str, number: int = -1) -> str | None:
        """A header of one of the requests, the last by default."""
        return next((value for known, value in self.requests[number].headers if known.lower() == name.lower()), None)


def answer(url: str, body: bytes = b"", status: int = 200, headers: Headers = ()) -> Response:
    return Response(url=url, status=status, headers=headers, body=body, wire_bytes=len(body))


def session(
    answers: dict[str, Response | Exception],
    *,
    base_url: str | None = None,
    clock: FakeClock | None = None,
    before_request: Callable[[], None] = lambda: None,
) -> tuple[WebSession, TableTransport]:
    transport = TableTransport(answers)
    return WebSession(transport, Timeouts(), clock or FakeClock(), base_url, before_request), transport

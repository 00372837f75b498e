"""Stand-ins for a web site: raw bytes over loopback for the transport, and a table of answers for the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

from swath.domain.errors import Failed
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.guard import EgressGuard, EgressTarget
from swath.fetch.egress.resolver import DnsAnswer
from swath.fetch.http.client.limits import ResponseLimits
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.client.transport import DirectTransport
from swath.fetch.http.messages import Headers, Request, RequestGate, Response
from tests.support.clock import FakeClock

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


class TableResolver:
    """Answers from a table of names, and remembers which were asked for. Answers are good for that moment only."""

    def __init__(self, names: dict[str, list[str] | Failure]) -> None:
        self.names = names
        self.asked: list[str] = []

    async def look_up(self, host: str) -> DnsAnswer:
        self.asked.append(host)
        found = self.names.get(host, Failure.of(FailureKind.DNS_UNKNOWN, f"there is no such name as {host}"))
        if isinstance(found, Failure):
            raise Failed(found)
        return DnsAnswer(tuple(ip_address(address) for address in found))


class LoopbackGuard(EgressGuard):
    """Allows the test's own servers, on loopback, whose ports nobody knows beforehand; and names that stand for it."""

    def __init__(self, names: dict[str, list[str] | Failure] | None = None) -> None:
        super().__init__(TableResolver(names or {}), FakeClock())

    async def check_origin(self, origin: str) -> EgressTarget:
        authority = origin.partition("://")[2]
        allowed = [] if ":" not in authority else [authority]
        return await EgressGuard(self._resolver, self._clock, allow_private=allowed).check_origin(origin)


def loopback_transport(
    limits: ResponseLimits | None = None,
    *,
    ca_file: Path | None = None,
    way: type[DirectTransport] = DirectTransport,
    **names: str,
) -> DirectTransport:
    """A transport that reaches the test's own servers, by address or by one of the names."""
    return way(LoopbackGuard({name: [address] for name, address in names.items()}), limits, ca_file)


class WreqAlone(DirectTransport):
    """Speaks by wreq also what it would speak in the event loop."""

    def _is_plain(self, target: EgressTarget, request: Request) -> bool:
        return False


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


def answer(url: str, body: bytes = b"<p>fine", status: int = 200, headers: Headers = ()) -> Response:
    return Response(url=url, status=status, headers=headers, body=body, wire_bytes=len(body))


def session(
    answers: dict[str, Response | Exception],
    *,
    base_url: str | None = None,
    clock: FakeClock | None = None,
    gate: RequestGate | None = None,
) -> tuple[WebSession, TableTransport]:
    transport = TableTransport(answers)
    return WebSession(transport, Timeouts(), clock or FakeClock(), base_url, gate), transport

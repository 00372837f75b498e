"""The hostile site as a running server: a port for each way in, one connection at a time handed to a behaviour.

Before: table.py says what there is. `HostileSite` opens the ports; `address` says where a behaviour is met.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from harness.fakes.hostile_site.behaviour import (
    Authority,
    Behaviour,
    Listening,
    Proof,
    SiteAddresses,
    SiteExchange,
    Wire,
)
from harness.fakes.hostile_site.http2_frames import answer_fine
from harness.fakes.hostile_site.table import BEHAVIOURS, BROWSER_BEHAVIOURS, FINE, MISSING

__all__ = ["HostileSite"]

_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
_ALPN: Final = {Listening.SECURE: ["http/1.1"], Listening.HTTP2: ["h2"]}
_LONGEST_HEAD_BYTES: Final = 4 * 1024 * 1024


class HostileSite:
    """A site on loopback. `ca_pem` is the authority behind its good certificates; `canary_hits` must stay 0.

    >>> async with HostileSite() as site:
    ...     site.address(behaviour("gzip-bomb"))
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._authority = Authority()
        self._servers: list[asyncio.Server] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._ports: dict[str, int] = {}
        self._canary_port = 0
        self.canary_hits = 0

    @property
    def ca_pem(self) -> bytes:
        """What a client must trust to get beyond the handshake of the good ones."""
        return self._authority.pem

    @property
    def places(self) -> list[str]:
        """host:port of all that may be visited; the canary's is not among them."""
        return [f"{self._host}:{port}" for port in self._ports.values()]

    def address(self, behaviour: Behaviour) -> str:
        """Where a behaviour is met."""
        return f"{self._base_url(behaviour)}/{behaviour.name}"

    def fine(self, behaviour: Behaviour) -> str:
        """A good page, by the same door if that leads anywhere."""
        usable = behaviour.proof is Proof.GOOD and behaviour.door is not Listening.BARE
        return self._base_url(behaviour if usable else FINE) + "/fine"

    async def start(self, port: int = 0) -> None:
        """Listens: the plain door on the given port, the others, and the plain one by default, on free ones."""
        canary = await asyncio.start_server(self._accept(self._canary), self._host, 0)
        self._canary_port = canary.sockets[0].getsockname()[1]
        self._servers.append(canary)
        for one in (FINE, *BEHAVIOURS.values()):
            key = _key(one)
            if key not in self._ports:
                server = await asyncio.start_server(
                    self._accept(self._serve_by(one)),
                    self._host,
                    port if one is FINE else 0,
                    ssl=self._context(one),
                    limit=_LONGEST_HEAD_BYTES,
                )
                self._servers.append(server)
                self._ports[key] = server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops listening and cuts every connection."""
        for server in self._servers:
            server.close()
        while self._serving:
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)
        self._servers.clear()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _base_url(self, behaviour: Behaviour) -> str:
        scheme = "http" if behaviour.door is Listening.PLAIN else "https"
        return f"{scheme}://{self._host}:{self._ports[_key(behaviour)]}"

    def _context(self, behaviour: Behaviour) -> ssl.SSLContext | None:
        alpn = _ALPN.get(behaviour.door)
        return self._authority.context(behaviour.proof, alpn) if alpn is not None else None

    def _serve_by(self, behaviour: Behaviour) -> _Serve:
        if behaviour.door is Listening.BARE:
            return lambda reader, writer: self._serve_bare(behaviour, reader, writer)
        return self._serve_http2 if behaviour.door is Listening.HTTP2 else self._serve_http1

    def _accept(self, serve: _Serve) -> _Serve:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._serving.add(task)
            # What is written waits for the client to take it, so that endless answers cost this side nothing either.
            writer.transport.set_write_buffer_limits(high=64 * 1024)
            try:
                await serve(reader, writer)
                writer.close()
                await writer.wait_closed()
            except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.CancelledError, h2.exceptions.H2Error):
                writer.transport.abort()
            finally:
                self._serving.discard(task)

        return accepted

    async def _canary(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        self.canary_hits += 1
        writer.close()

    async def _serve_bare(
        self, behaviour: Behaviour, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.read(1)  # the client speaks first
        await behaviour.respond(self._exchange((reader, writer)))

    async def _serve_http1(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            raw = await reader.readuntil(b"\r\n\r\n")
            line, _, fields = raw.decode("latin-1").partition("\r\n")
            exchange = self._exchange((reader, writer), line.split(" ")[1], fields)
            await self._named(exchange.target).respond(exchange)
            if not exchange.keep_open:
                return

    async def _serve_http2(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        answers: set[asyncio.Task[None]] = set()
        try:
            writer.write(connection.data_to_send())
            while data := await reader.read(0x10000):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        exchange = self._exchange((reader, writer), _path(event), stream=event.stream_id or 0)
                        answers.add(asyncio.create_task(self._answer_http2(exchange)))
                writer.write(connection.data_to_send())
        finally:
            for task in answers:
                task.cancel()
            await asyncio.gather(*answers, return_exceptions=True)

    async def _answer_http2(self, exchange: SiteExchange) -> None:
        one = self._named(exchange.target)
        with suppress(ConnectionError):  # the reading side sees it, too
            await (answer_fine if one is FINE else one.respond)(exchange)

    def _exchange(self, wire: Wire, target: str = "/", fields: str = "", stream: int = 0) -> SiteExchange:
        places = SiteAddresses(f"{self._host}:{self._ports[_key(FINE)]}", f"{self._host}:{self._canary_port}")
        return SiteExchange(wire, places, target, fields, stream)

    def _named(self, target: str) -> Behaviour:
        name = target.partition("?")[0].strip("/")
        if name == FINE.name:
            return FINE
        return BEHAVIOURS.get(name) or BROWSER_BEHAVIOURS.get(name, MISSING)


def _key(behaviour: Behaviour) -> str:
    """Behaviours of one key share a port."""
    return behaviour.name if behaviour.door is Listening.BARE else f"{behaviour.door}, {behaviour.proof}"


def _path(event: h2.events.RequestReceived) -> str:
    return dict(event.headers or ())[b":path"].decode("latin-1")

"""What the tests of proxies share: a site behind proxies, names that only proxies know, and a transport to try them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

from harness.fakes.listener import Listener
from harness.fakes.proxies.certificates import Authority
from harness.fakes.proxies.http_messages import read_request, request_bytes
from swath.backends.clock import SystemClock
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.guard import EgressGuard
from swath.fetch.egress.resolver import DnsAnswer
from swath.fetch.http.client.limits import ResponseLimits
from swath.fetch.http.client.transport import ProxiedTransport

HOST = "county.example"
PAGE = b"<p>hello</p>" * 100


class Site(Listener):
    """Serves one page under every address, by TLS if it has a certificate; counts what reached it."""

    def __init__(self, authority: Authority | None = None) -> None:
        super().__init__(None if authority is None else authority.context(HOST))
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.extra: dict[str, str] = {}
        self.status = 200
        self.page = PAGE
        self.hangs = False

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked = await read_request(reader)
            self.requests.append(f"{asked.method} {asked.target}")
            self.bodies.append(asked.body)
            assert not any(name.startswith("proxy-") for name in asked.headers)
            if self.hangs:
                await asyncio.Event().wait()
            writer.write(request_bytes(self.status, "Said", self.extra, self.page))
            await writer.drain()
            if asked.headers.get("connection") == "close":
                return


class Names:
    """Implements Resolver: knows a few names, and that all others do not exist."""

    def __init__(self, **known: str) -> None:
        self.known = {name.replace("_", "."): address for name, address in known.items()}
        self.asked: list[str] = []

    async def look_up(self, host: str) -> DnsAnswer:
        self.asked.append(host)
        if host not in self.known:
            raise Failed(Failure.of(FailureKind.DNS_UNKNOWN, "no such name"))
        return DnsAnswer((ip_address(self.known[host]),), float("inf"))


@asynccontextmanager
async def proxied(
    allowed: Collection[str],
    ca_file: Path | None = None,
    names: Names | None = None,
    limits: ResponseLimits | None = None,
) -> AsyncIterator[ProxiedTransport]:
    """`allowed` are the `host:port` of proxies on loopback."""
    guard = EgressGuard(names or Names(), SystemClock(), allow_private=allowed)
    transport = ProxiedTransport(guard, limits, ca_file)
    try:
        yield transport
    finally:
        await transport.close()


async def failure_of(transport: ProxiedTransport, request: object) -> Failure:
    try:
        response = await transport.send(request)  # type: ignore[arg-type] # so that callers need no import of it
    except Failed as failed:
        return failed.failure
    raise AssertionError(f"it came through: {response.status} {response.body[:80]!r}")

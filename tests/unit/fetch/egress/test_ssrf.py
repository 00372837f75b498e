"""Z4: nothing that a job or a site writes leads to a private address. Canaries listen where nobody may come.

Every dial is logged, too, and one that would leave this machine is stopped after it was logged.
"""

import asyncio
import fcntl
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from swath.domain.errors import Failed
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import Failure, FailureKind
from swath.fetch.egress.guard import EgressGuard, EgressTarget
from swath.fetch.http.client.robots import MOST_HOPS
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.client.transport import DirectTransport
from swath.fetch.http.messages import Request, Response, next_request
from tests.support.clock import FakeClock
from tests.unit.fetch.egress.spellings import NAMES, spellings
from tests.unit.fetch.http.sites import TableResolver, plain

pytestmark = pytest.mark.req("Z4")

LINK_LOCAL = "169.254.169.254"
REFUSED = {FailureKind.EGRESS_DENIED, FailureKind.INVALID_INPUT, FailureKind.NAVIGATION, FailureKind.DNS_UNKNOWN}


class NoGuard(EgressGuard):
    """The broken build: looks names up and lets everything through."""

    async def check_origin(self, origin: str) -> EgressTarget:
        scheme, _, authority = origin.partition("://")
        host, colon, _ = authority.rpartition(":")
        if not colon:
            return EgressTarget(scheme, host, 80, ())
        return await EgressGuard(self._resolver, self._clock, allow_private=[authority]).check_origin(origin)


class LoggingTransport(DirectTransport):
    """Notes where it is about to connect to, and goes there only if one of our servers listens there."""

    def __init__(self, guard: EgressGuard, ours: set[str]) -> None:
        super().__init__(guard)
        self.ours = ours
        self.dialled: list[str] = []

    async def _exchanged(self, origin: str, target: EgressTarget, request: Request, until: float) -> Response:
        places = [str(address) for address in target.addresses]
        self.dialled += [f"{place} {target.port}" for place in places]
        if not self.ours.issuperset(places):
            raise Failed(Failure.of(FailureKind.CONNECT, "not to be dialled in a test"))
        return await super()._exchanged(origin, target, request, until)


class Net:
    """The canaries, all on one port, and a site that is allowed and sends its visitors to them."""

    def __init__(self) -> None:
        self.port = 0
        self.site = ""
        self.addresses = {"127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "::ffff:7f00:1"}
        self.hits: list[str] = []
        self.location = ""

    async def canary(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.hits.append(writer.get_extra_info("sockname")[0])  # a connection is enough, whatever is said on it
        writer.write(plain(b"secret"))
        writer.close()

    async def redirect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            location = b"Location: " + self.location.encode()
            writer.write(plain(b"", location, status=b"302 Found"))
        writer.close()

    def transport(self, guard: type[EgressGuard]) -> LoggingTransport:
        resolver = TableResolver({**NAMES, "site.example": ["127.0.0.1"]})
        allowed = [self.site.removeprefix("http://")]
        return LoggingTransport(guard(resolver, FakeClock(), allow_private=allowed), self.addresses)


@pytest.fixture(scope="module")
def link_local() -> Iterator[bool]:
    """Whether the address of cloud metadata is on the loopback interface for this while, which only root can do."""
    if os.geteuid() != 0:
        yield False
        return
    with (Path(tempfile.gettempdir()) / "swath-link-local.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other test processes put it there, too
        command = ["ip", "addr", "replace", f"{LINK_LOCAL}/32", "dev", "lo"]
        try:
            added = subprocess.run(command, check=False, capture_output=True).returncode == 0
        except FileNotFoundError:
            added = False
        try:
            yield added
        finally:
            if added:
                command[2] = "del"
                subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
async def net(link_local: bool) -> AsyncIterator[Net]:
    made = Net()
    async with AsyncExitStack() as servers:
        first = await servers.enter_async_context(await asyncio.start_server(made.canary, "127.0.0.1", 0))
        made.port = first.sockets[0].getsockname()[1]
        await servers.enter_async_context(await asyncio.start_server(made.canary, "::1", made.port))
        if link_local:
            await servers.enter_async_context(await asyncio.start_server(made.canary, LINK_LOCAL, made.port))
            made.addresses |= {LINK_LOCAL, f"::ffff:{LINK_LOCAL}", "::ffff:a9fe:a9fe"}
        site = await servers.enter_async_context(await asyncio.start_server(made.redirect, "127.0.0.1", 0))
        made.site = f"http://127.0.0.1:{site.sockets[0].getsockname()[1]}"
        yield made


async def by_url(net: Net, transport: DirectTransport, url: str) -> None:
    await WebSession(transport, Timeouts(), FakeClock(), net.site).get(url)


async def by_request(net: Net, transport: DirectTransport, url: str) -> None:
    await transport.send(Request(url=url))


async def by_redirect(net: Net, transport: DirectTransport, url: str) -> None:
    net.location = url
    await WebSession(transport, Timeouts(), FakeClock(), net.site).get("/start")


async def by_robots(net: Net, transport: DirectTransport, url: str) -> None:
    net.location = url
    request: Request | None = Request(url=f"{net.site}/robots.txt")
    for _ in range(MOST_HOPS + 1):
        if request is None:
            return
        request = next_request(request, await transport.send(request))
    raise Failed(Failure.of(FailureKind.NAVIGATION, "too many hops"))


WAYS = [by_url, by_request, by_redirect, by_robots]


async def tried(net: Net, guard: type[EgressGuard], way: Callable[..., Any]) -> tuple[list[str], list[FailureKind]]:
    """The spellings that led somewhere they should not, and how the others failed."""
    transport, reached, kinds = net.transport(guard), [], []
    for url in spellings(net.port):
        hits, dials = len(net.hits), len(transport.dialled)
        try:
            await asyncio.wait_for(way(net, transport, url), 60)
            kinds.append(FailureKind.INTERNAL)  # an answer, from whom?
        except Failed as failed:
            kinds.append(failed.failure.kind)
        await asyncio.sleep(0)
        if len(net.hits) > hits or any(dial.endswith(f" {net.port}") for dial in transport.dialled[dials:]):
            reached.append(url)
    await transport.close()
    return reached, kinds


def test_the_corpus_is_large_enough() -> None:
    assert len(set(spellings(1))) >= 100


@pytest.mark.parametrize("way", WAYS)
async def test_no_spelling_of_a_private_target_is_reached(net: Net, way: Callable[..., Any]) -> None:
    reached, kinds = await tried(net, EgressGuard, way)
    assert (reached, net.hits) == ([], [])
    assert set(kinds) <= REFUSED
    assert kinds.count(FailureKind.EGRESS_DENIED) >= 60


@pytest.mark.parametrize("way", WAYS)
async def test_without_the_guard_they_are_reached(net: Net, way: Callable[..., Any], link_local: bool) -> None:
    reached, _ = await tried(net, NoGuard, way)
    assert len(reached) >= 60
    assert len(net.hits) >= 40  # the rest would have left this machine
    assert set(net.hits) >= ({"127.0.0.1", "::1", LINK_LOCAL} if link_local else {"127.0.0.1", "::1"})
    assert any(LINK_LOCAL in url for url in reached)


async def test_no_spelling_is_a_proxy_address(net: Net) -> None:
    guard = net.transport(EgressGuard)._guard
    for url in spellings(net.port):
        host, _, port = url.removeprefix("http://").partition("/")[0].rpartition(":")
        if port == str(net.port):
            with pytest.raises(Failed) as raised:
                await guard.check_proxy(host, net.port)
            assert raised.value.failure.kind in REFUSED
    assert net.hits == []


async def test_no_spelling_is_asked_of_a_proxy(net: Net) -> None:
    guard = net.transport(EgressGuard)._guard
    for url in spellings(net.port):
        with pytest.raises(Failed) as raised:
            await guard.check_proxied(url)
        assert raised.value.failure.kind in REFUSED


async def test_a_name_that_changes_its_mind_between_check_and_dial_gains_nothing(net: Net) -> None:
    """Rebinding: the address that was checked is the one that is dialled, and a second look-up does not happen."""
    transport = net.transport(EgressGuard)
    resolver = TableResolver({"rebind.example": ["1.1.1.1"]})
    transport._guard = EgressGuard(resolver, FakeClock())
    request = Request(url=f"http://rebind.example:{net.port}/")
    with pytest.raises(Failed, match="not to be dialled"):
        await transport.send(request)
    assert transport.dialled == [f"1.1.1.1 {net.port}"]
    assert resolver.asked == ["rebind.example"]
    resolver.names["rebind.example"] = ["127.0.0.1"]
    with pytest.raises(Failed, match="not to be reached"):
        await transport.send(request)
    assert net.hits == []

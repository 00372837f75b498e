"""I5: nobody takes what is there for all: by half a request, by many connections, by streams, by requests under way."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from swath.domain.service_key import Scope
from swath.entrypoints.api import auth, http_protocol, limits
from swath.entrypoints.api.limits import address_key
from tests.integration.api.pages import served
from tests.integration.api.running import Api, check_envelope, running
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("I5", "Z5")

HALF = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
GREEDY = "127.0.0.2"  # an address of this machine that is not the one from which the others ask


@pytest.fixture(autouse=True)
def keys_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "KEY_CACHE_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def half_requests_are_not_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine that would make the room that others are to make."""
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 600.0)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Both ends of all connections are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < 8_000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (8_000 if hard < 0 else min(8_000, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@asynccontextmanager
async def half_open(client: httpx.AsyncClient, count: int, *sources: str) -> AsyncIterator[list[socket.socket]]:
    """So many connections, from these addresses in turn, on each of which half a request was sent."""
    loop, held = asyncio.get_running_loop(), []
    try:
        for number in range(count):
            raw = socket.socket()
            held.append(raw)
            raw.setblocking(False)
            raw.bind((sources[number % len(sources)], 0))
            await loop.sock_connect(raw, (client.base_url.host, client.base_url.port))
            with contextlib.suppress(ConnectionError):  # the controller may have had enough of them
                await loop.sock_sendall(raw, HALF)
        yield held
    finally:
        for raw in held:
            raw.close()


async def asked(client: httpx.AsyncClient, path: str, key: str | None = None, source: str = "127.0.0.1") -> int:
    """The status of an answer over a new connection from that address."""
    transport = httpx.AsyncHTTPTransport(local_address=source)
    headers = {} if key is None else {"X-Service-Key": key}
    async with httpx.AsyncClient(
        base_url=client.base_url, transport=transport, headers=headers, timeout=HANGING_SECONDS
    ) as new:
        answer = await new.get(path)
        if path != "/openapi.json" or answer.is_error:
            check_envelope(answer)
        return answer.status_code


@pytest.mark.req("I4")
@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("sources", [(GREEDY,), tuple(f"127.0.1.{n}" for n in range(1, 30))], ids=["one", "many"])
async def test_1700_half_requests_without_a_key_keep_nobody_out(api: Api, sources: tuple[str, ...]) -> None:
    """Neither those who ask for health, nor those with a key, from another address or from the greedy one itself."""
    key = (await api.key(Scope.READ)).reveal()
    async with served(api) as client, half_open(client, 1_700, *sources):
        for source in ("127.0.0.1", sources[0]):
            assert await asked(client, "/health", source=source) == 200
            assert await asked(client, "/readiness", source=source) == 200
            assert await asked(client, "/jobs", key, source) == 200


async def test_room_is_made_by_the_oldest_half_request_of_the_greediest_address(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 10)
    async with served(api) as client, half_open(client, 3, "127.0.0.3") as few, half_open(client, 7, GREEDY) as many:
        assert await asked(client, "/health") == 200
        loop = asyncio.get_running_loop()
        answer = await asyncio.wait_for(loop.sock_recv(many[0], 65_536), HANGING_SECONDS)
        assert answer.startswith(b"HTTP/1.1 429 ")
        for raw in (*few, *many[1:]):  # all others are still waited for
            await loop.sock_sendall(raw, b"\r\n\r\n")
            assert (await asyncio.wait_for(loop.sock_recv(raw, 65_536), HANGING_SECONDS)).startswith(b"HTTP/1.1 200 ")


async def test_one_address_has_a_share_of_the_connections(tmp_path: Path) -> None:
    """Those on which something is under way are not cut off: the next one of that address is told to wait."""
    async with running(tmp_path, connections_per_address=5) as api, served(api) as client:
        async with streams(client, 5, source=GREEDY):
            assert await asked(client, "/health", source=GREEDY) == 429
            assert await asked(client, "/health") == 200
        await until_answered(client, "/health", source=GREEDY)


async def until_answered(
    client: httpx.AsyncClient, path: str, key: str | None = None, source: str = "127.0.0.1"
) -> None:
    """Returns when there is room again: the controller hears of closed connections a little later."""
    async with asyncio.timeout(HANGING_SECONDS):
        while await asked(client, path, key, source) != 200:
            pass


@asynccontextmanager
async def streams(
    client: httpx.AsyncClient, count: int, key: str | None = None, source: str = "127.0.0.1"
) -> AsyncIterator[list[int]]:
    """So many event streams are asked for, each over a connection of its own; their statuses."""
    headers = {} if key is None else {"X-Service-Key": key}
    async with AsyncExitStack() as stack:
        statuses = []
        for _ in range(count):
            new = await stack.enter_async_context(
                httpx.AsyncClient(
                    base_url=client.base_url,
                    headers=headers,
                    transport=httpx.AsyncHTTPTransport(local_address=source),
                    timeout=HANGING_SECONDS,
                )
            )
            answer = await stack.enter_async_context(new.stream("GET", "/events"))
            if answer.status_code != 200:
                await answer.aread()
                check_envelope(answer)
                assert answer.json()["error"]["code"] == "rate_limited"
                assert int(answer.headers["retry-after"]) >= 1
            statuses.append(answer.status_code)
        yield statuses


@pytest.mark.req("I2")
async def test_one_key_has_a_share_of_the_event_streams(tmp_path: Path) -> None:
    async with running(tmp_path, streams_per_key=3) as api, served(api) as client:
        greedy, other, admin = [(await api.key(scope)).reveal() for scope in (Scope.READ, Scope.READ, Scope.ADMIN)]
        async with streams(client, 4, greedy) as statuses:
            assert statuses == [200, 200, 200, 429]
            async with streams(client, 1, other) as others, streams(client, 1, admin) as admins:
                assert (others, admins) == ([200], [200])
            assert await asked(client, "/jobs", greedy) == 200
        async with asyncio.timeout(HANGING_SECONDS):  # what was closed makes room
            while True:
                async with streams(client, 1, greedy) as again:
                    if again == [200]:
                        break


@pytest.mark.req("I2")
async def test_streams_of_many_keys_leave_some_for_admins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_STREAMS", 4)
    monkeypatch.setattr(auth, "RESERVED_STREAMS", 1)
    async with running(tmp_path, streams_per_key=2) as api, served(api) as client, AsyncExitStack() as stack:
        for expected in ([200, 200], [200, 200], [429, 429]):
            key = (await api.key(Scope.READ)).reveal()
            assert await stack.enter_async_context(streams(client, 2, key)) == expected
        admin = (await api.key(Scope.ADMIN)).reveal()
        assert await stack.enter_async_context(streams(client, 2, admin)) == [200, 429]


@pytest.mark.req("I4")
async def test_when_all_connections_are_busy_health_and_admins_still_get_in(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 10)
    monkeypatch.setattr(limits, "RESERVED_CONNECTIONS", 2)
    reader, admin = [(await api.key(scope)).reveal() for scope in (Scope.READ, Scope.ADMIN)]
    async with served(api) as client:
        async with streams(client, 10, reader):
            for _ in range(3):
                assert await asked(client, "/health") == 200
                assert await asked(client, "/readiness") == 200
                assert await asked(client, "/jobs", admin) == 200
                assert await asked(client, "/jobs", reader) == 429
            async with streams(client, 2, admin) as statuses:
                assert statuses == [200, 200]
                assert await asked(client, "/health") == 429  # the reserve has an end, too, and says so
        await until_answered(client, "/jobs", reader)


@pytest.mark.req("I4")
@pytest.mark.parametrize("ahead", [1, 8])
async def test_answers_that_need_no_key_and_are_not_read_keep_nobody_out(
    api: Api, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """The longest of them, asked for once and several times on each connection."""
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 10)
    monkeypatch.setattr(limits, "RESERVED_CONNECTIONS", 2)
    monkeypatch.setattr(http_protocol, "UNREAD_SECONDS", 600.0)
    key = (await api.key(Scope.READ)).reveal()
    async with served(api) as client, AsyncExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(30)]
        loop = asyncio.get_running_loop()
        for raw in held:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            raw.setblocking(False)
            raw.bind((GREEDY, 0))
            await loop.sock_connect(raw, (client.base_url.host, client.base_url.port))
            await loop.sock_sendall(raw, b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * ahead)
            await loop.sock_recv(raw, 1)  # its answer has begun
        for source in ("127.0.0.1", GREEDY):
            assert await asked(client, "/health", source=source) == 200
            assert await asked(client, "/jobs", key, source) == 200
        async with asyncio.timeout(HANGING_SECONDS):  # what made room has gone, and does not wait to be read
            while len(_ends_at(client.base_url.port)) > 10:
                await asyncio.sleep(0.05)


def _ends_at(port: int | None) -> list[int]:
    """The controller's ends of its connections."""
    found = psutil.Process().net_connections("tcp")
    return [one.fd for one in found if one.laddr.port == port and one.status != psutil.CONN_LISTEN]


@pytest.mark.req("I4")
async def test_the_reserve_is_not_for_the_document_of_the_api(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 3)
    reader = (await api.key(Scope.READ)).reveal()
    async with served(api) as client:
        assert await asked(client, "/openapi.json") == 200
        async with streams(client, 3, reader):
            assert await asked(client, "/openapi.json") == 429
            assert await asked(client, "/health") == 200


async def test_one_key_has_a_share_of_the_requests_under_way(tmp_path: Path) -> None:
    async with running(tmp_path, requests_at_once=2) as api, served(api) as client:
        greedy, other = [(await api.key(Scope.READ)).reveal() for _ in range(2)]
        async with streams(client, 2, greedy):
            assert await asked(client, "/jobs", greedy) == 429
            assert await asked(client, "/jobs", other) == 200
            assert await asked(client, "/health") == 200
        await until_answered(client, "/jobs", greedy)


@pytest.mark.parametrize(
    ("peer", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        (None, ""),
    ],
)
def test_an_address_of_ipv6_counts_with_its_network(peer: str | None, client: str) -> None:
    assert address_key(peer) == client


async def test_who_sends_thousands_of_requests_ahead_is_cut_off(api: Api) -> None:
    """Each would be kept in memory, and they would be answered before those of others."""
    async with served(api) as client:
        for count, most in (
            (1 + http_protocol.MAX_PIPELINED, 1 + http_protocol.MAX_PIPELINED),
            (5_000, 1 + http_protocol.MAX_PIPELINED),
        ):
            reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
            writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * count)
            answered = b""
            with contextlib.suppress(ConnectionError):
                async with asyncio.timeout(HANGING_SECONDS):
                    while answered.count(b"HTTP/1.1 200 ") < count and (piece := await reader.read(65_536)):
                        answered += piece
            writer.close()
            assert answered.count(b"HTTP/1.1 200 ") <= most
            assert (count > most) == (answered.count(b"HTTP/1.1 200 ") < count)
        assert await asked(client, "/health") == 200

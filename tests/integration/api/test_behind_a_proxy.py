"""I5: without any key, programs on this machine may do everything; those behind a proxy on it are not on it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from swath.domain.service_key import Scope
from swath.entrypoints.api import auth
from tests.integration.api.pages import served
from tests.integration.api.running import Api, check_envelope, running
from tests.integration.api.serving import Place
from tests.support.bounds import HANGING_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.req("I5")

OPEN = ("/health", "/readiness")
GUARDED = (("GET", "/jobs"), ("POST", "/jobs"), ("DELETE", "/jobs/none"), ("GET", "/events"), ("GET", "/metrics"))


@asynccontextmanager
async def proxy(upstream: httpx.URL, change: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """A reverse proxy on loopback: `change` makes of the head of a request that which is passed on."""
    answering: set[asyncio.Task[None]] = set()

    async def passing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        answering.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            behind_reader, behind_writer = await asyncio.open_connection(upstream.host, upstream.port)
            behind_writer.write(change(head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))
            while piece := await behind_reader.read(65_536):
                writer.write(piece)
                await writer.drain()
            behind_writer.close()
        writer.close()

    server = await asyncio.start_server(passing, "127.0.0.1", 0)
    try:
        yield "http://{}:{}".format(*server.sockets[0].getsockname())
    finally:
        server.close()
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)


def adding(*lines: str) -> Callable[[bytes], bytes]:
    """A proxy that says what it does, and asks for this machine, as many do."""

    def change(head: bytes) -> bytes:
        added = "".join(f"{line}\r\n" for line in lines).encode()
        return with_host("127.0.0.1:8000")(head)[:-2] + added + b"\r\n"

    return change


def with_host(host: str) -> Callable[[bytes], bytes]:
    """A proxy that adds nothing, but asks for that host."""
    return lambda head: re.sub(rb"(?i)(?<=\r\nhost: )[^\r]*", host.encode(), head)


async def _refused_without_a_key(address: str, through: str | None) -> None:
    async with httpx.AsyncClient(base_url=address, timeout=HANGING_SECONDS) as client:
        for method, path in GUARDED:
            answer = await client.request(method, path)
            check_envelope(answer)
            assert answer.status_code == 401, (method, path, answer.text)
            message = answer.json()["error"]["message"]
            assert "swath keys create NAME" in message
            assert "X-Service-Key" in message
            assert through is None or through in message
        assert [(await client.get(path)).status_code for path in OPEN] == [200, 200]


ADDED = [
    "Forwarded: for=192.0.2.7;proto=https",
    "X-Forwarded-For: 192.0.2.7",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: swath.example",
    "X-Real-IP: 192.0.2.7",
    "Via: 1.1 caddy",
    "CF-Connecting-IP: 192.0.2.7",
    "True-Client-IP: 192.0.2.7",
    "CDN-Loop: x",
    "x-forwarded-for:",
]


@pytest.mark.parametrize("line", ADDED)
async def test_who_comes_through_a_proxy_that_says_so_needs_a_key(api: Api, line: str) -> None:
    async with served(api) as client, proxy(client.base_url, adding(line)) as address:
        await _refused_without_a_key(address, line.partition(":")[0].title())
        assert (await client.get("/jobs")).status_code == 200  # programs on this machine go on as before


@pytest.mark.parametrize("host", ["swath.example", "swath.example:443", "192.0.2.7:8000", "[2001:db8::1]"])
async def test_who_comes_through_a_proxy_that_keeps_the_host_needs_a_key(tmp_path: Path, host: str) -> None:
    """Of a name the operator has said that it is served: that alone says that something passes requests on."""
    names = ("swath.example",) if host.startswith("swath") else ()
    async with (
        running(tmp_path, allowed_hosts=names) as api,
        served(api) as client,
        proxy(client.base_url, with_host(host)) as address,
    ):
        await _refused_without_a_key(address, "SWATH_ALLOWED_HOSTS" if names else "Host")


async def test_with_allowed_hosts_a_proxy_that_says_nothing_at_all_lets_nobody_in(tmp_path: Path) -> None:
    async with running(tmp_path, allowed_hosts=("swath.example",)) as api, served(api) as client:
        async with proxy(client.base_url, with_host("127.0.0.1:8000")) as address:
            await _refused_without_a_key(address, "SWATH_ALLOWED_HOSTS")
        await _refused_without_a_key(str(client.base_url), None)


async def test_the_way_nginx_passes_on_by_default_needs_a_key(api: Api) -> None:
    """It asks for the upstream's own host, in HTTP/1.0, and adds no header."""

    def as_nginx(head: bytes) -> bytes:
        return with_host("127.0.0.1:8000")(head).replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)

    async with served(api) as client, proxy(client.base_url, as_nginx) as address:
        await _refused_without_a_key(address, "HTTP/1.0")


async def test_with_a_key_it_works_through_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "KEY_CACHE_SECONDS", 0.0)
    change: Sequence[str] = ("X-Forwarded-For: 192.0.2.7", "Via: 1.1 caddy")
    async with (
        running(tmp_path, allowed_hosts=("swath.example",)) as api,
        served(api) as client,
        proxy(client.base_url, adding(*change)) as address,
        httpx.AsyncClient(base_url=address, timeout=HANGING_SECONDS) as user,
    ):
        assert (await user.get("/jobs")).status_code == 401
        key = await api.key(Scope.READ)
        assert (await user.get("/jobs", headers={"X-Service-Key": key.reveal()})).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.:8000", "swath.localhost", "127.0.0.1", "127.1.2.3:1", "[::1]"]
)
@pytest.mark.parametrize("header", ["X-Request-ID", "traceparent", "X-Amzn-Trace-Id", "X-Forward"])
async def test_programs_on_this_machine_need_none(api: Api, host: str, header: str) -> None:
    """What programs send by themselves says nothing of a proxy."""
    assert (await api.ask("GET", "/jobs", headers={"Host": host, header: "Root=1-2-3"})).status_code == 200


async def test_serve_says_at_its_start_that_nobody_is_let_in_and_what_to_do(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with place.serving("--no-worker", SWATH_ALLOWED_HOSTS="swath.example") as controller:
        assert (await controller.client.get("/jobs")).status_code == 401
        assert await controller.stopped() == 0
        assert controller.process.stderr is not None
        said = (await controller.process.stderr.read()).decode()
    (line,) = [line for line in said.splitlines() if "SWATH_ALLOWED_HOSTS" in line]
    assert "keys create NAME" in line

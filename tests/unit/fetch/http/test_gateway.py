"""The gateway serves who has the token, for the site that the token is for, and nobody else."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator

import pytest

from harness.fakes.listener import Listener
from harness.fakes.proxies.faulty import FaultyProxy
from swath.domain.proxy_products import ProxyLocation
from swath.domain.secret import Secret
from swath.fetch.egress.forward_proxy.client_proxy import CLIENT_PROXY_HEADER, ClientProxy
from swath.fetch.proxies.providers.custom import parse_proxies
from swath.fetch.proxies.route import Route
from tests.unit.fetch.http.proxied import HOST, PAGE, Site

pytestmark = pytest.mark.req("Z4", "Z7")

TARGET = f"{HOST}:80"


class Scene:
    """A gateway with one route through a proxy to a site."""

    def __init__(self, gateway: ClientProxy, proxy: FaultyProxy, site: Site, route: Route) -> None:
        self.gateway, self.proxy, self.site, self.route = gateway, proxy, site, route
        self.trip = gateway.trip(route)
        self.trip.authorities.add(TARGET)
        self.trip.connect_seconds = 0.5

    async def said(self, *lines: str, raw: bytes = b"") -> bytes:
        """What a client is answered, until the connection ends or it has waited long enough."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gateway.port)
        writer.write(raw or ("\r\n".join(lines) + "\r\n\r\n").encode())
        try:
            return await asyncio.wait_for(reader.read(65_536), 60)
        except ConnectionError:
            return b""
        finally:
            writer.close()

    def login(self, token: str | None = None, scheme: str = "Basic") -> str:
        pair = f"{self.trip.token if token is None else token}:x"
        return f"Proxy-Authorization: {scheme} {base64.b64encode(pair.encode()).decode()}"


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async def dial(scheme: str, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert (scheme, host) == ("http", "127.0.0.1")
        return await asyncio.open_connection(host, port, limit=256 * 1024)

    async with Site() as site, FaultyProxy({TARGET: site.port}, "me:canary-login") as proxy:
        gateway = ClientProxy(dial)
        await gateway.start()
        (one,) = parse_proxies([Secret(f"http://me:canary-login@127.0.0.1:{proxy.port}")])
        yield Scene(gateway, proxy, site, one.route(ProxyLocation()))
        await gateway.close()


async def test_who_has_the_token_is_served_and_the_proxy_gets_the_real_login(scene: Scene) -> None:
    answer = await scene.said(f"GET http://{HOST}/a HTTP/1.1", f"Host: {HOST}", scene.login())
    assert answer.endswith(PAGE)
    assert scene.site.requests == ["GET /a"]


@pytest.mark.parametrize("method", ["GET http://county.example/ HTTP/1.1", "CONNECT county.example:80 HTTP/1.1"])
@pytest.mark.parametrize(
    "login",
    ["", "Proxy-Authorization: Basic !!!", "Proxy-Authorization: Basic", "Proxy-Authorization: Basic //79/A=="],
)
async def test_nobody_else_is_served(scene: Scene, method: str, login: str) -> None:
    for tried in (login, scene.login("0" * 32), scene.login(""), scene.login(scheme="Bearer")):
        answer = await scene.said(method, f"Host: {HOST}", *filter(None, [tried]))
        assert answer.startswith(b"HTTP/1.1 407 ")
        assert PAGE not in answer
    assert scene.proxy.requests == []


@pytest.mark.parametrize(
    "first",
    [
        "CONNECT other.example:443 HTTP/1.1",
        "CONNECT county.example:443 HTTP/1.1",
        "GET http://other.example/ HTTP/1.1",
        "GET http://county.example:81/ HTTP/1.1",
        "GET / HTTP/1.1",
        "GET http://user@county.example/ HTTP/1.1",
        "GARBAGE",
        "GET http://county.example/",
    ],
)
async def test_a_token_is_good_for_its_own_sites_only(scene: Scene, first: str) -> None:
    assert (await scene.said(first, scene.login())).startswith(b"HTTP/1.1 407 ")
    assert scene.proxy.requests == []


class Recorder(Listener):
    """A proxy that says nothing and keeps all that it hears."""

    heard = b""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65_536):
            self.heard += chunk


@pytest.mark.parametrize("second", ["http://other.example/", f"http://{HOST}:81/", f"http://{HOST}/b"])
async def test_a_second_request_on_the_line_is_held_to_the_same(scene: Scene, second: str) -> None:
    async with Recorder() as recorder:
        scene.trip.port = recorder.port
        login = scene.login("0" * 32) if second.endswith("/b") else scene.login()
        first = f"POST http://{HOST}/a HTTP/1.1\r\nContent-Length: 4\r\n{scene.login()}\r\n\r\nbody"
        await scene.said(raw=f"{first}GET {second} HTTP/1.1\r\n{login}\r\n\r\n".encode())
        assert recorder.heard.startswith(f"POST http://{HOST}/a HTTP/1.1\r\n".encode())
        assert recorder.heard.endswith(b"\r\n\r\nbody")
        assert scene.trip.token.encode() not in recorder.heard
        assert scene.login().rpartition(" ")[2].encode() not in recorder.heard


async def test_a_proxy_that_cannot_be_dialled_in_time_is_given_up() -> None:
    async def dial(scheme: str, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await asyncio.Event().wait()
        raise AssertionError

    gateway = ClientProxy(dial)
    await gateway.start()
    (one,) = parse_proxies([Secret("http://me:canary-login@127.0.0.1:9")])
    route = one.route(ProxyLocation())
    async with FaultyProxy({}) as proxy, Site() as site:
        scene = Scene(gateway, proxy, site, route)
        scene.trip.connect_seconds = 0.02
        for first in (f"GET http://{HOST}/ HTTP/1.1", f"CONNECT {TARGET} HTTP/1.1"):
            assert (await scene.said(first, scene.login())).startswith(b"HTTP/1.1 502 ")
            trouble = scene.trip.trouble(TARGET)
            assert trouble is not None
            assert "did not answer in time" in trouble.message
    await gateway.close()


async def test_a_token_is_void_when_its_route_is_gone(scene: Scene) -> None:
    login = scene.login()
    del scene.trip, scene.route
    answer = await scene.said(f"GET http://{HOST}/a HTTP/1.1", login)
    assert answer.startswith(b"HTTP/1.1 407 ")


async def test_an_answer_of_its_own_carries_the_token_which_no_site_knows(scene: Scene) -> None:
    await scene.proxy.stop()
    answer = await scene.said(f"GET http://{HOST}/a HTTP/1.1", scene.login())
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert f"{CLIENT_PROXY_HEADER}: {scene.trip.token}".encode() in answer
    assert scene.trip.trouble(TARGET) is not None
    assert scene.trip.trouble(TARGET) is None  # told once


@pytest.mark.req("Z6")
@pytest.mark.parametrize("raw", [b"\x00" * 300_000, b"\r\n\r\n", b"A: b\r\n\r\n"])
async def test_garbage_ends_its_own_connection_and_nothing_else(scene: Scene, raw: bytes) -> None:
    await scene.said(raw=raw)
    answer = await scene.said(f"GET http://{HOST}/a HTTP/1.1", scene.login())
    assert answer.endswith(PAGE)


async def test_it_listens_on_loopback_only_and_on_no_fixed_port(scene: Scene) -> None:
    server = scene.gateway._server
    assert server is not None
    assert [one.getsockname()[0] for one in server.sockets] == ["127.0.0.1"]
    assert scene.gateway.port > 1_024

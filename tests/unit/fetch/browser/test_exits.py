"""The exits, by raw bytes: what a browser may ask for, what becomes of it, what is told and what is counted."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.fakes.listener import Listener
from harness.fakes.proxies.bright_data import FakeBrightData, FakeZone, Refusal
from harness.fakes.proxies.faulty import Fault, FaultyProxy
from swath.domain.failure import Failure, FailureKind
from swath.domain.proxy_products import ProxyLocation
from swath.domain.secret import Secret
from swath.fetch.egress.forward_proxy import browser_proxy
from swath.fetch.egress.forward_proxy.browser_egress import BROWSER_PROXY_HEADER
from swath.fetch.egress.forward_proxy.browser_proxy import BrowserProxyLimits, ContextForwardProxy, is_of
from swath.fetch.proxies.providers.bright_data import read_refusal
from swath.fetch.proxies.providers.custom import parse_proxies
from swath.fetch.proxies.route import Route
from tests.unit.fetch.browser.exit_scene import PLENTY, RawSite, StraightWay, answer, connect, exits, get, said, serving
from tests.unit.fetch.egress.spellings import NAMES, spellings

pytestmark = pytest.mark.req("Z4", "Z7")

PAGE = b"<p>hello</p>"


def kind(exit_: ContextForwardProxy, url: str) -> FailureKind | None:
    failure = exit_.trouble(url)
    return None if failure is None else failure.kind


# -- plain requests ----------------------------------------------------------------------------------------------------


async def test_a_plain_request_reaches_the_site_as_a_browser_without_a_proxy_would_send_it() -> None:
    async with RawSite() as site, serving([f"127.0.0.1:{site.port}"]) as exit_:
        fields = ("Proxy-Connection: keep-alive", "User-Agent: X", "Proxy-Authorization: Basic bWU6cHc=", "Cookie: a=b")
        got = await said(exit_.port, get(f"http://127.0.0.1:{site.port}/a?b=c", *fields, "TE: trailers"), enough=PAGE)
        assert got.endswith(PAGE)
        assert (
            site.heard
            == (
                f"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nConnection: keep-alive\r\n"
                "User-Agent: X\r\nCookie: a=b\r\n\r\n"
            ).encode()
        )
        assert exit_.trouble(site.url) is None
        assert exit_.requests == 1


async def test_requests_on_one_line_share_a_connection_to_a_site_and_may_go_to_different_ones() -> None:
    async with (
        RawSite() as one,
        RawSite(answer(b"<p>other</p>")) as other,
        serving([f"127.0.0.1:{one.port}", f"127.0.0.1:{other.port}"]) as exit_,
    ):
        asks = [get(f"{one.url}/1"), get(f"{one.url}/2"), get(f"{other.url}/3")]
        got = await said(exit_.port, *asks, enough=b"<p>other</p>")
        assert got.count(PAGE) == 2
        assert (one.connections, other.connections) == (1, 1)
        assert exit_.requests == 3


async def test_a_connection_that_a_site_closed_meanwhile_is_opened_again() -> None:
    class Once(RawSite):
        async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connections += 1
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer(PAGE))  # says that it stays, and does not
            await writer.drain()
            if self.connections == 1:
                await reader.readuntil(b"\r\n\r\n")

    async with Once() as site, serving([f"127.0.0.1:{site.port}"]) as exit_:
        reader, writer = await asyncio.open_connection("127.0.0.1", exit_.port)
        for path in ("/1", "/2"):
            writer.write(get(f"{site.url}{path}"))
            assert (await asyncio.wait_for(reader.readuntil(PAGE), 60)).startswith(b"HTTP/1.1 200 ")
        writer.close()
        assert site.connections == 2


BODIES = [
    (b"Content-Length: 7\r\n\r\nbodyend", b"Content-Length: 7\r\n\r\nbodyend"),
    (
        b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nbod\r\n4\r\nyend\r\n0\r\nTrailer: 1\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n3\r\nbod\r\n4\r\nyend\r\n0\r\n\r\n",
    ),
]


@pytest.mark.parametrize(("given_", "sent"), BODIES)
async def test_bodies_go_on_as_they_are_framed(given_: bytes, sent: bytes) -> None:
    async with RawSite() as site, serving([f"127.0.0.1:{site.port}"]) as exit_:
        head = f"POST {site.url}/form HTTP/1.1\r\nHost: x\r\n".encode()
        assert (await said(exit_.port, head + given_, enough=PAGE)).endswith(PAGE)
        assert site.heard.endswith(sent)


@pytest.mark.parametrize(
    "smuggled",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: +4",
        "Content-Length: 4,4",
        "Content-Length: -1",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Content-Length : 4",
        " Content-Length: 4",
        "X: 1\nContent-Length: 4",
        "X: \0",
    ],
)
async def test_what_two_readers_could_take_for_two_requests_is_refused(smuggled: str) -> None:
    async with RawSite() as site, serving([f"127.0.0.1:{site.port}"]) as exit_:
        inner = get(f"{site.url}/inner")
        raw = f"POST {site.url}/ HTTP/1.1\r\nHost: x\r\n{smuggled}\r\n\r\n0\r\n\r\n".encode() + inner
        assert (await said(exit_.port, raw)).startswith(b"HTTP/1.1 400 ")
        assert b"GET /inner" not in site.heard


@given(st.binary(max_size=60), st.sampled_from([b"", b"GET http://127.0.0.1/ HTTP/1.1\r\n", b"CONNECT "]))
@settings(max_examples=40, deadline=None)
def test_no_bytes_bring_an_exit_down(noise: bytes, start: bytes) -> None:
    async def tried() -> None:
        async with serving() as exit_:
            await asyncio.wait_for(said(exit_.port, start + noise + b"\r\n\r\n", enough=b"\r\n\r\n"), 60)
            assert (await said(exit_.port, get("http://127.0.0.1:1/"))).startswith(b"HTTP/1.1 403 ")

    async def bounded() -> None:
        reader_writers = asyncio.create_task(tried())
        await asyncio.wait_for(reader_writers, 60)

    if start + noise and not (start + noise).isspace():
        asyncio.run(bounded())


ANSWERS = [
    (answer(PAGE, "Connection: keep-alive", "Keep-Alive: timeout=5"), PAGE),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<p>he\r\n7\r\nllo</p>\r\n0\r\n\r\n", b"0\r\n\r\n"),
    (b"HTTP/1.1 200 OK\r\n\r\n" + PAGE, PAGE),
    (b"HTTP/1.0 200 OK\r\n\r\n" + PAGE, PAGE),
    (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + answer(PAGE), PAGE),
    (b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", b"ETag: x\r\n\r\n"),
    (b"this is no HTTP at all", b"this is no HTTP at all"),
]


@pytest.mark.parametrize(("raw", "end"), ANSWERS)
async def test_answers_come_through_however_they_end(raw: bytes, end: bytes) -> None:
    async with RawSite(raw) as site, serving([f"127.0.0.1:{site.port}"]) as exit_:
        got = await said(exit_.port, get(f"{site.url}/"), enough=end)
        assert got.endswith(end)
        assert b"keep-alive" not in got.lower()
        assert BROWSER_PROXY_HEADER.encode() not in got


async def test_an_answer_to_head_has_no_body_to_wait_for() -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"
    async with RawSite(raw) as site, serving([f"127.0.0.1:{site.port}"]) as exit_:
        got = await said(exit_.port, get(f"{site.url}/", method="HEAD"), enough=b"500\r\n\r\n")
        assert b"Content-Length: 500" in got


async def test_an_answer_that_is_cut_short_is_cut_for_the_browser_too() -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\nbegin"
    async with RawSite(raw) as site, serving([f"127.0.0.1:{site.port}"]) as exit_:
        assert len(await said(exit_.port, get(f"{site.url}/"))) < 500
        assert kind(exit_, site.url) is FailureKind.CONNECT


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tunnel", [True, False])
async def test_a_refusal_is_empty_told_once_and_marked_as_ours(tunnel: bool) -> None:
    async with serving() as exit_:
        asked = connect("127.0.0.1:9") if tunnel else get("http://127.0.0.1:9/secret")
        got = await said(exit_.port, asked)
        assert got.startswith(b"HTTP/1.1 403 ")
        assert got.endswith(b"\r\n\r\n")
        assert f"{BROWSER_PROXY_HEADER}: {exit_.token}\r\n".encode() in got
        assert kind(exit_, "http://127.0.0.1:9/other") is FailureKind.EGRESS_DENIED
        assert exit_.trouble("http://127.0.0.1:9/other") is None


async def test_no_spelling_of_a_private_target_gets_through_an_exit() -> None:
    """Z4, by whatever bytes a browser could be made to send: as a request and as a tunnel."""
    reached = []

    class Canary(Listener):
        async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reached.append(writer.get_extra_info("sockname"))

    async with Canary() as canary, serving(names=dict(NAMES)) as exit_:
        for url in spellings(canary.port):
            raw = url.encode().replace(b"\t", b"").replace(b"\n", b"")
            authority = raw.partition(b"//")[2].partition(b"/")[0]
            for asked in (b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % raw, b"CONNECT %b HTTP/1.1\r\n\r\n" % authority):
                got = await said(exit_.port, asked)
                assert got[9:12] in {b"403", b"502", b"400", b""}, asked
        assert reached == []


CASES: list[tuple[str, list[str] | Failure, FailureKind]] = [
    ("nowhere.example", Failure.of(FailureKind.DNS_UNKNOWN, "no such name"), FailureKind.DNS_UNKNOWN),
    ("later.example", Failure.of(FailureKind.DNS_TEMPORARY, "nobody can tell"), FailureKind.DNS_TEMPORARY),
    ("inside.example", ["10.0.0.1"], FailureKind.EGRESS_DENIED),
    ("mixed.example", ["1.1.1.1", "127.0.0.1"], FailureKind.EGRESS_DENIED),
]


@pytest.mark.parametrize(("host", "found", "expected"), CASES)
async def test_why_a_host_is_not_reached_is_told(host: str, found: list[str] | Failure, expected: FailureKind) -> None:
    async with serving(names={host: found}) as exit_:
        await said(exit_.port, connect(f"{host}:443"))
        assert kind(exit_, f"https://{host}/") is expected
        await said(exit_.port, get(f"http://{host}/"))
        assert kind(exit_, f"http://{host}/") is expected


async def test_a_site_that_refuses_or_hangs_up_is_told_as_such() -> None:
    class HangsUp(Listener):
        async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)

    async with HangsUp() as site, serving([f"127.0.0.1:{site.port}"]) as exit_:
        assert (await said(exit_.port, get(f"{site.url}/"))).startswith(b"HTTP/1.1 502 ")
        assert kind(exit_, site.url) is FailureKind.CONNECT
        await said(exit_.port, connect(f"127.0.0.1:{site.port}") + b"hello")
        assert kind(exit_, site.url) is FailureKind.CONNECT
        await site.stop()
        assert (await said(exit_.port, get(f"{site.url}/"))).startswith(b"HTTP/1.1 502 ")
        failure = exit_.trouble(site.url)
        assert failure is not None
        assert "refused" in failure.message


async def test_the_next_address_is_dialled_when_the_first_does_not_answer() -> None:
    async with RawSite() as site:
        authority = f"two.example:{site.port}"
        async with serving([authority], names={"two.example": ["::1", "127.0.0.1"]}) as exit_:
            assert (await said(exit_.port, get(f"http://{authority}/"), enough=PAGE)).endswith(PAGE)


async def test_a_site_that_says_nothing_is_given_up() -> None:
    class Silent(Listener):
        async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.Event().wait()

    async with (
        Silent() as site,
        serving([f"127.0.0.1:{site.port}"], limits=BrowserProxyLimits(idle_seconds=0.2)) as exit_,
    ):
        await said(exit_.port, get(f"{site.url}/"))
        assert kind(exit_, site.url) is FailureKind.TIMEOUT
        await said(exit_.port, connect(f"127.0.0.1:{site.port}"))
        assert kind(exit_, site.url) is FailureKind.TIMEOUT


async def test_without_a_way_nothing_leaves() -> None:
    async with RawSite() as site, exits([f"127.0.0.1:{site.port}"]) as made:
        exit_ = await made.open()
        for port in (exit_.port, made.deny_port):
            assert (await said(port, get(f"{site.url}/"))).startswith(b"HTTP/1.1 403 ")
            assert (await said(port, connect(f"127.0.0.1:{site.port}"))).startswith(b"HTTP/1.1 403 ")
        assert made.denied == 2
        exit_.serve(StraightWay(failure=Failure.of(FailureKind.PROXY, "no proxy is healthy")), PLENTY)
        assert (await said(exit_.port, get(f"{site.url}/"))).startswith(b"HTTP/1.1 502 ")
        assert kind(exit_, site.url) is FailureKind.PROXY
        assert site.connections == 0


async def test_no_exit_leads_to_another_even_if_its_port_is_allowed() -> None:
    """The port is allowed by hand here, as a careless operator might."""
    ports = range(1_024, 65_536)
    async with exits([f"127.0.0.1:{port}" for port in ports]) as made:
        one, other = await made.open(), await made.open()
        for exit_ in (one, other):
            exit_.serve(StraightWay(), PLENTY)
        for target in (one.port, other.port, made.deny_port):
            assert (await said(one.port, connect(f"127.0.0.1:{target}"))).startswith(b"HTTP/1.1 403 ")
        assert (other.requests, made.denied) == (0, 0)


# -- counts and caps ---------------------------------------------------------------------------------------------------


async def test_bytes_are_counted_both_ways_and_an_attempt_that_takes_too_many_is_cut() -> None:
    body = b"x" * 300_000
    async with RawSite(answer(body)) as site, serving([f"127.0.0.1:{site.port}"], most_bytes=500_000) as exit_:
        await said(exit_.port, get(f"{site.url}/"), enough=body)
        assert exit_.received_bytes == len(answer(body))
        assert exit_.sent_bytes == len(site.heard)
        assert exit_.overrun is None
        assert len(await said(exit_.port, get(f"{site.url}/"))) < len(body)
        assert getattr(exit_.overrun, "kind", None) is FailureKind.TOO_LARGE
        assert (await said(exit_.port, get(f"{site.url}/"))).startswith(b"HTTP/1.1 403 ")
        assert kind(exit_, site.url) is FailureKind.TOO_LARGE
        assert site.connections == 2


async def test_the_next_attempt_begins_with_nothing_and_without_the_lines_of_the_last() -> None:
    async with RawSite() as site, serving([f"127.0.0.1:{site.port}"]) as exit_:
        reader, writer = await asyncio.open_connection("127.0.0.1", exit_.port)
        writer.write(get(f"{site.url}/"))
        await reader.readuntil(PAGE)
        await said(exit_.port, connect("127.0.0.1:9"))
        token, way = exit_.token, StraightWay()
        exit_.serve(way, PLENTY)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        assert (exit_.sent_bytes, exit_.received_bytes, exit_.requests) == (0, 0, 0)
        assert exit_.trouble("http://127.0.0.1:9/") is None
        assert exit_.token != token
        await said(exit_.port, get(f"{site.url}/"), enough=PAGE)
        assert way.asked == [f"{site.url}/"]


async def test_only_so_many_lines_are_open_at_once() -> None:
    async with serving(limits=BrowserProxyLimits(most_lines=2)) as exit_:
        held = [await asyncio.open_connection("127.0.0.1", exit_.port) for _ in range(2)]
        for reader, writer in held:  # so that both are accepted before the third
            writer.write(b"GET http://")
            await writer.drain()
            assert not reader.at_eof()
        assert await said(exit_.port, get("http://127.0.0.1:1/")) == b""
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        got = b""
        for _ in range(50):
            got = got or await said(exit_.port, get("http://127.0.0.1:1/"))
        assert got.startswith(b"HTTP/1.1 403 ")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user to try it with")
async def test_other_users_of_the_machine_are_not_served() -> None:
    tries = (
        "import encodings.idna,os,socket,sys\nos.setuid(int(sys.argv[2]))\n"
        "s=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n"
        "try:\n s.sendall(b'CONNECT 127.0.0.1:1 HTTP/1.1\\r\\n\\r\\n')\n print(s.recv(12).decode())\n"
        "except OSError: print('cut')"
    )
    async with serving() as exit_:
        for user, expected in ((12345, {"", "cut"}), (65534, {"", "cut"}), (os.geteuid(), {"HTTP/1.1 403"})):
            command = [sys.executable, "-c", tries, str(exit_.port), str(user)]
            done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
            assert done.stdout.strip() in expected


async def test_the_kernel_knows_whose_a_connection_is() -> None:
    async with serving() as exit_:
        _, writer = await asyncio.open_connection("127.0.0.1", exit_.port)
        ends = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
        for look in (is_of, lambda user, *ends: browser_proxy._owner_by_proc_net(*ends) == user):
            assert look(os.geteuid(), *ends)
            assert not look(os.geteuid() + 1, *ends)
            assert not look(os.geteuid(), ("127.0.0.1", 1), ("127.0.0.1", 2))
        writer.close()


# -- through a proxy ---------------------------------------------------------------------------------------------------


def route_through(proxy: FaultyProxy, login: str = "me:canary-login") -> Route:
    (one,) = parse_proxies([Secret(f"http://{login}@127.0.0.1:{proxy.port}")])
    return one.route(ProxyLocation())


@pytest.mark.req("P3")
@pytest.mark.parametrize("tunnel", [True, False])
async def test_a_route_is_taken_with_its_credentials_and_its_meter_runs(tunnel: bool) -> None:
    site, hosts = RawSite(answer(PAGE, "Connection: close")), dict[str, int]()
    async with site, FaultyProxy(hosts, "me:canary-login") as proxy:
        hosts["county.example:80"] = site.port
        route = route_through(proxy)
        async with serving([f"127.0.0.1:{proxy.port}"], StraightWay(route)) as exit_:
            asks = [get("http://county.example/a", "Proxy-Authorization: Basic bm9uZQ==")]
            if tunnel:
                asks = [connect("county.example:80"), get("/a")]
            assert (await said(exit_.port, *asks, enough=PAGE)).endswith(PAGE)
            assert proxy.requests == ["CONNECT county.example:80" if tunnel else "GET http://county.example/a"]
            assert b"roxy-" not in site.heard
            assert route.meter.requests == 1
            assert route.meter.received_bytes >= exit_.received_bytes > len(PAGE)
            assert route.meter.sent_bytes >= exit_.sent_bytes > 0


FAULTS = [
    (Fault.REFUSES_LOGIN, FailureKind.PROXY),
    (Fault.FORBIDS, FailureKind.ACCESS_POLICY),
    (Fault.FAILS, FailureKind.PROXY),
    (Fault.HANGS, FailureKind.PROXY),
    (Fault.CLOSES, FailureKind.PROXY),
    (Fault.GARBAGE, FailureKind.PROXY),
    (Fault.CLOSES_TUNNEL, FailureKind.PROXY),
    (Fault.GARBAGE_IN_TUNNEL, FailureKind.PROXY),
]


@pytest.mark.req("P3")
@pytest.mark.parametrize(("fault", "expected"), FAULTS)
async def test_what_a_proxy_does_is_told_as_the_proxys(fault: Fault, expected: FailureKind) -> None:
    async with RawSite() as site, FaultyProxy({"county.example:443": site.port}) as proxy:
        proxy.fault = fault
        way = StraightWay(route_through(proxy))
        limits = BrowserProxyLimits(connect_seconds=0.3, idle_seconds=5)
        async with serving([f"127.0.0.1:{proxy.port}"], way, limits=limits) as exit_:
            await said(exit_.port, connect("county.example:443") + b"hello")
            failure = exit_.trouble("https://county.example/")
            assert failure is not None
            assert failure.kind is expected
            assert "canary" not in failure.message
            assert site.heard == b"" or fault is Fault.GARBAGE_IN_TUNNEL


@pytest.mark.parametrize("tunnel", [True, False])
async def test_a_refusal_of_the_provider_is_told_by_its_code(tunnel: bool) -> None:
    async with FakeBrightData("hl_1", {"dc": FakeZone("datacenter", "pw")}, {}) as provider:
        provider.refuse["county.example"] = Refusal("policy_20050")
        (one,) = parse_proxies([Secret(f"http://brd-customer-hl_1-zone-dc:pw@127.0.0.1:{provider.port}")])
        route = replace(one.route(ProxyLocation()), read_refusal=read_refusal)
        async with serving([f"127.0.0.1:{provider.port}"], StraightWay(route)) as exit_:
            asked = connect("county.example:80") if tunnel else get("http://county.example/")
            got = await said(exit_.port, asked)
            assert got.startswith(b"HTTP/1.1 502 ")
            assert kind(exit_, "http://county.example/") is FailureKind.ACCESS_POLICY


async def test_private_targets_are_not_asked_of_a_proxy_either() -> None:
    async with FaultyProxy({}) as proxy:
        way = StraightWay(route_through(proxy))
        async with serving([f"127.0.0.1:{proxy.port}"], way, names=dict(NAMES)) as exit_:
            for host in ("127.0.0.1", "localhost", "metadata.internal", "second.example", "[::1]", "0x7f.1"):
                assert (await said(exit_.port, connect(f"{host}:8080"))).startswith(b"HTTP/1.1 403 ")
                assert (await said(exit_.port, get(f"http://{host}:8080/"))).startswith(b"HTTP/1.1 403 ")
        assert proxy.requests == []

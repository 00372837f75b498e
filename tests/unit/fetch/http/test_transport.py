import asyncio
import gzip
import socket
import threading
import traceback
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from swath.demo.county import DemoCountyServer
from swath.domain.errors import Failed
from swath.domain.execution_policy import ProxyType
from swath.domain.failure import FailureKind
from swath.fetch.egress.guard import EgressTarget
from swath.fetch.http.client.http1_client import Http1Client
from swath.fetch.http.client.limits import Deadlines, ResponseLimits
from swath.fetch.http.client.transport import DirectTransport
from swath.fetch.http.client.wreq_client import WreqClient
from swath.fetch.http.messages import Request, Response
from swath.fetch.proxies.route import Route
from tests.support.bounds import HANGING_SECONDS
from tests.unit.fetch.http.sites import (
    LoopbackGuard,
    TableResolver,
    WreqAlone,
    answering,
    loopback_transport,
    plain,
    raw_site,
)

pytestmark = pytest.mark.req("H1", "H3")

PAGE = b"<p>hello</p>" * 1000
LIMITS = ResponseLimits(body_bytes=100_000)


# Without TLS requests are spoken in the event loop, else by wreq: what is wanted of them is the same.
WAYS = pytest.mark.parametrize("way", [DirectTransport, WreqAlone], ids=["in the loop", "by wreq"])


@pytest.fixture(params=[DirectTransport, WreqAlone], ids=["in the loop", "by wreq"])
async def transport(request: pytest.FixtureRequest) -> AsyncIterator[DirectTransport]:
    made = loopback_transport(LIMITS, way=request.param)
    yield made
    await made.close()


async def failure_kind(transport: DirectTransport, request: Request) -> FailureKind:
    with pytest.raises(Failed) as raised:
        await transport.send(request)
    return raised.value.failure.kind


async def fetched(transport: DirectTransport, raw: bytes) -> Response:
    async with raw_site(answering(raw)) as url:
        return await transport.send(Request(url=url + "/"))


async def kind_of(transport: DirectTransport, raw: bytes) -> FailureKind:
    async with raw_site(answering(raw)) as url:
        return await failure_kind(transport, Request(url=url + "/"))


async def test_an_answer_comes_with_status_headers_and_body(transport: DirectTransport) -> None:
    response = await fetched(transport, plain(PAGE, b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"X-Odd: caf\xe9"))
    assert response.status == 200
    assert response.body == PAGE
    assert [value for name, value in response.headers if name == "set-cookie"] == ["a=1", "b=2"]
    assert response.header("x-odd") == "café"
    assert len(PAGE) < response.wire_bytes < len(PAGE) + 200


@pytest.mark.parametrize(
    ("encoding", "encoded"),
    [
        (b"gzip", gzip.compress(PAGE)),
        (b"x-gzip", gzip.compress(PAGE[:500]) + gzip.compress(PAGE[500:])),
        (b"deflate", zlib.compress(PAGE)),
        (b"deflate", zlib.compress(PAGE, wbits=-15)),
        (b"br", brotli.compress(PAGE)),
        (b"zstd", zstandard.compress(PAGE)),
        (b"br, gzip", gzip.compress(brotli.compress(PAGE))),
        (b"identity", PAGE),
    ],
    ids=["gzip", "two gzip members", "zlib", "bare deflate", "brotli", "zstd", "two encodings", "identity"],
)
async def test_encoded_bodies_are_decoded_and_counted_as_received(
    transport: DirectTransport, encoding: bytes, encoded: bytes
) -> None:
    response = await fetched(transport, plain(encoded, b"Content-Encoding: " + encoding))
    assert response.body == PAGE
    assert len(encoded) < response.wire_bytes < len(encoded) + 200


@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Temporary Redirect"])
async def test_redirects_are_not_followed(transport: DirectTransport, status: bytes) -> None:
    response = await fetched(transport, plain(b"", b"Location: /next", status=status))
    assert response.status == int(status[:3])
    assert response.header("location") == "/next"


async def test_cookies_are_not_remembered(transport: DirectTransport) -> None:
    heads: list[bytes] = []

    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(plain(b"", b"Set-Cookie: a=1; Path=/"))

    async with raw_site(handler) as url:
        await transport.send(Request(url=url + "/"))
        await transport.send(Request(url=url + "/"))
    assert len(heads) == 2
    assert b"cookie" not in heads[1].lower()


async def test_exactly_the_given_headers_and_body_are_sent(transport: DirectTransport) -> None:
    seen: list[bytes] = []

    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(head)
        seen.append(await reader.read(3))
        writer.write(plain(b""))

    async with raw_site(handler) as url:
        await transport.send(Request(url=url + "/p", method="POST", headers=(("X-One", "1"),), body=b"a=b"))
    lines = {line.split(b":")[0].lower() for line in seen[0].splitlines()[1:] if line}
    assert seen[0].startswith(b"POST /p ")
    assert seen[1] == b"a=b"
    assert lines == {b"host", b"x-one", b"content-length"}


async def test_a_post_without_a_body_says_so(transport: DirectTransport) -> None:
    heads: list[bytes] = []

    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(plain(b""))

    async with raw_site(handler) as url:
        await transport.send(Request(url=url + "/", method="POST"))
    assert b"content-length: 0" in heads[0].lower()


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", FailureKind.CONNECT),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", FailureKind.CONNECT),
        (b"GARBAGE\r\n\r\n", FailureKind.SERVER_ERROR),
        (plain(b"no gzip at all", b"Content-Encoding: gzip"), FailureKind.SERVER_ERROR),
        (plain(gzip.compress(PAGE)[:-20], b"Content-Encoding: gzip"), FailureKind.CONNECT),
        (plain(b"x", b"Content-Encoding: compress"), FailureKind.SERVER_ERROR),
        (plain(b"x" * 100_001), FailureKind.TOO_LARGE),
        (plain(gzip.compress(b"x" * 100_001), b"Content-Encoding: gzip"), FailureKind.TOO_LARGE),
        (plain(b"", b"X-Long: " + b"x" * 2_000_000), FailureKind.TOO_LARGE),
        (plain(b"", *[b"X-%d: " % number + b"x" * 5_000 for number in range(60)]), FailureKind.TOO_LARGE),
        (plain(b"", *[b"X-%d: x" % number for number in range(300)]), FailureKind.TOO_LARGE),
    ],
    ids=[
        *("closed", "cut short", "garbage", "bad gzip", "cut gzip", "unasked encoding", "large", "large decoded"),
        *("long header", "large head", "many headers"),
    ],
)
async def test_a_broken_answer_is_a_failure_of_the_right_kind(
    transport: DirectTransport, raw: bytes, kind: FailureKind
) -> None:
    assert await kind_of(transport, raw) == kind


async def test_a_large_body_that_announces_no_length_is_cut_off_at_the_cap(transport: DirectTransport) -> None:
    written = 0

    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _ in range(10_000):
            writer.write(b"x" * 65_536)
            await writer.drain()
            written += 65_536

    async with raw_site(handler) as url:
        assert await failure_kind(transport, Request(url=url + "/")) == FailureKind.TOO_LARGE
    assert written < 50_000_000  # of 655 MB, what the buffers between us took


async def test_a_refused_connection_is_a_connect_failure(transport: DirectTransport) -> None:
    async with raw_site(answering(b"")) as url:
        pass
    assert await failure_kind(transport, Request(url=url + "/ssl-TimedOut-dns")) == FailureKind.CONNECT


async def test_a_server_that_speaks_no_tls_is_a_tls_failure(transport: DirectTransport) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    assert await failure_kind(transport, Request(url=url)) == FailureKind.TLS
    server.close()


@pytest.mark.req("W3")
@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
async def test_a_site_that_drips_cannot_hold_us_beyond_the_time_limit(transport: DirectTransport, begin: bytes) -> None:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.005)

    async with raw_site(handler) as url:
        request = Request(url=url + "/", request_timeout_seconds=0.05)
        started = asyncio.get_running_loop().time()
        with pytest.raises(Failed) as raised:
            await transport.send(request)
        # Bytes that are no HTTP may be noticed first, but nothing takes longer than it may.
        assert raised.value.failure.kind in {FailureKind.TIMEOUT, FailureKind.SERVER_ERROR}
        assert asyncio.get_running_loop().time() - started < HANGING_SECONDS


@pytest.mark.req("W3")
async def test_a_name_that_is_not_found_in_time_is_a_timeout() -> None:
    class StuckGuard(LoopbackGuard):
        async def check_origin(self, origin: str) -> EgressTarget:
            await asyncio.sleep(60)
            raise AssertionError(origin)

    transport = DirectTransport(StuckGuard())
    with pytest.raises(Failed, match=r"no address within 0\.05 s") as raised:
        await transport.send(Request(url="http://county.example/", request_timeout_seconds=0.05))
    assert raised.value.failure.kind == FailureKind.TIMEOUT
    await transport.close()


@pytest.mark.req("W3")
async def test_looking_up_a_name_takes_from_the_time_of_the_request(
    transport: DirectTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check_origin(guard: LoopbackGuard, origin: str) -> EgressTarget:
        await asyncio.sleep(0.05)
        return EgressTarget("http", "county.example", 80, (ip_address("127.0.0.1"),))

    async def exchange(*given: Any, **named: Any) -> Response:
        until = named.get("until") or given[-1]
        return Response(url="", status=200, wire_bytes=round((until - asyncio.get_running_loop().time()) * 1_000))

    monkeypatch.setattr(LoopbackGuard, "check_origin", check_origin)
    monkeypatch.setattr(WreqClient, "exchange", exchange)
    monkeypatch.setattr(Http1Client, "exchange", exchange)
    left_ms = (await transport.send(Request(url="http://county.example/", request_timeout_seconds=10))).wire_bytes
    assert left_ms <= 9_950


@pytest.mark.req("Z6")
async def test_a_site_that_sends_faster_than_we_can_read_does_not_stop_the_others(transport: DirectTransport) -> None:
    flooded = threading.Event()

    def flood(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, suppress(OSError):
            connection.recv(10_000)
            flooded.set()
            while True:
                connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 5_000)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=flood, args=(server,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        waiting = asyncio.create_task(transport.send(Request(url=url, request_timeout_seconds=8)))
        await asyncio.to_thread(flooded.wait, 5)
        async with raw_site(answering(plain(PAGE))) as good:
            for _ in range(5):
                assert (await transport.send(Request(url=good + "/", request_timeout_seconds=5))).body == PAGE
        if isinstance(transport, WreqAlone):  # it goes on reading until the time is over, beside all else
            assert not waiting.done()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        else:
            with pytest.raises(Failed, match="the head of the answer is too large"):
                await waiting
        await asyncio.to_thread(thread.join, 5)


async def test_a_cancellation_stays_a_cancellation(transport: DirectTransport) -> None:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with raw_site(handler) as url:
        task = asyncio.create_task(transport.send(Request(url=url + "/")))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@WAYS
async def test_closing_fails_what_is_under_way_and_what_comes_later(way: type[DirectTransport]) -> None:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    transport = loopback_transport(way=way)
    async with raw_site(handler) as url:
        task = asyncio.create_task(transport.send(Request(url=url + "/")))
        await asyncio.sleep(0.02)
        await transport.close()
        with pytest.raises(Failed) as raised:
            await task
        assert raised.value.failure.kind == FailureKind.CONNECT
        with pytest.raises(Failed, match="closed"):
            await transport.send(Request(url=url + "/"))


@pytest.mark.parametrize(
    "request_",
    [
        Request(url="http://127.0.0.1:1/", headers=(("X", "a\nb"),)),
        Request(url="http://127.0.0.1:1/", method="BREW"),
        Request(url="http://127.0.0.1:1/", impersonate="netscape_4"),
    ],
    ids=["header", "method", "browser"],
)
async def test_a_request_that_cannot_be_sent_is_an_internal_failure(
    transport: DirectTransport, request_: Request
) -> None:
    assert await failure_kind(transport, request_) == FailureKind.INTERNAL


async def test_connections_are_shared_by_all_requests(transport: DirectTransport) -> None:
    async with DemoCountyServer() as county:
        for _ in range(20):
            await transport.send(Request(url=county.base_url + "/disclaimer"))
        assert county.counters.requests == 20
        assert len(county._connections) == 1


@pytest.mark.req("Z7", "property 39")
@pytest.mark.parametrize(
    "address", ["http://me:hunter2@{}/p?token=hunter3", "http://{}/p?token=hunter2", "me:hunter2@{}"]
)
async def test_what_is_secret_in_an_address_does_not_reach_messages(transport: DirectTransport, address: str) -> None:
    async with raw_site(answering(b"")) as url:
        pass
    with pytest.raises(Failed) as raised:
        await transport.send(Request(url=address.format(url.removeprefix("http://"))))
    assert "hunter" not in "".join(traceback.format_exception(raised.value))


async def test_a_request_may_ask_for_less_than_the_cap(transport: DirectTransport) -> None:
    async with raw_site(answering(plain(PAGE))) as url:
        assert (await transport.send(Request(url=url + "/", largest_bytes=len(PAGE)))).body == PAGE
        small = Request(url=url + "/", largest_bytes=len(PAGE) - 1)
        assert await failure_kind(transport, small) == FailureKind.TOO_LARGE


@pytest.mark.parametrize("length", [b"Content-Length: 99999", b"Transfer-Encoding: chunked"])
async def test_the_body_of_a_redirect_is_not_waited_for(transport: DirectTransport, length: bytes) -> None:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Encoding: nonsense\r\n" + length + b"\r\n\r\n")
        await asyncio.sleep(60)

    async with raw_site(handler) as url:
        response = await transport.send(Request(url=url + "/"))
    assert (response.status, response.body) == (302, b"")


@WAYS
@pytest.mark.req("Z6")
@pytest.mark.parametrize("announced", [b"", b"Content-Length: 10000\r\n"], ids=["unknown", "announced"])
@pytest.mark.parametrize("pause_seconds", [0.01, 60.0], ids=["drips", "stalls"])
async def test_a_body_that_comes_too_slowly_is_given_up_long_before_its_time_is_over(
    pause_seconds: float, announced: bytes, way: type[DirectTransport]
) -> None:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + announced + b"\r\n")
        while True:
            writer.write(b"x" * 10)
            await writer.drain()
            await asyncio.sleep(pause_seconds)

    limits = ResponseLimits(min_bytes_per_second=20_000, window_seconds=0.05, grace_seconds=0.1)
    transport = loopback_transport(limits, way=way)
    async with raw_site(handler) as url:
        started = asyncio.get_running_loop().time()
        with pytest.raises(Failed, match="less than 20000 bytes a second") as raised:
            await transport.send(Request(url=url + "/"))
        assert raised.value.failure.kind == FailureKind.TIMEOUT
        assert asyncio.get_running_loop().time() - started < HANGING_SECONDS
    await transport.close()


@WAYS
@pytest.mark.parametrize("announced", [b"", b"Content-Length: 20000\r\n"], ids=["unknown", "announced"])
async def test_a_body_that_is_slow_but_steady_comes_through(announced: bytes, way: type[DirectTransport]) -> None:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + announced + b"\r\n")
        for _ in range(20):
            writer.write(b"x" * 1_000)
            await writer.drain()
            await asyncio.sleep(0.04)

    # It takes longer than both together, and a busy machine may halt it for as long as one of them.
    limits = ResponseLimits(min_bytes_per_second=2_000, window_seconds=0.3, grace_seconds=0.3)
    transport = loopback_transport(limits, way=way)
    async with raw_site(handler) as url:
        response = await transport.send(Request(url=url + "/"))
    assert len(response.body) == 20_000
    await transport.close()


@pytest.mark.parametrize("size", [0, 64 * 1024, 64 * 1024 + 1])
async def test_an_answer_to_head_has_no_body_whatever_it_announces(transport: DirectTransport, size: int) -> None:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        await writer.drain()
        await asyncio.sleep(60)

    async with raw_site(handler) as url, asyncio.timeout(HANGING_SECONDS):
        assert (await transport.send(Request(url=url + "/", method="HEAD"))).body == b""


@WAYS
@pytest.mark.parametrize("size", [64 * 1024, 64 * 1024 + 1], ids=["at once", "in pieces"])
async def test_a_connection_is_let_go_when_its_body_is_no_longer_wanted(size: int, way: type[DirectTransport]) -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nx" % size)
        await writer.drain()
        begun.set()
        await reader.read()
        gone.set()

    transport = loopback_transport(way=way)
    async with raw_site(handler) as url:
        sending = asyncio.create_task(transport.send(Request(url=url + "/")))
        await asyncio.wait_for(begun.wait(), 60)
        await asyncio.sleep(0.1)  # its head and first byte are there
        assert not sending.done()
        sending.cancel()
        await asyncio.wait_for(gone.wait(), 60)
    await transport.close()


@WAYS
async def test_the_host_is_named_as_the_address_has_it_and_dialled_where_the_guard_says(
    way: type[DirectTransport],
) -> None:
    heads: list[bytes] = []

    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(plain(PAGE))

    transport = way(LoopbackGuard({"county.example": ["127.0.0.1"]}))
    async with raw_site(handler) as url:
        port = url.rpartition(":")[2]
        for spelling in ("county.example", "COUNTY.Example.", "county%2Eexample"):
            response = await transport.send(Request(url=f"http://{spelling}:{port}/x"))
            assert (response.url, response.body) == (f"http://county.example:{port}/x", PAGE)
    assert all(f"host: county.example:{port}\r\n".encode() in head.lower() for head in heads)
    await transport.close()


@WAYS
async def test_a_name_that_moves_is_dialled_at_its_new_address(way: type[DirectTransport]) -> None:
    guard = LoopbackGuard({"county.example": ["127.0.0.1"]})
    transport = way(guard)
    async with raw_site(answering(plain(PAGE))) as url:
        request = Request(url=url.replace("127.0.0.1", "county.example") + "/")
        assert (await transport.send(request)).body == PAGE
        assert isinstance(guard._resolver, TableResolver)
        guard._resolver.names["county.example"] = ["127.0.0.2"]  # nobody listens there
        assert await failure_kind(transport, request) == FailureKind.CONNECT
    await transport.close()


@WAYS
async def test_pools_that_are_not_used_any_more_go(monkeypatch: pytest.MonkeyPatch, way: type[DirectTransport]) -> None:
    monkeypatch.setattr("swath.fetch.http.client.transport._MOST_POOLS", 3)
    monkeypatch.setattr("swath.fetch.http.client.http1_client._MOST_POOLS", 3)
    transport = way(LoopbackGuard({f"site{number}.example": ["127.0.0.1"] for number in range(6)}))
    async with DemoCountyServer() as county:
        for number in range(6):
            url = county.base_url.replace("127.0.0.1", f"site{number}.example")
            await transport.send(Request(url=url + "/disclaimer"))
        for _ in range(100):
            if len(county._connections) <= 3:
                break
            await asyncio.sleep(0.01)
        assert len(county._connections) == 3
        assert len(transport._pools) + len(transport._http1._pools) == 3
    await transport.close()


async def test_an_answer_from_another_address_than_the_pinned_is_refused() -> None:
    exchanges = WreqClient(LIMITS, Deadlines())
    async with raw_site(answering(plain(PAGE))) as url:
        with pytest.raises(Failed) as raised:
            await exchanges.exchange(exchanges.client(1.0), Request(url=url + "/"), pinned=[ip_address("127.0.0.2")])
    assert raised.value.failure.kind == FailureKind.EGRESS_DENIED


async def test_a_request_with_a_route_is_not_sent_without_it(transport: DirectTransport) -> None:
    route = Route(
        tier=ProxyType.DATACENTER, name="dc-1", scheme="http", host="p", port=1, read_refusal=lambda *_, **__: None
    )
    assert await failure_kind(transport, Request(url="http://127.0.0.1:1/", route=route)) == FailureKind.INTERNAL


@pytest.mark.parametrize("browser", ["chrome_143", "Firefox-151", "safari_26_1"])
async def test_an_imitated_browser_skips_header_lines_that_it_cannot_read(
    transport: DirectTransport, browser: str
) -> None:
    odd = b"just words\r\n: value\r\nX Odd: a\r\nX-Spaced : b\r\nX-Folded: c\r\n  d\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n"
    async with raw_site(answering(head + odd + b"\r\nok")) as url:
        answer = await transport.send(Request(url=url + "/", impersonate=browser))
    assert (answer.body, answer.header("x-spaced"), answer.header("x-folded")) == (b"ok", "b", "c d")

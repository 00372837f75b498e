import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.testing.demo_county import DemoCounty
from swath.web.transport import Request, Response
from swath.web.wreq_transport import WreqTransport
from tests.web.sites import answering, plain, raw_site

pytestmark = pytest.mark.req("W3")

PAGE = b"<p>hello</p>" * 1000


@pytest.fixture
async def transport() -> AsyncIterator[WreqTransport]:
    made = WreqTransport(body_cap_bytes=100_000)
    yield made
    await made.close()


async def failure_kind(transport: WreqTransport, request: Request) -> FailureKind:
    with pytest.raises(Failed) as raised:
        await transport.send(request)
    return raised.value.failure.kind


async def fetched(transport: WreqTransport, raw: bytes) -> Response:
    async with raw_site(answering(raw)) as url:
        return await transport.send(Request(url=url + "/"))


async def kind_of(transport: WreqTransport, raw: bytes) -> FailureKind:
    async with raw_site(answering(raw)) as url:
        return await failure_kind(transport, Request(url=url + "/"))


async def test_an_answer_comes_with_status_headers_and_body(transport: WreqTransport) -> None:
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
        (b"identity", PAGE),
    ],
    ids=["gzip", "two gzip members", "zlib", "bare deflate", "identity"],
)
async def test_encoded_bodies_are_decoded_and_counted_as_received(
    transport: WreqTransport, encoding: bytes, encoded: bytes
) -> None:
    response = await fetched(transport, plain(encoded, b"Content-Encoding: " + encoding))
    assert response.body == PAGE
    assert len(encoded) < response.wire_bytes < len(encoded) + 200


@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Temporary Redirect"])
async def test_redirects_are_not_followed(transport: WreqTransport, status: bytes) -> None:
    response = await fetched(transport, plain(b"", b"Location: /next", status=status))
    assert response.status == int(status[:3])
    assert response.header("location") == "/next"


async def test_cookies_are_not_remembered(transport: WreqTransport) -> None:
    heads: list[bytes] = []

    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        writer.write(plain(b"", b"Set-Cookie: a=1; Path=/"))

    async with raw_site(handler) as url:
        await transport.send(Request(url=url + "/"))
        await transport.send(Request(url=url + "/"))
    assert len(heads) == 2
    assert b"cookie" not in heads[1].lower()


async def test_exactly_the_given_headers_and_body_are_sent(transport: WreqTransport) -> None:
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


async def test_a_post_without_a_body_says_so(transport: WreqTransport) -> None:
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
        (plain(b"x", b"Content-Encoding: br"), FailureKind.SERVER_ERROR),
        (plain(b"x" * 100_001), FailureKind.TOO_LARGE),
        (plain(b"", b"X-Long: " + b"x" * 2_000_000), FailureKind.TOO_LARGE),
    ],
    ids=["closed", "cut short", "garbage", "bad gzip", "cut gzip", "unasked encoding", "large", "large head"],
)
async def test_a_broken_answer_is_a_failure_of_the_right_kind(
    transport: WreqTransport, raw: bytes, kind: FailureKind
) -> None:
    assert await kind_of(transport, raw) == kind


async def test_a_large_body_that_announces_no_length_is_cut_off_at_the_cap(transport: WreqTransport) -> None:
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


async def test_a_refused_connection_is_a_connect_failure(transport: WreqTransport) -> None:
    async with raw_site(answering(b"")) as url:
        pass
    assert await failure_kind(transport, Request(url=url + "/ssl-TimedOut-dns")) == FailureKind.CONNECT


async def test_a_server_that_speaks_no_tls_is_a_tls_failure(transport: WreqTransport) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    assert await failure_kind(transport, Request(url=url)) == FailureKind.TLS
    server.close()


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
async def test_a_site_that_drips_cannot_hold_us_beyond_the_time_limit(transport: WreqTransport, begin: bytes) -> None:
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
        assert asyncio.get_running_loop().time() - started < 1.0


async def test_a_cancellation_stays_a_cancellation(transport: WreqTransport) -> None:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with raw_site(handler) as url:
        task = asyncio.create_task(transport.send(Request(url=url + "/")))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_closing_fails_what_is_under_way_and_what_comes_later() -> None:
    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    transport = WreqTransport()
    async with raw_site(handler) as url:
        task = asyncio.create_task(transport.send(Request(url=url + "/")))
        await asyncio.sleep(0.02)
        await transport.close()
        with pytest.raises(Failed):
            await task
        with pytest.raises(Failed, match="closed"):
            await transport.send(Request(url=url + "/"))


@pytest.mark.parametrize(
    "request_",
    [
        Request(url="http://127.0.0.1:1/", headers=(("X", "a\nb"),)),
        Request(url="http://127.0.0.1:1/", method="BREW"),
        Request(url="no address"),
    ],
    ids=["header", "method", "address"],
)
async def test_a_request_that_cannot_be_sent_is_an_internal_failure(
    transport: WreqTransport, request_: Request
) -> None:
    assert await failure_kind(transport, request_) == FailureKind.INTERNAL


async def test_connections_are_shared_by_all_requests(transport: WreqTransport) -> None:
    async with DemoCounty() as county:
        for _ in range(20):
            await transport.send(Request(url=county.base_url + "/disclaimer"))
        assert county.counters.requests == 20
        assert len(county._connections) == 1


async def test_credentials_in_an_address_do_not_reach_messages(transport: WreqTransport) -> None:
    async with raw_site(answering(b"")) as url:
        pass
    secret = url.replace("http://", "http://me:hunter2@") + "/p?token=hunter3"
    with pytest.raises(Failed) as raised:
        await transport.send(Request(url=secret))
    assert "hunter" not in raised.value.failure.message

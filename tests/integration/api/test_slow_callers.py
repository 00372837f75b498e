"""Callers that do not read, that send on behind their answer, that come in numbers: none of them holds up others."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from fastapi import Response

from swath.entrypoints.api import downloads, http_protocol, limits, middleware
from swath.entrypoints.api.server import ApiServer, bind_socket
from tests.integration.api.pages import served
from tests.integration.api.running import Api, check_envelope, running
from tests.integration.api.stored import with_files
from tests.support.bounds import HANGING_SECONDS

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

pytestmark = pytest.mark.req("I5", "Z5")

LARGE = 24 << 20  # more than the sockets of both sides take by themselves
DOWNLOAD = "/jobs/job/items/item/download?artifact=scan.pdf"


async def large(scope: Scope, receive: Receive, send: Send) -> None:
    """An app with much to say at once."""
    await Response(bytes(LARGE))(scope, receive, send)


@asynccontextmanager
async def listening(drain_seconds: float = 1.0) -> AsyncIterator[tuple[ApiServer, tuple[str, int]]]:
    bound = bind_socket("127.0.0.1", 0)
    listener = ApiServer(large, bound, drain_seconds)
    await listener.start()
    try:
        yield listener, bound.getsockname()[:2]
    finally:
        listener.stop()
        await listener.ended()


async def asked(address: tuple[str, int], path: str = "/", held_bytes: int = 4_096) -> socket.socket:
    """A connection on which something was asked for, and whose end takes little at a time."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, held_bytes)
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, address)
    await loop.sock_sendall(raw, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return raw


async def read_on(raw: socket.socket, most: int = LARGE) -> int:
    """How many bytes come until the connection ends, or there are so many."""
    got = 0
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(HANGING_SECONDS):
            while got < most and (piece := await asyncio.get_running_loop().sock_recv(raw, 1 << 20)):
                got += len(piece)
    raw.close()
    return got


async def test_whoever_does_not_read_an_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "UNREAD_SECONDS", 0.5)
    async with listening() as (_, address):
        raw = await asked(address)
        await asyncio.sleep(1.5)
        assert await read_on(raw) < LARGE


async def test_whoever_reads_slowly_gets_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "UNREAD_SECONDS", 1.0)
    loop, got = asyncio.get_running_loop(), 0
    async with listening() as (_, address):
        raw = await asked(address, held_bytes=256 << 10)
        begun = loop.time()
        while loop.time() - begun < 3.0:
            got += len(await loop.sock_recv(raw, 50_000))
            await asyncio.sleep(0.05)
        assert got < LARGE // 2
        assert got + await read_on(raw, LARGE - got) >= LARGE


async def test_a_controller_that_stops_does_not_wait_long_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "UNREAD_SECONDS", 10.0)  # looked at every two
    monkeypatch.setattr(http_protocol, "STOPPING_SECONDS", 0.2)
    async with listening(drain_seconds=30) as (listener, address):
        raw = await asked(address)
        await asyncio.sleep(0.1)
        listener.stop()
        await asyncio.wait_for(listener.ended(), 60)
        raw.close()


@pytest.mark.req("I2")
async def test_a_download_that_nobody_reads_makes_room_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "MAX_DOWNLOADS", 1)
    monkeypatch.setattr(downloads, "DOWNLOAD_WAIT_SECONDS", 0.3)
    monkeypatch.setattr(http_protocol, "UNREAD_SECONDS", 1.5)
    async with running(tmp_path) as api:
        await with_files(api, {"scan.pdf": bytes(LARGE)})
        async with served(api) as client:
            assert client.base_url.port is not None
            raw = await asked((client.base_url.host, client.base_url.port), DOWNLOAD)
            await asyncio.sleep(0.2)
            refused = await client.get(DOWNLOAD)
            check_envelope(refused)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
            assert int(refused.headers["retry-after"]) >= 1
            async with asyncio.timeout(HANGING_SECONDS):
                while (whole := await client.get(DOWNLOAD)).status_code == 429:
                    await asyncio.sleep(0.2)
            assert (whole.status_code, len(whole.content)) == (200, LARGE)
            assert await read_on(raw) < LARGE


@asynccontextmanager
async def busy(client: httpx.AsyncClient, count: int) -> AsyncIterator[None]:
    """So many connections on each of which something is under way."""
    held = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
            held.append(writer)
            writer.write(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        yield
    finally:
        for writer in held:
            writer.close()


async def test_of_too_many_connections_the_last_are_told_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 10)
    monkeypatch.setattr(limits, "RESERVED_CONNECTIONS", 0)
    async with served(api) as client:
        async with busy(client, 10):
            refused = await client.get("/scrapers")
            check_envelope(refused)
            assert (refused.status_code, refused.headers["connection"]) == (429, "close")
        async with asyncio.timeout(HANGING_SECONDS):
            while (await client.get("/scrapers")).status_code != 200:
                pass


@pytest.mark.parametrize("most", [10, 2_000])
def test_no_more_connections_than_there_are_descriptors_for(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", most)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (200, 4_096))
    assert http_protocol._connection_limit() == min(most, 150)


async def test_connections_beyond_those_are_cut(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(limits, "RESERVED_CONNECTIONS", 0)
    async with served(api) as client, busy(client, 2):
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


def rows(count: int) -> bytes:
    return b"".join(
        b"nonsense\n" if n == 3_000 else json.dumps({"parcel_id": f"{n % 1000:03}", "item_id": str(n)}).encode() + b"\n"
        for n in range(count)
    )


@pytest.mark.req("J2", "I1")
@pytest.mark.parametrize("path", ["/jobs/county/items?bad_rows=refuse", "/jobs"])
async def test_a_refusal_reaches_whoever_reads_only_when_all_is_sent(tmp_path: Path, path: str) -> None:
    """A socket that is closed over unread bytes is reset, and takes the answer with it."""
    body = rows(500_000)

    def posted(host: str, port: int) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(host, port, timeout=60)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/x-ndjson"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    async with running(tmp_path, max_body_bytes=1_000_000) as api, served(api) as client:
        await api.data("POST", "/jobs", json={"job_id": "county", "scraper_id": "typed"})
        for _ in range(3):
            assert client.base_url.port is not None
            status, answer = await asyncio.to_thread(posted, client.base_url.host, client.base_url.port)
            assert status == (413 if path == "/jobs" else 422)
            assert json.loads(answer)["success"] is False


async def test_the_rest_of_a_body_that_nobody_wants_is_not_waited_for(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", 0.3)
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", 0.3)
    async with served(api) as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(b"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n")
        ended = asyncio.create_task(reader.read())
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)
                if ended.done():
                    break
        assert (await asyncio.wait_for(ended, 60)).startswith(b"HTTP/1.1 404")
        writer.close()
        assert (await client.get("/scrapers")).status_code == 200


@pytest.mark.req("I1")
async def test_half_a_request_behind_another_does_not_get_into_its_answer(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 4.0)
    async with served(api) as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /heal")
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.req("I1")
@pytest.mark.parametrize("before", [b"", b"GET /scrapers HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
async def test_a_method_that_nobody_knows_is_not_allowed(api: Api, before: bytes) -> None:
    async with served(api) as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        if before:
            writer.write(before)
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(0.1)
        writer.write(b"FOO /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
    head, _, body = answer[answer.rindex(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = httpx.Headers(dict(line.split(": ", 1) for line in lines[1:]))
    assert lines[0] == "HTTP/1.1 405 Method Not Allowed"
    assert "GET" in headers["allow"]
    assert json.loads(body)["error"]["code"] == "method_not_allowed"


# -- what is neither a head nor a body ---------------------------------------------------------------------------------

AROUND = 1 << 20  # without a bound, it might as well be all that the memory takes
CHUNKED = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET /scrapers HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
AROUND_A_BODY = {
    "many trailers": b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * (AROUND // 6) + b"\r\n",
    "a long trailer": b"2\r\n{}\r\n0\r\nX: " + b"y" * AROUND + b"\r\n\r\n",
    "a long extension": b"2;" + b"y" * AROUND + b"\r\n{}\r\n0\r\n\r\n",
    "a long extension at the end": b"2\r\n{}\r\n0;" + b"y" * AROUND + b"\r\n\r\n",
}


async def _told(client: httpx.AsyncClient, *pieces: bytes) -> bytes:
    """All that is answered until the controller closes, whether or not it took everything."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    got = b""
    try:
        async with asyncio.timeout(HANGING_SECONDS):
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
            with contextlib.suppress(ConnectionError):
                while piece := await reader.read(65_536):
                    got += piece
    finally:
        writer.close()
    return got


@pytest.mark.parametrize("path", [b"/jobs", b"/nowhere"], ids=["read", "answered before"])
@pytest.mark.parametrize("what", AROUND_A_BODY)
async def test_what_stands_around_a_body_is_bounded(api: Api, what: str, path: bytes) -> None:
    """Nobody needs a key to send it, and it was kept as long as it came."""
    async with served(api) as client:
        answer = await _told(client, CHUNKED % path, AROUND_A_BODY[what], NEXT)
        assert b"example-mock" not in answer  # it went no further on that connection
        assert answer.count(b"HTTP/1.1 ") <= 1
        assert (await client.get("/health")).status_code == 200


async def test_a_body_in_a_thousand_chunks_with_a_few_trailers_is_read(api: Api) -> None:
    chunks = b"1;x=y\r\n \r\n" * 1_000 + b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 10 + b"\r\n"
    async with served(api) as client:
        answer = await _told(client, CHUNKED % b"/jobs", chunks, NEXT)
        assert answer.startswith(b"HTTP/1.1 422 ")
        assert b"example-mock" in answer


async def test_of_a_head_no_more_headers_are_kept_than_one_may_have() -> None:
    """Each takes many times the memory of its text, and those whose head never ends need no key."""
    async with listening() as (listener, (host, port)):
        _, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 20_000)
        await writer.drain()
        async with asyncio.timeout(HANGING_SECONDS):
            while not any(one._head_bytes > 80_000 for one in _protocols(listener)):
                await asyncio.sleep(0.01)
        (one,) = _protocols(listener)
        assert middleware.MAX_HEADERS < len(one.headers) <= middleware.MAX_HEADERS + 1
        writer.close()


def _protocols(listener: ApiServer) -> list[http_protocol.BoundedProtocol]:
    return [one for one in listener._server.server_state.connections if isinstance(one, http_protocol.BoundedProtocol)]


async def test_what_comes_behind_an_answer_is_read_over_to_a_bound(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "LINGER_BYTES", 1 << 20)
    monkeypatch.setattr(http_protocol, "LINGER_SECONDS", 600.0)
    monkeypatch.setattr(http_protocol, "LINGER_BYTES", 1 << 20)
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    async with served(api) as client:
        answer = await _told(client, CHUNKED % b"/nowhere", *([chunk] * 2_000), b"0\r\n\r\n", NEXT)
        assert b"example-mock" not in answer

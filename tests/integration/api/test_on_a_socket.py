"""The API on a real socket: what only a server and a network can do to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from swath.entrypoints.api import http_protocol
from swath.entrypoints.api.app import make_app
from swath.entrypoints.api.server import ApiServer, bind_socket, url_of_socket
from tests.integration.api.pages import served as listening
from tests.integration.api.running import Api, check_envelope, running
from tests.support.bounds import HANGING_SECONDS

GOOD = {"job_id": "a/b c", "scraper_id": "example-mock", "items": [{"item_id": "x/y%2Fz", "input": {"x": 1}}]}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[Api, httpx.AsyncClient]]:
    async with running(tmp_path, max_body_bytes=1_000_000) as api:
        bound = bind_socket("127.0.0.1", 0)
        listener = ApiServer(make_app(api.controller), bound, 1.0)
        await listener.start()
        async with httpx.AsyncClient(base_url=url_of_socket(bound), timeout=HANGING_SECONDS) as client:
            yield api, client
        listener.stop()
        await listener.ended()


@pytest.mark.req("I2")
async def test_slashes_in_ids(served: tuple[Api, httpx.AsyncClient]) -> None:
    _, client = served
    assert (await client.post("/jobs", json=GOOD)).status_code == 201
    answer = await client.get("/jobs/a%2Fb%20c/items/x%2Fy%252Fz")
    check_envelope(answer)
    assert answer.json()["data"]["item_id"] == "x/y%2Fz"


@pytest.mark.req("Z5", "I5")
@pytest.mark.parametrize("told", [True, False])
async def test_100_megabytes_are_refused_soon(served: tuple[Api, httpx.AsyncClient], told: bool) -> None:
    """With and without a Content-Length; and the controller goes on."""
    _, client = served
    host, port = client.base_url.host, client.base_url.port
    assert port is not None
    reader, writer = await asyncio.open_connection(host, port)
    length = b"Content-Length: 100000000" if told else b"Transfer-Encoding: chunked"
    head = b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + length + b"\r\n\r\n"
    piece = b" " * 100_000 if told else b"186a0\r\n" + b" " * 100_000 + b"\r\n"
    sent = 0
    writer.write(head)
    with contextlib.suppress(ConnectionError, TimeoutError):  # it stops listening long before the end
        async with asyncio.timeout(60):
            while sent < 1_000:
                writer.write(piece)
                await writer.drain()
                sent += 1
    assert sent < 1_000
    writer.transport.abort()
    del reader
    assert (await client.get("/scrapers")).status_code == 200


@pytest.mark.req("Z5", "I1")
async def test_the_answer_to_too_large_a_body_is_an_envelope(served: tuple[Api, httpx.AsyncClient]) -> None:
    _, client = served
    answer = await client.post("/jobs", content=b" " * 1_000_001, headers={"Content-Type": "application/json"})
    check_envelope(answer)
    assert answer.status_code == 413


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    "raw",
    [
        b"GET /jobs HTTP/1.1\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /%ff%fe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /jobs?\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http://evil.test/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 50_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    ],
)
async def test_odd_requests_cost_a_refusal_and_no_more(served: tuple[Api, httpx.AsyncClient], raw: bytes) -> None:
    _, client = served
    assert client.base_url.port is not None
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(raw)
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    assert not answer or answer.split(b" ")[1][:1] == b"4", answer[:200]
    assert (await client.get("/scrapers")).status_code == 200


@pytest.mark.req("Z5", "I1")
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"NONSENSE\r\n\r\n", "validation_error"),
        (b"GET /jobs?cursor=" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "payload_too_large"),
        (b"GET /jobs HTTP/1.1\r\nX: " + b"y" * 140_000, "payload_too_large"),
    ],
)
async def test_what_the_server_refuses_by_itself_has_the_envelope_too(
    served: tuple[Api, httpx.AsyncClient], raw: bytes, code: str
) -> None:
    """Properties 1 and 3: also where no request could be read at all."""
    _, client = served
    answers = []
    for _ in range(2):
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(raw)
        head, _, body = (await asyncio.wait_for(reader.read(), 60)).partition(b"\r\n\r\n")
        writer.close()
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        answers.append(httpx.Response(int(first.split()[1]), headers=headers, content=body))
    for answer in answers:
        check_envelope(answer)
        assert answer.json()["error"]["code"] == code
        assert answer.headers["connection"] == "close"
    assert answers[0].headers["x-request-id"] != answers[1].headers["x-request-id"]


@pytest.mark.req("Z5")
async def test_a_caller_that_goes_away_leaves_nothing(served: tuple[Api, httpx.AsyncClient]) -> None:
    _, client = served
    assert client.base_url.port is not None
    body = json.dumps(GOOD).encode()
    head = (
        b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "
        + str(len(body)).encode()
        + b"\r\n\r\n"
    )
    with socket.create_connection((client.base_url.host, client.base_url.port)) as raw:
        raw.sendall(head + body[:-1])
    await asyncio.sleep(0.2)
    assert (await client.get("/jobs")).json()["data"]["jobs"] == []


@pytest.mark.req("I1")
async def test_the_body_of_an_unknown_address_need_not_be_read(served: tuple[Api, httpx.AsyncClient]) -> None:
    _, client = served
    answer = await client.post("/nowhere", content=b"x" * 100_000)
    check_envelope(answer)
    assert answer.status_code == 404
    assert (await client.get("/scrapers")).status_code == 200


@pytest.fixture
async def bounded(tmp_path: Path) -> AsyncIterator[tuple[str, int]]:
    """The same behind BoundedProtocol."""
    async with running(tmp_path) as api, listening(api) as client:
        assert client.base_url.port is not None
        yield client.base_url.host, client.base_url.port


@pytest.mark.req("I5", "Z5")
@pytest.mark.parametrize("name", ["one header without end", "headers without end", "an address without end"])
async def test_a_head_without_end_is_cut_off(bounded: tuple[str, int], name: str) -> None:
    reader, writer = await asyncio.open_connection(*bounded)
    start = b"GET /" if name == "an address without end" else b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "
    piece = b"X: y\r\n" * 2_000 if name == "headers without end" else b"y" * 10_000
    writer.write(start)
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < 10_000_000:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            await asyncio.sleep(0.001)
    writer.transport.abort()
    del reader
    assert sent < 10_000_000


@pytest.mark.req("I5", "Z5")
async def test_a_head_that_does_not_come_is_not_waited_for(
    bounded: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.3)
    reader, writer = await asyncio.open_connection(*bounded)
    writer.write(b"GET /scrapers HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
    assert (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP/1.1 422")
    writer.close()
    async with httpx.AsyncClient(base_url="http://{}:{}".format(*bounded)) as client:
        for _ in range(3):  # on one connection, with pauses that are longer than a head may take
            assert (await client.get("/scrapers")).status_code == 200
            await asyncio.sleep(0.4)

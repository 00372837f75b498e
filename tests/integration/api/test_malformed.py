"""What is no request of HTTP/1.1 is answered 400, whatever its method; 405 is for methods that nobody knows."""

from __future__ import annotations

import asyncio
import contextlib
import json

import httpx
import pytest

from tests.integration.api.pages import served
from tests.integration.api.running import Api, check_envelope
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("I1", "Z5")

HOST = b"Host: 127.0.0.1\r\n"
JSON = HOST + b"Content-Type: application/json\r\n"
MALFORMED = {
    "a blank in a header's name": b"GET /jobs HTTP/1.1\r\n" + HOST + b"X y: z\r\n\r\n",
    "a NUL in a header": b"GET /jobs HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
    "a blank in the address": b"GET /jobs?a b HTTP/1.1\r\n" + HOST + b"\r\n",
    "another version": b"GET /jobs HTTP/9.1\r\n" + HOST + b"\r\n",
    "a folded first line": b"GET /jobs HTTP/1.1\r\n folded: 1\r\n" + HOST + b"\r\n",
    "no address": b"GET jobs HTTP/1.1\r\n" + HOST + b"\r\n",
    "a negative length": b"POST /jobs HTTP/1.1\r\n" + JSON + b"Content-Length: -1\r\n\r\n",
    "two lengths": b"POST /jobs HTTP/1.1\r\n" + JSON + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
    "a length and chunks": b"POST /jobs HTTP/1.1\r\n"
    + JSON
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk size that is none": b"POST /jobs HTTP/1.1\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a chunk longer than it says": b"POST /jobs HTTP/1.1\r\n"
    + JSON
    + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n",
}


async def _answer(client: httpx.AsyncClient, *pieces: bytes) -> bytes:
    """All that is answered, until the controller closes, perhaps before it has seen all that was sent."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    coming = asyncio.ensure_future(_all_of(reader))
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)  # only so that the pieces mostly come one by one
    answer = await asyncio.wait_for(coming, HANGING_SECONDS)
    writer.close()
    return answer


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    """Read as it comes: what a reset finds unread is lost."""
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while more := await reader.read(1 << 16):
            answer += more
    return answer


def _parsed(answer: bytes) -> httpx.Response:
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return httpx.Response(int(first.split()[1]), headers=dict(line.split(": ", 1) for line in lines), content=body)


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("split", [False, True])
async def test_a_malformed_request_is_a_400_in_the_envelope(api: Api, name: str, split: bool) -> None:
    raw = MALFORMED[name]
    async with served(api) as client:
        pieces = (raw[:3], raw[3:-8], raw[-8:]) if split else (raw,)
        answer = _parsed(await _answer(client, *pieces))
        check_envelope(answer)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "validation_error")
        assert answer.headers["connection"] == "close"
        assert (await client.get("/scrapers")).status_code == 200
        assert (await client.get("/jobs")).json()["data"]["jobs"] == []


async def test_nonsense_behind_a_request_does_not_take_its_answer_away(api: Api) -> None:
    """Two requests at once, the second malformed: the answer to the first is its own, or none."""
    async with served(api) as client:
        answer = await _answer(client, b"GET /scrapers HTTP/1.1\r\n" + HOST + b"\r\nGET /jobs HTTP/9.9\r\n\r\n")
    assert b"example-mock" in answer or not answer.startswith(b"HTTP/1.1 2")
    assert answer.count(b"HTTP/1.1 ") <= 2


async def test_an_answer_that_has_begun_is_not_followed_by_another(api: Api) -> None:
    """An address that nobody serves is answered before its body has come; what is wrong with that is not told."""
    head = b"POST /nowhere HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    async with served(api) as client:
        answer = await _answer(client, head, b"zz\r\n")
    assert answer.startswith(b"HTTP/1.1 404")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("method", [b"FOO", b"get", b"GETX"])
async def test_a_method_that_nobody_knows_is_still_405(api: Api, method: bytes) -> None:
    async with served(api) as client:
        answer = await _answer(client, method + b" /jobs HTTP/1.1\r\n" + HOST + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 405")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "method_not_allowed"


UPGRADES = {
    "websocket": b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA\r\n",
    "lost among headers": b"Connection: Upgrade\r\nUpgrade: x\r\n" + b"X: y\r\n" * 150,
}


@pytest.mark.req("I5")
@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_behind_an_upgrade_is_not_taken_for_a_request(api: Api, upgrade: str, chunked: bool) -> None:
    """A proxy that passes both on saw one request only; it has put nothing on the second, and let nobody in by it."""
    hidden = b"POST /jobs HTTP/1.1\r\n" + JSON + b'Content-Length: 30\r\n\r\n{"scraper_id": "example-mock"}'
    length = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % len(hidden)
    async with served(api) as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(b"POST /jobs HTTP/1.1\r\n" + JSON + UPGRADES[upgrade] + length + b"\r\n")
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HANGING_SECONDS)
        with contextlib.suppress(ConnectionError):
            writer.write(hidden)
            answer += await asyncio.wait_for(reader.read(), HANGING_SECONDS)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 4")
        assert answer.count(b"HTTP/1.1 ") == 1
        if upgrade in ("websocket", "h2c"):
            assert b"Upgrade" in answer
        assert (await client.get("/jobs")).json()["data"]["jobs"] == []


async def test_an_upgrade_without_a_body_is_answered_and_nothing_more(api: Api) -> None:
    """As some programs ask at first. HTTP lets a server go on as before."""
    async with served(api) as client:
        for upgrade in (UPGRADES["websocket"], UPGRADES["h2c"]):
            head = b"GET /scrapers HTTP/1.1\r\n" + HOST + upgrade + b"\r\n"
            answer = await _answer(client, head, b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert b"example-mock" in answer
            assert answer.count(b"HTTP/1.1 ") == 1

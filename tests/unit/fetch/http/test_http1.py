"""HTTP/1.1 in the event loop: what goes over the wire, what becomes of a connection, and where it leads."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from itertools import pairwise
from typing import Any

import aiohappyeyeballs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import Failed
from swath.domain.execution_policy import Timeouts
from swath.domain.failure import FailureKind
from swath.fetch.http.client import http1_client
from swath.fetch.http.client.http1_connection import Http1Connection
from swath.fetch.http.client.limits import BodyProgress, Deadlines, ResponseLimits, StallDetector, TimeLimit
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.client.transport import DirectTransport
from swath.fetch.http.messages import Request
from tests.support.clock import FakeClock
from tests.unit.fetch.http.sites import LoopbackGuard, loopback_transport

pytestmark = pytest.mark.req("H1", "H3")

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
Talk = Callable[["Talking", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Talking:
    """A server for whole connections. `asked` has the heads of all requests, by connection."""

    def __init__(self) -> None:
        self.base_url = ""
        self.asked: list[list[bytes]] = []

    async def heads(self, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Of one connection."""
        mine: list[bytes] = []
        self.asked.append(mine)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                mine.append(await reader.readuntil(b"\r\n\r\n"))
                yield mine[-1]


@asynccontextmanager
async def serving(talk: Talk, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[Talking]:
    """Lets `talk` do as it likes with each connection."""
    made, tasks = Talking(), set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(asyncio.CancelledError, ConnectionError):
                await talk(made, reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, host, port)
    made.base_url = f"http://{host}:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def talking(
    *answers: bytes, closes: bool = False, host: str = "127.0.0.1", port: int = 0
) -> AbstractAsyncContextManager[Talking]:
    """Answers the requests of each connection in turn, over and over; `closes` it after each, without a word."""

    async def talk(made: Talking, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = 0
        async for _ in made.heads(reader):
            writer.write(answers[number % len(answers)])
            await writer.drain()
            number += 1
            if closes:
                return

    return serving(talk, host, port)


@pytest.fixture
async def transport() -> AsyncIterator[DirectTransport]:
    made = loopback_transport()
    yield made
    await made.close()


async def test_a_request_is_written_as_it_was_given_with_the_host_first(transport: DirectTransport) -> None:
    headers = (("User-Agent", "us"), ("X-Odd", "café"), ("Content-Length", "999"), ("transfer-encoding", "chunked"))
    async with talking(HELLO) as site:
        await transport.send(Request(url=site.base_url + "/a?b=c", headers=headers))
        await transport.send(Request(url=site.base_url + "/", headers=(("host", "other.example"),)))
        await transport.send(Request(url=site.base_url + "/", method="DELETE"))
    host = site.base_url.removeprefix("http://").encode()
    assert site.asked[0] == [
        b"GET /a?b=c HTTP/1.1\r\nHost: " + host + b"\r\nUser-Agent: us\r\nX-Odd: caf\xc3\xa9\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: other.example\r\n\r\n",
        b"DELETE / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n",
    ]


@pytest.mark.req("Z5")
@pytest.mark.parametrize(
    "header",
    [("X", "a\r\nEvil: 1"), ("X", "a\0"), ("X\r\nEvil", "1"), ("X:", "1"), ("", "1"), ("X Y", "1"), ("é", "1")],
)
async def test_no_header_can_become_two_or_something_else(transport: DirectTransport, header: tuple[str, str]) -> None:
    async with talking(HELLO) as site:
        with pytest.raises(Failed, match="cannot be sent") as raised:
            await transport.send(Request(url=site.base_url + "/", headers=(header,)))
    assert raised.value.failure.kind == FailureKind.INTERNAL
    assert site.asked == []


async def test_a_connection_serves_one_request_after_the_other(transport: DirectTransport) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: 1\r\n\r\n"
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + HELLO
    empty = b"HTTP/1.1 204 No Content\r\n\r\n"
    moved = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 3\r\n\r\nabc"
    async with talking(HELLO, chunked, interim, empty, moved) as site:
        got = [await transport.send(Request(url=site.base_url + "/")) for _ in range(10)]
    assert [(one.status, one.body) for one in got[:5]] == [
        *((200, b"hello"), (200, b"hello"), (200, b"hello"), (204, b""), (302, b""))
    ]
    assert got[1].headers == (("transfer-encoding", "chunked"),)
    assert got[2].headers == (("content-length", "5"),)
    assert len(site.asked) == 1
    assert len(site.asked[0]) == 10


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        HELLO + b"x",
        HELLO + HELLO,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 9\r\n\r\nabc",
    ],
    ids=["told so", "old version", "a byte more", "a second answer", "two lengths", "not read to its end"],
)
async def test_a_connection_that_may_have_more_to_say_is_not_used_again(
    transport: DirectTransport, answer: bytes
) -> None:
    async with talking(answer) as site:
        got = [await transport.send(Request(url=site.base_url + "/")) for _ in range(3)]
    assert {one.body for one in got} <= {b"hello", b""}
    assert [len(heads) for heads in site.asked] == [1, 1, 1]


async def test_one_that_the_server_has_closed_meanwhile_is_not_used_again(transport: DirectTransport) -> None:
    async with talking(HELLO, closes=True) as site:
        for _ in range(3):
            assert (await transport.send(Request(url=site.base_url + "/"))).body == b"hello"
            await asyncio.sleep(0.02)
    assert len(site.asked) == 3


async def test_nor_when_the_event_loop_has_not_heard_of_it_yet(transport: DirectTransport) -> None:
    async with talking(HELLO, closes=True) as site:
        for _ in range(10):
            assert (await transport.send(Request(url=site.base_url + "/"))).body == b"hello"
    assert len(site.asked) == 10


async def test_a_server_that_keeps_connections_for_a_moment_only_is_soon_known(transport: DirectTransport) -> None:
    async def talk(made: Talking, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for _ in made.heads(reader):
            if len(made.asked[-1]) > 1:
                return  # it closes under the second request, as one does whose patience ended on its way
            writer.write(HELLO)

    async with serving(talk) as site:
        assert (await transport.send(Request(url=site.base_url + "/"))).body == b"hello"
        with pytest.raises(Failed, match="closed early") as raised:
            await transport.send(Request(url=site.base_url + "/"))
        assert raised.value.failure.kind == FailureKind.CONNECT
        (pool,) = transport._http1._pools.values()
        assert pool.idle_seconds < 1
        await asyncio.sleep(2 * pool.idle_seconds)
        assert (await transport.send(Request(url=site.base_url + "/"))).body == b"hello"
        await asyncio.sleep(2 * pool.idle_seconds)
        assert (await transport.send(Request(url=site.base_url + "/"))).body == b"hello"
    assert [len(heads) for heads in site.asked] == [2, 1, 1]


async def test_a_server_that_is_not_understood_is_asked_by_wreq_from_then_on(transport: DirectTransport) -> None:
    twice = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    async with talking(twice, closes=True) as site, talking(HELLO) as other:
        with pytest.raises(Failed, match="no HTTP") as raised:
            await transport.send(Request(url=site.base_url + "/"))
        assert raised.value.failure.kind == FailureKind.SERVER_ERROR
        assert (await transport.send(Request(url=site.base_url + "/"))).body == b"hello"
        await transport.send(Request(url=other.base_url + "/"))
    assert [url for url, *_ in transport._pools] == [site.base_url]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_its_pages_are_asked_for_again_at_once_and_nothing_else_is(
    transport: DirectTransport, method: str
) -> None:
    twice = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    async with talking(twice, closes=True) as site:
        session = WebSession(transport, Timeouts(), FakeClock())
        if method == "GET":
            assert (await session.get(site.base_url + "/")).text == "hello"
            assert (await session.get(site.base_url + "/")).text == "hello"
            assert (session.requests, len(site.asked)) == (3, 3)
        else:
            with pytest.raises(Failed, match="no HTTP"):
                await session.post(site.base_url + "/", data={"a": "b"})
            assert (session.requests, len(site.asked)) == (1, 1)


async def test_a_page_that_we_cut_off_ourselves_is_not_whole(transport: DirectTransport) -> None:
    async with talking(b"HTTP/1.1 200 OK\r\n\r\n<p>first half") as site:
        sending = asyncio.create_task(transport.send(Request(url=site.base_url + "/")))
        while not site.asked:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await transport.close()
        with pytest.raises(Failed, match="closed early") as raised:
            await asyncio.wait_for(sending, 60)
    assert raised.value.failure.kind == FailureKind.CONNECT


async def test_a_connection_that_has_not_sent_all_is_not_used_again(transport: DirectTransport) -> None:
    async def talk(made: Talking, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for head in made.heads(reader):
            if head.startswith(b"POST"):
                writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
                await asyncio.sleep(60)  # and reads no more
            writer.write(HELLO)

    async with serving(talk) as site:
        large = Request(url=site.base_url + "/", method="POST", body=b"x" * 20_000_000)
        assert (await transport.send(large)).status == 413
        assert (await transport.send(Request(url=site.base_url + "/", request_timeout_seconds=5))).body == b"hello"
    assert len(site.asked) == 2


async def test_a_connection_ends_with_its_answer_when_its_pool_is_gone(
    transport: DirectTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1_client, "_MOST_POOLS", 1)
    answers, gone = asyncio.Event(), asyncio.Event()

    async def talk(made: Talking, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for _ in made.heads(reader):
            await answers.wait()
            writer.write(HELLO)
        gone.set()

    async with serving(talk) as slow, talking(HELLO) as other:
        sending = asyncio.create_task(transport.send(Request(url=slow.base_url + "/")))
        while not slow.asked:
            await asyncio.sleep(0.01)
        await transport.send(Request(url=other.base_url + "/"))
        answers.set()
        assert (await sending).body == b"hello"
        await asyncio.wait_for(gone.wait(), 60)


@pytest.mark.parametrize("given", [{"headers": (("X", 5),)}, {"headers": [("X", "1")]}, {"body": "text"}])
async def test_what_is_no_request_is_told_as_a_failure(transport: DirectTransport, given: dict[str, Any]) -> None:
    with pytest.raises(Failed, match="cannot be sent") as raised:
        await transport.send(Request(url="http://127.0.0.1:1/", method="POST", **given))
    assert raised.value.failure.kind == FailureKind.INTERNAL


@pytest.mark.parametrize("coding", [b"x", b"xchunked", b"chunked, x"])
async def test_a_coding_that_is_unknown_lasts_until_the_end_of_the_connection(
    transport: DirectTransport, coding: bytes
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: " + coding + b"\r\n\r\nhello"
    async with talking(answer, closes=True) as site:
        assert (await transport.send(Request(url=site.base_url + "/"))).body == b"hello"


async def test_one_that_says_something_unasked_is_not_used_again(transport: DirectTransport) -> None:
    async def talk(made: Talking, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for _ in made.heads(reader):
            writer.write(HELLO)
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")

    async with serving(talk) as site:
        for _ in range(3):
            assert (await transport.send(Request(url=site.base_url + "/"))).body == b"hello"
            await asyncio.sleep(0.06)
    assert len(site.asked) == 3


async def test_connections_that_nobody_uses_are_closed(
    transport: DirectTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1_client, "IDLE_SECONDS", 0.05)
    gone = asyncio.Event()

    async def talk(made: Talking, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for _ in made.heads(reader):
            writer.write(HELLO)
        gone.set()

    async with serving(talk) as site:
        await transport.send(Request(url=site.base_url + "/"))
        await asyncio.wait_for(gone.wait(), 60)


async def test_of_several_addresses_one_that_answers_is_found() -> None:
    async with talking(HELLO) as site:
        port = site.base_url.rpartition(":")[2]
        transport = DirectTransport(LoopbackGuard({"county.example": ["127.0.0.9", "::1", "127.0.0.1"]}))
        assert (await transport.send(Request(url=f"http://county.example:{port}/"))).body == b"hello"
        await transport.close()


@pytest.mark.req("Z4")
async def test_connections_to_where_a_name_was_are_not_used_any_more() -> None:
    guard = LoopbackGuard({"county.example": ["127.0.0.1"]})
    transport = DirectTransport(guard)
    async with talking(HELLO) as then:
        port = int(then.base_url.rpartition(":")[2])
        request = Request(url=f"http://county.example:{port}/")
        async with talking(HELLO, host="127.0.0.2", port=port) as now:
            for address in ("127.0.0.1", "127.0.0.2", "127.0.0.2"):
                guard._resolver.names["county.example"] = [address]  # type: ignore[attr-defined]  # it is our table
                await transport.send(request)
        assert [len(heads) for heads in (*then.asked, *now.asked)] == [1, 2]
    await transport.close()


async def test_nothing_is_sent_when_the_transport_was_closed_while_it_dialled(
    transport: DirectTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    dial = aiohappyeyeballs.start_connection

    async def closing(*given: Any, **named: Any) -> socket.socket:
        dialled = await dial(*given, **named)
        await transport.close()
        return dialled

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", closing)
    async with talking(HELLO) as site:
        with pytest.raises(Failed, match="closed early"):
            await transport.send(Request(url=site.base_url + "/"))
    assert site.asked in ([], [[]])


@pytest.mark.req("W3")
async def test_an_address_that_never_answers_costs_no_more_than_the_time_for_connecting(
    transport: DirectTransport,
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(5):  # its queue is full then, and the system answers nobody who comes
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(Failed, match="time for connecting") as raised:
            await transport.send(Request(url=url, connect_timeout_seconds=0.1))
    assert raised.value.failure.kind == FailureKind.TIMEOUT


class Wire(asyncio.Transport):
    """Takes what is written, and knows when it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self.turns: list[str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.turns.append("pause")

    def resume_reading(self) -> None:
        self.turns.append("resume")

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.mark.req("Z6")
async def test_others_have_a_turn_before_more_of_a_large_body_is_read() -> None:
    deadlines, loop, wire = Deadlines(), asyncio.get_running_loop(), Wire()
    connection = Http1Connection(loop, ResponseLimits(), StallDetector(deadlines, 1, 60.0, 60.0))
    connection.connection_made(wire)
    pace = BodyProgress(TimeLimit(deadlines, loop.time() + 60))
    answer = asyncio.create_task(connection.answer_to(Request(url="http://a.example/"), b"", pace))
    await asyncio.sleep(0)
    connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n")
    assert wire.turns == []
    connection.data_received(b"x" * 100_000)
    assert wire.turns == ["pause"]
    await asyncio.sleep(0)
    assert wire.turns == ["pause", "resume"]
    connection.data_received(b"x" * 100_000)
    assert len((await answer).body) == 200_000
    assert wire.turns == ["pause", "resume"]


def read_in_pieces(raw: bytes, cuts: list[int], end: Exception | None = None) -> tuple[int, bytes] | FailureKind:
    """Status and body of an answer that comes cut so, after which the connection ends."""

    async def read() -> tuple[int, bytes] | FailureKind:
        limits, deadlines = ResponseLimits(body_bytes=10_000), Deadlines()
        loop = asyncio.get_running_loop()
        stalls = StallDetector(deadlines, 1, 60.0, 60.0)
        connection = Http1Connection(loop, limits, stalls)
        connection.connection_made(Wire())
        pace = BodyProgress(TimeLimit(deadlines, loop.time() + 60))
        answer = asyncio.create_task(connection.answer_to(Request(url="http://a.example/"), b"", pace))
        await asyncio.sleep(0)
        places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
        for start, stop in pairwise(places):
            connection.data_received(raw[start:stop])
        connection.connection_lost(end)
        try:
            response = await asyncio.wait_for(answer, 60)
        except Failed as failed:
            return FailureKind(failed.failure.kind)
        finally:
            assert not stalls._under_way
        return response.status, response.body

    return asyncio.run(read())


ANSWERS: list[tuple[bytes, tuple[int, bytes] | FailureKind]] = [
    (HELLO, (200, b"hello")),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", (200, b"hello")),
    (b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: \r\nx-b:  caf\xe9 \r\n\r\nhello", (200, b"hello")),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Gone\r\nContent-Length: 0\r\n\r\n", (404, b"")),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhello", FailureKind.CONNECT),
    (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", (200, b"hello")),
    (b"\r\n\r\nHTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", (301, b"")),
    (b"HTTP/1.1 2000 OK\r\n\r\n", FailureKind.SERVER_ERROR),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", FailureKind.SERVER_ERROR),
]


@given(answer=st.sampled_from(ANSWERS), cuts=st.lists(st.integers(0, 200), max_size=12))
def test_it_does_not_matter_in_which_pieces_an_answer_comes(
    answer: tuple[bytes, tuple[int, bytes] | FailureKind], cuts: list[int]
) -> None:
    raw, expected = answer
    assert read_in_pieces(raw, cuts) == expected
    assert read_in_pieces(raw, list(range(len(raw)))) == expected


def test_a_body_without_a_length_is_not_whole_when_its_connection_is_reset() -> None:
    raw = b"HTTP/1.1 200 OK\r\n\r\nhello"
    assert read_in_pieces(raw, []) == (200, b"hello")
    assert read_in_pieces(raw, [], ConnectionResetError()) is FailureKind.CONNECT

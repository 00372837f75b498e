import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.demo.county import DemoCountyServer, FaultSettings
from swath.demo.county.http import BODY_LIMIT_BYTES, Connection
from swath.demo.county.server import Responder
from tests.unit.demo.county.client import Client, until

pytestmark = pytest.mark.req("K5")

ECHO = b"GET /echo?n=%d HTTP/1.1\r\nHost: demo\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write_eof(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    abort = close


async def alive(county: DemoCountyServer) -> None:
    """Show that the site still answers, and that nothing of what came before is open."""
    async with Client(county.base_url) as visitor:
        assert (await visitor.get("/echo")).status == 200
    await until(lambda: county.counters.open_requests == county.counters.open_items == 0)


async def test_a_connection_serves_many_requests(county: DemoCountyServer, client: Client) -> None:
    for _ in range(50):
        assert "connection" not in (await client.get("/echo")).headers
    assert len(county._connections) == 1


async def test_pipelined_requests_are_answered_in_order(county: DemoCountyServer, client: Client) -> None:
    county.switches = FaultSettings(latency_ms=0.1, latency_jitter_ms=0.5)
    await client.send(b"".join(ECHO % number for number in range(300)))
    for number in range(300):
        assert b'"n": "%d"' % number in (await client.receive()).body
    await alive(county)


async def test_a_client_that_asks_faster_than_it_is_answered_has_to_wait() -> None:
    connection, wire = Connection(Responder(FaultSettings(latency_ms=0.1)), set()), Wire()
    connection.connection_made(wire)
    connection.data_received(b"".join(ECHO % number for number in range(200)))
    assert not wire.reading
    await until(lambda: wire.reading)
    assert 90 < wire.written.count(b"HTTP/1.1 200 OK") < 110
    connection.connection_lost(None)


async def test_a_request_may_come_byte_by_byte(client: Client) -> None:
    request = client.request("POST", "/echo", b"a=1&b=2", "application/x-www-form-urlencoded")
    for position in range(len(request)):
        await client.send(request[position : position + 1])
        await asyncio.sleep(0)
    assert b'"form": {"a": "1", "b": "2"}' in (await client.receive()).body


async def test_a_chunked_body_is_read(client: Client) -> None:
    head = b"POST /echo HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    await client.send(head + b"3\r\n[1,\r\n2\r\n2]\r\n0\r\nTrailer: x\r\n\r\n")
    assert b'"json": [1, 2]' in (await client.receive()).body


@pytest.mark.parametrize("asked", [b"HTTP/1.1\r\nConnection: close", b"HTTP/1.0"])
async def test_the_connection_closes_when_the_client_asks_for_it(client: Client, asked: bytes) -> None:
    await client.send(b"GET /echo %b\r\n\r\n" % asked)
    assert (await client.receive()).headers["connection"] == "close"
    assert await client.at_end()


async def test_an_old_client_may_keep_the_connection(client: Client) -> None:
    for _ in range(2):
        await client.send(b"GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await client.receive()).headers["connection"] == "keep-alive"


async def test_a_whole_url_is_understood_as_proxies_send_it(client: Client) -> None:
    await client.send(b"GET http://demo.local:8080/echo?n=1 HTTP/1.1\r\nHost: demo.local:8080\r\n\r\n")
    assert b'"n": "1"' in (await client.receive()).body


async def test_a_client_that_waits_for_it_is_told_to_go_on(client: Client) -> None:
    head = b"POST /echo HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    await client.send(head)
    assert (await client.receive(has_body=False)).status == 100
    await client.send(b"{}")
    assert (await client.receive()).status == 200


async def test_an_offer_to_upgrade_is_answered_as_if_it_had_not_been_made(
    county: DemoCountyServer, client: Client
) -> None:
    await client.send(b"GET /echo HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert (await client.receive()).status == 200
    assert await client.at_end()
    await alive(county)


@pytest.mark.parametrize(
    "garbage",
    [
        *(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET\r\n\r\n", b"\0" * 50_000),
        *(b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"BREW /pot HTTP/1.1\r\n\r\n"),
        b"POST /echo HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /echo HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: %b\r\n\r\n" % (b"9" * 6_000),
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_rubbish_is_a_bad_request_and_does_no_harm(
    county: DemoCountyServer, client: Client, garbage: bytes
) -> None:
    await client.send(garbage)
    assert (await client.receive()).status == 400
    assert await client.at_end()
    await client.leave()
    await alive(county)


async def test_rubbish_after_good_requests_is_refused_after_their_answers(
    county: DemoCountyServer, client: Client
) -> None:
    county.switches = FaultSettings(latency_ms=1)
    await client.send(ECHO % 1 + ECHO % 2 + b"rubbish\r\n\r\n")
    assert [(await client.receive()).status for _ in range(3)] == [200, 200, 400]
    await client.leave()
    await alive(county)


async def send_without_end(client: Client, start: bytes, piece: bytes) -> int:
    """Send pieces until the site has had enough, and return its answer; 8 MB are more than any site should take."""
    await client.send(start)

    async def go_on() -> None:
        for _ in range(8_000_000 // len(piece)):
            await client.send(piece)

    sending = asyncio.create_task(go_on())
    async with asyncio.timeout(60):
        answer = await client.receive()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await client.leave()
    return answer.status


@pytest.mark.parametrize(
    ("start", "piece", "status"),
    [
        (b"GET /echo HTTP/1.1\r\nX: ", b"x" * 10_000, 431),
        (b"GET /echo HTTP/1.1\r\n", b"X: y\r\n" * 1_000, 431),
        (b"GET /", b"x" * 10_000, 431),
        (b"POST /echo HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n", b"x" * 10_000, 413),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"2710\r\n%b\r\n" % (b"x" * 10_000), 413),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 10_000, 413),
        (b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 1_000, 413),
    ],
)
async def test_a_request_without_end_is_refused(
    county: DemoCountyServer, client: Client, start: bytes, piece: bytes, status: int
) -> None:
    assert await send_without_end(client, start, piece) == status
    await alive(county)


async def test_a_body_may_be_as_large_as_the_limit_and_no_larger(county: DemoCountyServer, client: Client) -> None:
    largest = b'"' + b"x" * (BODY_LIMIT_BYTES - 2) + b'"'
    assert (await client.ask("POST", "/echo", largest, "application/json")).status == 200
    await client.send(client.request("POST", "/echo", largest + b" ", "application/json"))
    assert (await client.receive()).status == 413
    await client.leave()
    await alive(county)


async def test_a_large_header_in_one_packet_is_refused_too(county: DemoCountyServer, client: Client) -> None:
    await client.send(b"GET /echo HTTP/1.1\r\nX: %b\r\n\r\n" % (b"x" * 70_000))
    assert (await client.receive()).status == 431
    await client.leave()
    await alive(county)


async def test_clients_that_vanish_leave_nothing_open(county: DemoCountyServer) -> None:
    for sent in (b"", b"GET", b"GET /echo HTTP/1.1\r\nHost", b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nhel"):
        async with Client(county.base_url) as visitor:
            await visitor.send(sent)
    await alive(county)
    await until(lambda: not county._connections)


PIECES = [
    *(ECHO % 1, b"\r\n\r\n", b"GET / HTTP/1.1\r\n", b"CONNECT demo:443 HTTP/1.1\r\n\r\n", b"Content-Length: 3\r\n"),
    *(
        b"POST /search HTTP/1.1\r\n",
        b"Connection: Upgrade\r\nUpgrade: x\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"abc",
    ),
]


@given(st.lists(st.binary(max_size=200) | st.sampled_from(PIECES), max_size=8))
def test_no_bytes_at_all_break_a_connection(packets: list[bytes]) -> None:
    async def play() -> None:
        responder = Responder(FaultSettings())
        connection = Connection(responder, set())
        connection.connection_made(Wire())
        for packet in packets:
            connection.data_received(packet)
        connection.connection_lost(None)
        assert responder.counters.open_requests == responder.counters.open_items == 0
        assert responder.counters.requests == sum(responder.counters.by_status().values())

    asyncio.run(play())


@given(st.lists(st.integers(1, 120), max_size=12))
def test_the_answers_do_not_depend_on_how_the_packets_were_cut(lengths: list[int]) -> None:
    form = b"POST /echo HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b"
    stream = ECHO % 1 + form + ECHO % 2

    def answered(packets: list[bytes]) -> bytes:
        connection, wire = Connection(Responder(FaultSettings()), set()), Wire()
        connection.connection_made(wire)
        for packet in packets:
            connection.data_received(packet)
        return wire.written

    cuts = [sum(lengths[:number]) for number in range(len(lengths) + 1)] + [len(stream)]
    assert answered([stream[a:b] for a, b in pairwise(cuts) if a < b]) == answered([stream])

"""Bytes from a connection are read like a file: bounded on the way, and at an end as soon as the sender is."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator

import pytest

from swath.domain.errors import BadInput
from swath.pipeline.ingest.sources.file_and_stream import ByteStream, InputFormat, StreamSource
from swath.pipeline.ingest.validate import RowChecker, checked_batches
from swath.ports.job_store import LoadStart
from tests.unit.pipeline.ingest.reading import Parcel, given

pytestmark = pytest.mark.req("J2")


async def read_all(stream: ByteStream, size: int = 1 << 17) -> bytes:
    def reading() -> Iterator[bytes]:
        while data := stream.read(size):
            yield data

    return await asyncio.to_thread(lambda: b"".join(reading()))


async def test_what_is_fed_is_read_in_order() -> None:
    stream = ByteStream(held_bytes=1_000)
    reading = asyncio.create_task(read_all(stream))
    pieces = [bytes([n]) * (n * 7) for n in range(256)]
    for piece in pieces:
        await stream.feed(piece)
    stream.end()
    assert await reading == b"".join(pieces)
    assert stream.read_bytes == sum(map(len, pieces))


async def test_who_feeds_waits_until_somebody_reads() -> None:
    stream = ByteStream(held_bytes=1_000)
    feeding = asyncio.create_task(stream.feed(b"x" * 1_500))
    await asyncio.sleep(0.05)
    assert not feeding.done()
    assert len(await asyncio.to_thread(stream.read, 10)) == 1_500
    await asyncio.wait_for(feeding, 60)


async def test_a_reader_hears_at_once_that_the_sender_is_gone() -> None:
    stream = ByteStream()
    await stream.feed(b"some of it")
    gone = BadInput("was cut off")
    stream.end(gone)
    with pytest.raises(BadInput, match="cut off"):
        await asyncio.to_thread(stream.read, 10)
    await asyncio.wait_for(stream.feed(b"more" * 1_000_000), 60)  # nobody reads it, and nobody waits


async def test_a_reader_that_waits_is_let_go() -> None:
    stream = ByteStream()
    heard: list[BaseException] = []

    def reading() -> None:
        try:
            stream.read(10)
        except BadInput as error:
            heard.append(error)

    thread = threading.Thread(target=reading)
    thread.start()
    await asyncio.sleep(0.02)
    stream.end(BadInput("was cut off"))
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()
    assert len(heard) == 1


async def test_a_bomb_and_an_endless_line_cost_little() -> None:
    for content, told in ((b"\n", "times its size"), (b"x", "line of more than")):
        stream = ByteStream()
        await stream.feed(gzip.compress(content * (20 << 20), 9))
        stream.end()
        rows = checked_batches(StreamSource("body", stream, InputFormat.JSONL), RowChecker(Parcel))
        with pytest.raises(BadInput, match=told):
            await asyncio.to_thread(list, rows)


async def test_one_long_line_is_an_array_if_that_was_said() -> None:
    row = b'{"parcel_id": "1", "note": "' + b"x" * 1_000 + b'"}, '
    body = b"[" + row * 5_000 + b'{"parcel_id": "2"}]'
    stream = ByteStream(held_bytes=1 << 30)
    for at in range(0, len(body), 65_536):
        await stream.feed(body[at : at + 65_536])
    stream.end()
    source = StreamSource("body", stream, InputFormat.JSON)
    checked = await asyncio.to_thread(lambda: list(checked_batches(source, RowChecker(Parcel))))
    assert sum(one.batch.rows for one in checked) == 5_001


def test_a_source_that_goes_on_in_a_job_numbers_its_rows_from_there() -> None:
    text = "parcel_id\n1\n2\n\n3,4\n5\n"
    (first,) = checked_batches(given(text), RowChecker(Parcel))
    (later,) = checked_batches(given(text), RowChecker(Parcel), LoadStart(number=4, rows=100))
    assert (later.batch.number, later.batch.first_row, later.batch.rows) == (4, 101, 4)
    assert [item.seq for item in later.batch.items] == [item.seq + 100 for item in first.batch.items]
    assert [bad.number for bad in later.bad] == [103]
    assert later.lines == first.lines
    assert later.batch.digest != first.batch.digest

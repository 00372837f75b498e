"""R2, Z8: a large page out of a pack goes out piece by piece: who reads slowly holds little of it, and nobody gets the
end of one that was changed."""

from __future__ import annotations

import gzip
import hashlib
import random
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from swath.domain.errors import StoreDamaged
from swath.domain.item import ItemRecord
from swath.domain.result import Artifact, Exchange, Page
from swath.domain.storage_keys import PackLocation
from swath.domain.transitions import ItemState
from swath.entrypoints.api.artifacts import PIECE_BYTES, DownloadableFile, downloadable
from swath.entrypoints.api.downloads import ByteRange, DownloadSlots
from swath.pipeline.formats.warc import RecordIds, page_records
from tests.support.memory.results import MemoryResults

pytestmark = pytest.mark.req("R2", "I2", "Z8")

PACK = "packs/1.warc.gz"
BEFORE = b"the record of another page"
HEADERS = (("Content-Type", "text/html"),)
NOISE = random.Random(7).randbytes(8 * PIECE_BYTES)  # packing makes it no smaller


class Counting(MemoryResults):
    """Counts the bytes that it hands out."""

    handed_out = 0

    async def read(self, job_id: str, key: str, start: int, length: int) -> bytes:
        """A piece."""
        piece = await super().read(job_id, key, start, length)
        self.handed_out += len(piece)
        return piece


class SameId(RecordIds):
    """Records are as long every time."""

    def __next__(self) -> str:
        return "<urn:uuid:00000000-0000-4000-a000-000000000000>"


def record_of(body: bytes, headers: tuple[tuple[str, str], ...] = HEADERS) -> bytes:
    exchange = Exchange(method="GET", request_headers=(), response_headers=headers)
    page = Page(name="html", url="https://a.test/", status=200, body=body, exchange=exchange)
    return page_records(page, page.sha256, "item/html.html", SameId())[1]


async def offered(
    storage: MemoryResults, stored: bytes, was: bytes | None = None, *, packed: bool = True
) -> DownloadableFile:
    """A page that is stored so; with `was`, after somebody has changed it."""
    at = PackLocation(PACK, len(BEFORE), len(stored), "html.html")
    key = at.key if packed else "items/item/html.html.gz"
    await storage.put("job", {PACK: BEFORE + stored + b"more"} if packed else {key: stored})
    artifact = Artifact(key, len(stored), hashlib.sha256(was or stored).hexdigest())
    record = ItemRecord(seq=1, item_id="item", input={}, state=ItemState.SUCCESS, artifacts=(artifact,))
    return await downloadable(storage, "job", record, artifact, DownloadSlots(), "identity")


async def streamed(one: DownloadableFile) -> AsyncIterator[bytes]:
    """All of it."""
    pieces = await one.body(ByteRange(0, one.size, one.size))
    assert not isinstance(pieces, bytes)
    return pieces


async def test_no_more_is_read_than_is_asked_for() -> None:
    storage = Counting()
    one = await offered(storage, record_of(NOISE))
    assert (one.size, one.etag) == (len(NOISE), f'"{hashlib.sha256(NOISE).hexdigest()}"')
    assert NOISE.startswith(one.beginning)
    assert storage.handed_out <= PIECE_BYTES
    assert await one.body(ByteRange(5, 6, one.size, ranged=True)) == NOISE[5:6]
    assert storage.handed_out <= PIECE_BYTES


async def test_no_more_is_read_than_was_sent() -> None:
    storage = Counting()
    one = await offered(storage, record_of(NOISE))
    pieces = await streamed(one)
    first = await anext(pieces)
    assert storage.handed_out <= 3 * PIECE_BYTES
    assert first + b"".join([piece async for piece in pieces]) == NOISE
    assert storage.handed_out == len(record_of(NOISE))


async def test_a_reader_that_does_not_read_on_holds_some_pieces_and_not_the_page() -> None:
    body = bytes(64 * PIECE_BYTES)
    storage, stored = MemoryResults(), record_of(body)
    tracemalloc.start()
    try:
        one = await offered(storage, stored)
        pieces = await streamed(one)
        first = await anext(pieces)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 * PIECE_BYTES
    assert len(first) + sum([len(piece) async for piece in pieces]) == len(body)


@pytest.mark.parametrize("size", [0, 1, 70, PIECE_BYTES - 400, PIECE_BYTES, 3 * PIECE_BYTES + 1])
async def test_pages_of_all_sizes_come_out_as_they_went_in(size: int) -> None:
    one = await offered(MemoryResults(), record_of(NOISE[:size]))
    body = await one.body(ByteRange(0, one.size, one.size))
    assert (body if isinstance(body, bytes) else b"".join([piece async for piece in body])) == NOISE[:size]
    assert one.etag == f'"{hashlib.sha256(NOISE[:size]).hexdigest()}"'


async def test_the_headers_of_a_site_may_be_longer_than_a_piece() -> None:
    headers = tuple((f"x-{n}", "x" * 4_000) for n in range(100))
    one = await offered(MemoryResults(), record_of(b"\x89PNG\r\n\x1a\n", headers))
    assert (one.size, one.beginning) == (8, b"\x89PNG\r\n\x1a\n")
    assert await one.body(ByteRange(1, 4, 8, ranged=True)) == b"PNG"


@pytest.mark.req("Z2")
@pytest.mark.parametrize("packed", [True, False])
async def test_nobody_gets_the_end_of_a_page_that_was_changed(packed: bool) -> None:
    """Also where the last piece that is read holds nothing of the page any more."""
    body = NOISE[: 2 * PIECE_BYTES]
    for _ in range(5):
        stored = record_of(body) if packed else gzip.compress(body, 1, mtime=0)
        if 0 < len(stored) - 2 * PIECE_BYTES <= 8:
            break
        body = NOISE[: len(body) + 2 * PIECE_BYTES + 4 - len(stored)]
    assert 0 < len(stored) % PIECE_BYTES <= 8
    one = await offered(MemoryResults(), stored, was=b"other", packed=packed)
    got: list[bytes] = []

    async def take() -> None:
        async for piece in await streamed(one):
            got.append(piece)  # noqa: PERF401 what came before the error counts

    with pytest.raises(StoreDamaged, match="other bytes than were stored"):
        await take()
    assert 0 < len(b"".join(got)) < one.size == len(body)


@pytest.mark.req("Z2")
@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (b"\x1f\x8b no gzip", "cannot be unpacked"),
        (gzip.compress(b"WARC/1.1\r\n"), "is too short"),
        (gzip.compress(b"nothing\r\n\r\n"), "cannot be read"),
    ],
    ids=["no gzip", "no end of the head", "no WARC"],
)
async def test_what_is_no_record_is_not_offered(stored: bytes, told: str) -> None:
    with pytest.raises(StoreDamaged, match=told):
        await offered(MemoryResults(), stored)

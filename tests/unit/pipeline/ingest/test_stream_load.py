"""A load that is broken off anywhere, however often, ends with every row once (J2)."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import BadInput, Conflict
from swath.domain.job import Job
from swath.pipeline.ingest import validate
from swath.pipeline.ingest.load import LoadOptions, LoadReport, OnBadRows, OnDuplicates, find_start, load_stream
from swath.pipeline.ingest.sources.file_and_stream import ByteStream, InputFormat, StreamSource
from swath.pipeline.ingest.validate import RowChecker
from tests.support.clock import FakeClock
from tests.support.memory.store import MemoryStore
from tests.unit.pipeline.ingest.reading import Parcel

pytestmark = pytest.mark.req("J2")

LENIENT = LoadOptions(on_bad_rows=OnBadRows.SKIP, on_duplicates=OnDuplicates.KEEP_FIRST)
IDS = st.lists(st.integers(0, 60).map(str), min_size=1, max_size=40)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "BATCH_ROWS", 3)


def body_of(ids: list[str]) -> bytes:
    return b"".join(json.dumps({"parcel_id": one}).encode() + b"\n" for one in ids)


async def ordered() -> MemoryStore:
    store = MemoryStore(FakeClock())
    await store.submit(Job(job_id="county", scraper_id="s"))
    return store


async def send(
    store: MemoryStore, body: bytes, cut: int | None = None, key: str | None = None, offset: int | None = None
) -> LoadReport:
    """One request; with `cut` only so many bytes of the body arrive."""
    stream = ByteStream(held_bytes=64)

    async def feed() -> None:
        arrived = body if cut is None else body[:cut]
        for at in range(0, len(arrived), 11):
            await stream.feed(arrived[at : at + 11])
        stream.end(None if cut is None else BadInput("was cut off"))

    start = await find_start(store, "county", key, offset)
    feeding = asyncio.create_task(feed())
    try:
        source = StreamSource("body", stream, InputFormat.JSONL)
        return await load_stream(store, "county", source, RowChecker(Parcel), start, LENIENT)
    finally:
        stream.end(BadInput("nobody reads it"))
        await feeding


async def rows_of(store: MemoryStore) -> list[str]:
    return [record.item_id for record in await store.items("county")]


@settings(max_examples=60, deadline=None)
@given(ids=IDS, cuts=st.lists(st.floats(0, 1), max_size=3), packed=st.booleans())
def test_sent_again_from_the_start_every_row_is_there_once(ids: list[str], cuts: list[float], packed: bool) -> None:
    async def run() -> None:
        store, body = await ordered(), body_of(ids)
        body = gzip.compress(body) if packed else body
        for cut in cuts:
            with pytest.raises(BadInput):
                await send(store, body, int(cut * len(body)))
        report = await send(store, body)
        assert (report.rows, report.items, report.duplicates) == (len(ids), len(set(ids)), len(ids) - len(set(ids)))
        assert await rows_of(store) == list(dict.fromkeys(ids))
        assert (await store.status("county")).loaded_rows == len(ids)

    asyncio.run(run())


@settings(max_examples=60, deadline=None)
@given(parts=st.lists(IDS, min_size=1, max_size=3), cuts=st.lists(st.floats(0, 1), max_size=3))
def test_under_keys_several_bodies_make_one_job(parts: list[list[str]], cuts: list[float]) -> None:
    async def run() -> None:
        store = await ordered()
        for number, ids in enumerate(parts):
            for cut in cuts:
                with pytest.raises(BadInput):
                    await send(store, body_of(ids), int(cut * len(body_of(ids))), key=str(number))
            await send(store, body_of(ids), key=str(number))
        for number, ids in enumerate(parts):  # and once more, because an answer was lost
            assert (await send(store, body_of(ids), key=str(number))).rows == len(ids)
        every = [one for ids in parts for one in ids]
        assert await rows_of(store) == list(dict.fromkeys(every))
        assert (await store.status("county")).loaded_rows == len(every)

    asyncio.run(run())


@settings(max_examples=60, deadline=None)
@given(ids=IDS, cuts=st.lists(st.floats(0, 1), max_size=3))
def test_with_an_offset_only_what_is_missing_is_sent(ids: list[str], cuts: list[float]) -> None:
    async def run() -> None:
        store = await ordered()
        for cut in [*cuts, None]:
            loaded = (await store.status("county")).loaded_rows
            rest = body_of(ids[loaded:])
            if cut is None:
                await send(store, rest, offset=loaded)
            else:
                with pytest.raises(BadInput):
                    await send(store, rest, int(cut * len(rest)), offset=loaded)
        assert await rows_of(store) == list(dict.fromkeys(ids))
        with pytest.raises(Conflict):
            await send(store, body_of(["x"]), offset=len(ids) + 1)

    asyncio.run(run())

"""Loads the job that makes a version: the items of the scraped job that have pages, as they are there (R6).

Before: versions.py has ordered it. After: it is sealed, and workers run it. Whoever is killed on the way is followed by
the same command, which goes on behind the last batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

import msgspec

from swath.domain.attempt import Finding
from swath.domain.item import Item, ItemRecord
from swath.domain.job import JobStatus
from swath.domain.transitions import JobState
from swath.domain.versions import SAMPLE_LABEL
from swath.observe.crash_points import reach
from swath.pipeline.results.stored_pages import has_pages
from swath.ports.job_store import Batch, JobStore

__all__ = ["load_version", "next_with_pages"]

BATCH_ITEMS: Final = 2_000
LOOK_ITEMS: Final = 16  # at first, from a place where an item for a sample is looked for

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class _Slice(msgspec.Struct, frozen=True):
    """What there is of the scraped job's items up to `last`, from the end of the slice before."""

    last: int
    records: Sequence[ItemRecord]


async def load_version(store: JobStore, status: JobStatus, progress: Callable[[int], None]) -> JobStatus:
    """Loads and seals it; one that was sealed before is returned as it stands. `progress` hears of items so far."""
    job = status.job
    if status.state is not JobState.LOADING or job.extracts is None:
        return status
    sample = job.labels.get(SAMPLE_LABEL)
    if sample is None:
        number, last, items = status.loaded_batches, status.loaded_rows, status.counts.total
        slices = _all(store, job.extracts, last)
    else:  # looked for again from the start: the store knows the batches that it has
        number, last, items = 0, 0, 0
        slices = _sample(store, job.extracts, int(sample))
    async for some in slices:
        await store.load(job.job_id, _batch(number, last, some))
        reach("after_load_batch")
        number, last, items = number + 1, some.last, items + len(some.records)
        progress(items)
    return await store.seal(job.job_id, number)


def _batch(number: int, before: int, some: _Slice) -> Batch:
    items = tuple(Item(record.seq, record.item_id, record.input) for record in some.records)
    digest = hashlib.sha256(_encode((number, before, some.last, items))).hexdigest()
    return Batch(number, before + 1, some.last - before, digest, items)


def _is_wanted(record: ItemRecord) -> bool:
    """What was not there when it was asked for has no record in its pages."""
    return record.state.terminal and record.finding is not Finding.NOT_FOUND and has_pages(record)


async def _all(store: JobStore, job_id: str, after: int) -> AsyncIterator[_Slice]:
    while records := await store.items(job_id, after, BATCH_ITEMS):
        after = records[-1].seq
        yield _Slice(after, [record for record in records if _is_wanted(record)])


async def _sample(store: JobStore, job_id: str, wanted: int) -> AsyncIterator[_Slice]:
    """Items from all over the job, the same ones each time."""
    rows = (await store.status(job_id)).loaded_rows
    found: dict[int, ItemRecord] = {}
    last = 0
    for place in range(wanted):
        record = await next_with_pages(store, job_id, max(last, place * rows // wanted))
        if record is None:
            break
        last = record.seq
        found[last] = record
    last = 0
    while len(found) < wanted and (record := await next_with_pages(store, job_id, last)) is not None:
        last = record.seq
        found[last] = record
    chosen = sorted(found.values(), key=lambda record: record.seq)
    for at in range(0, len(chosen), BATCH_ITEMS):
        some = chosen[at : at + BATCH_ITEMS]
        yield _Slice(some[-1].seq, some)


async def next_with_pages(store: JobStore, job_id: str, after: int) -> ItemRecord | None:
    """The first item beyond `after` of which there is something to read again."""
    limit = LOOK_ITEMS
    while records := await store.items(job_id, after, limit):
        for record in records:
            if _is_wanted(record):
                return record
        after, limit = records[-1].seq, min(2 * limit, BATCH_ITEMS)
    return None

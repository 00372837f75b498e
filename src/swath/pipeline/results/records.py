"""Reads the records of a job's current version in order of `seq`, with where each comes from, in bounded memory.

Of an item that the version lacks, or that ended anew since it was read, readers get what version 1 has.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from swath.domain.errors import StoreDamaged, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import Job, JobStatus
from swath.domain.result import Artifact
from swath.domain.result_versions import current_job_id, is_all_from_current_pages, is_from_current_pages, version_of
from swath.domain.storage_keys import artifact_file_name
from swath.pipeline.extract.stored_pages import read_records
from swath.pipeline.formats.artifacts import DATA_FILE, METADATA_FILE, StoredPage, parse_metadata
from swath.pipeline.formats.stored_files import group_by_bytes, read_files_of_items
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["CurrentItem", "RecordBatch", "RecordRow", "current_item", "current_items", "current_items_at", "read_rows"]

BATCH_ITEMS: Final = 500


class CurrentItem(msgspec.Struct, frozen=True):
    """An item as the current version has it. `record` belongs to `job`; `first` is the same item in version 1, which
    has its input and its pages. A version's own job may still have what was read from pages that are replaced since:
    then `first` is `record` itself."""

    job: Job
    version: int
    record: ItemRecord
    first: ItemRecord

    @property
    def fetched(self) -> ItemRecord | None:
        """The item as it ended when its pages were fetched; None where that is not kept any more."""
        return None if self.job.extracts is not None and self.first is self.record else self.first

    @property
    def generation(self) -> int | None:
        """In which its pages were fetched; None where others were fetched since, or the item has not ended."""
        return None if self.fetched is None else self.fetched.generation or None

    @property
    def proxy_tier(self) -> str | None:
        """By which way out its pages were fetched, the dearest of the last attempt."""
        return self.fetched.attempts[-1].proxy_tier if self.fetched and self.fetched.attempts else None

    @property
    def first_job_id(self) -> str:
        """The job to which `first` belongs."""
        return self.job.job_id if self.fetched is None else self.job.extracts or self.job.job_id


async def current_items(
    store: JobStore, status: JobStatus, batch_items: int = BATCH_ITEMS
) -> AsyncGenerator[list[CurrentItem], None]:
    """All items of a job as its current version has them; those of a version's own job as it has them."""
    newer, after = await _newer(store, status), 0
    while records := await store.items(status.job.job_id, after, batch_items):
        yield await _current(store, status, newer, records)
        after = records[-1].seq


async def current_items_at(
    store: JobStore, status: JobStatus, made: Job, seqs: Collection[int]
) -> dict[int, tuple[str, ItemRecord]]:
    """What readers get of the items of these numbers: the job that has each, and its record there. Those that have
    ended anew since the version that `made` makes was begun are left out: readers get them from version 1."""
    newer, former = await _newer(store, status), dict[int, tuple[str, ItemRecord]]()
    scraped = await store.status(status.job.job_id)  # it may have gone on since
    if (
        newer is not status.job
        and is_all_from_current_pages(newer, scraped)
        and is_all_from_current_pages(made, scraped)
    ):
        former = {
            seq: (newer.job_id, record) for seq, record in (await read_records(store, newer.job_id, seqs)).items()
        }
        seqs = [seq for seq in seqs if seq not in former]
    records = list((await read_records(store, status.job.job_id, seqs)).values())
    for item in await _current(store, status, newer, records):
        if is_from_current_pages(made, item.first):
            former[item.first.seq] = item.job.job_id, item.record
    return former


async def current_item(store: JobStore, status: JobStatus, item_id: str) -> CurrentItem:
    """The same for one. Raises UnknownName when the job has no such item."""
    record = await store.item(status.job.job_id, item_id)
    (found,) = await _current(store, status, await _newer(store, status), [record])
    return found


async def _newer(store: JobStore, status: JobStatus) -> Job:
    newer_id = current_job_id(status)
    return status.job if newer_id == status.job.job_id else (await store.status(newer_id)).job


async def _current(store: JobStore, status: JobStatus, newer: Job, records: Sequence[ItemRecord]) -> list[CurrentItem]:
    job, others = status.job, dict[int, ItemRecord]()
    other_id = newer.job_id if job.extracts is None else job.extracts
    if other_id != job.job_id:
        with contextlib.suppress(UnknownName):  # the scraped job is on its way out, and its versions with it
            others = await read_records(store, other_id, [record.seq for record in records])
    if job.extracts is not None:
        return [_of_version(job, record, others.get(record.seq)) for record in records]
    return [_of_scraped(status, newer, first, others.get(first.seq)) for first in records]


def _of_scraped(status: JobStatus, newer: Job, first: ItemRecord, record: ItemRecord | None) -> CurrentItem:
    if record is None or not is_from_current_pages(newer, first):
        return CurrentItem(status.job, 1, first, first)
    return CurrentItem(newer, status.current_version, record, first)


def _of_version(job: Job, record: ItemRecord, first: ItemRecord | None) -> CurrentItem:
    same = first if first is not None and is_from_current_pages(job, first) else record
    return CurrentItem(job, version_of(job) or 1, record, same)


BATCH_ROWS: Final = 1_000
GROUP_BYTES: Final = 2 << 20  # of stored records held at once, of which no more than a batch is decoded
_FILES: Final = (DATA_FILE, METADATA_FILE)

_WantedItem = tuple[CurrentItem, list[Artifact]]  # with those of its artifacts that a row is made of
_LoadedItem = tuple[CurrentItem, dict[str, bytes]]  # with the contents of these


class RecordRow(msgspec.Struct, frozen=True):
    """One record. An item without any has one row whose `has_data` is false; `number` counts, from 1, the records of an
    item that has a list of them."""

    item: CurrentItem
    pages: tuple[StoredPage, ...] = ()
    data: Any = None
    has_data: bool = True
    number: int = 1

    @property
    def provenance(self) -> dict[str, Any]:
        """Where the record comes from, by plain names; `input` as it was given, times in UTC. Which of several pages a
        record was read from is not known, so all are named."""
        record = self.item.record
        failure = record.failure
        return {
            "job_id": self.item.job.extracts or self.item.job.job_id,
            "version": self.item.version,
            "item_id": record.item_id,
            "seq": record.seq,
            "number": self.number,
            "state": record.state.value,
            "outcome": None if record.finding is None else record.finding.value,
            "failure": None if failure is None else f"{failure.kind.value}: {failure.message}",
            "scraper_id": self.item.job.scraper_id,
            "scraper_version": record.scraper_version,
            "proxy_tier": self.item.proxy_tier,
            "generation": self.item.generation,
            "pages": [
                {"name": page.name, "url": page.url, "sha256": page.sha256, "fetched_at": _utc(page.fetched_at)}
                for page in self.pages
            ],
            "input": record.input,
        }


class RecordBatch(msgspec.Struct, frozen=True):
    """At most BATCH_ROWS rows of consecutive items. `items` is how many items came to their end, those without a row
    too."""

    rows: list[RecordRow]
    items: int


async def read_rows(
    store: JobStore, storage: ResultStorage, status: JobStatus, *, everything: bool = False
) -> AsyncGenerator[RecordBatch, None]:
    """Every record of the current version. `everything`: also a row for each item that has none.

    Raises StoreDamaged when a file is not what was stored.
    """
    async for items in current_items(store, status):
        for group in group_by_bytes(((one, _size(one)) for one in map(_with_files, items)), GROUP_BYTES):
            try:
                loaded = await _read(storage, group)
            except StoreDamaged:  # perhaps some of them have ended anew since we knew of them
                loaded = await _read(storage, await _reload(store, status, group))
            for batch in _batches(loaded, everything=everything):
                yield batch


async def _reload(store: JobStore, status: JobStatus, items: Sequence[_WantedItem]) -> list[_WantedItem]:
    return [_with_files(await current_item(store, status, item.record.item_id)) for item, _ in items]


async def _read(storage: ResultStorage, items: Sequence[_WantedItem]) -> list[_LoadedItem]:
    """Items of a version and of version 1 lie in different jobs."""
    found: dict[str, dict[str, bytes]] = {}
    for job_id in dict.fromkeys(item.job.job_id for item, _ in items):
        here = [(item.record.item_id, wanted) for item, wanted in items if item.job.job_id == job_id]
        contents = await read_files_of_items(storage, job_id, here)
        found |= {item_id: files for (item_id, _), files in zip(here, contents, strict=True)}
    return [(item, found[item.record.item_id]) for item, _ in items]


def _with_files(item: CurrentItem) -> _WantedItem:
    record = item.record
    return item, [one for one in record.artifacts if artifact_file_name(record.item_id, one.key) in _FILES]


def _size(wanted: _WantedItem) -> int:
    return sum(artifact.size for artifact in wanted[1])


def _batches(loaded: Sequence[_LoadedItem], *, everything: bool) -> Iterator[RecordBatch]:
    rows: list[RecordRow] = []
    items = 0
    for item, files in loaded:
        for row in _rows_of(item, files, everything):
            if len(rows) == BATCH_ROWS:
                yield RecordBatch(rows, items)
                rows, items = [], 0
            rows.append(row)
        items += 1
    yield RecordBatch(rows, items)


def _rows_of(item: CurrentItem, files: dict[str, bytes], everything: bool) -> Iterator[RecordRow]:
    pages = parse_metadata(files[METADATA_FILE]).pages if METADATA_FILE in files else ()
    number = 0
    for number, record in enumerate(_records(files.get(DATA_FILE, b"[]")), start=1):
        yield RecordRow(item, pages, record, number=number)
    if number == 0 and everything:
        yield RecordRow(item, pages, has_data=False)


def _records(data: bytes) -> Iterator[Any]:
    """Each decoded when it is its turn: as objects all records of an item take many times the memory of their text."""
    if data.startswith(b"["):
        yield from map(msgspec.json.decode, msgspec.json.decode(data, type=list[msgspec.Raw]))
    else:
        yield msgspec.json.decode(data)


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

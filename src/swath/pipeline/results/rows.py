"""The records of a job with where each comes from, in order of `seq` and a bounded number at a time.

Before: the job has results, in either layout, and current.py says which version of each item counts. After: export and
comparison.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from swath.domain.errors import StoreDamaged
from swath.domain.job import JobStatus
from swath.domain.layout import file_of
from swath.domain.result import Artifact
from swath.pipeline.finish.artifacts import DATA_FILE, METADATA_FILE, StoredPage, stored_in
from swath.pipeline.results.bulk_read import contents_of_many, in_groups
from swath.pipeline.results.current import CurrentItem, current_item, current_items
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["Row", "RowBatch", "rows_of"]

BATCH_ROWS: Final = 1_000
GROUP_BYTES: Final = 2 << 20  # of stored records held at once, of which no more than a batch is decoded
_FILES: Final = (DATA_FILE, METADATA_FILE)

_Wanted = tuple[CurrentItem, list[Artifact]]  # with those of its artifacts that a row is made of
_Loaded = tuple[CurrentItem, dict[str, bytes]]  # with the contents of these


class Row(msgspec.Struct, frozen=True):
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


class RowBatch(msgspec.Struct, frozen=True):
    """At most BATCH_ROWS rows of consecutive items. `items` is how many items came to their end, those without a row
    too."""

    rows: list[Row]
    items: int


async def rows_of(
    store: JobStore, storage: ResultStorage, status: JobStatus, *, everything: bool = False
) -> AsyncGenerator[RowBatch, None]:
    """Every record of the current version. `everything`: also a row for each item that has none.

    Raises StoreDamaged when a file is not what was stored.
    """
    async for items in current_items(store, status):
        for group in in_groups(((one, _size(one)) for one in map(_with_files, items)), GROUP_BYTES):
            try:
                loaded = await _read(storage, group)
            except StoreDamaged:  # perhaps some of them have ended anew since we knew of them
                loaded = await _read(storage, await _anew(store, status, group))
            for batch in _batches(loaded, everything=everything):
                yield batch


async def _anew(store: JobStore, status: JobStatus, items: Sequence[_Wanted]) -> list[_Wanted]:
    return [_with_files(await current_item(store, status, item.record.item_id)) for item, _ in items]


async def _read(storage: ResultStorage, items: Sequence[_Wanted]) -> list[_Loaded]:
    """Items of a version and of version 1 lie in different jobs."""
    found: dict[str, dict[str, bytes]] = {}
    for job_id in dict.fromkeys(item.job.job_id for item, _ in items):
        here = [(item.record.item_id, wanted) for item, wanted in items if item.job.job_id == job_id]
        contents = await contents_of_many(storage, job_id, here)
        found |= {item_id: files for (item_id, _), files in zip(here, contents, strict=True)}
    return [(item, found[item.record.item_id]) for item, _ in items]


def _with_files(item: CurrentItem) -> _Wanted:
    record = item.record
    return item, [one for one in record.artifacts if file_of(record.item_id, one.key) in _FILES]


def _size(wanted: _Wanted) -> int:
    return sum(artifact.size for artifact in wanted[1])


def _batches(loaded: Sequence[_Loaded], *, everything: bool) -> Iterator[RowBatch]:
    rows: list[Row] = []
    items = 0
    for item, files in loaded:
        for row in _rows_of(item, files, everything):
            if len(rows) == BATCH_ROWS:
                yield RowBatch(rows, items)
                rows, items = [], 0
            rows.append(row)
        items += 1
    yield RowBatch(rows, items)


def _rows_of(item: CurrentItem, files: dict[str, bytes], everything: bool) -> Iterator[Row]:
    pages = stored_in(files[METADATA_FILE]).pages if METADATA_FILE in files else ()
    number = 0
    for number, record in enumerate(_records(files.get(DATA_FILE, b"[]")), start=1):
        yield Row(item, pages, record, number=number)
    if number == 0 and everything:
        yield Row(item, pages, has_data=False)


def _records(data: bytes) -> Iterator[Any]:
    """Each decoded when it is its turn: as objects all records of an item take many times the memory of their text."""
    if data.startswith(b"["):
        yield from map(msgspec.json.decode, msgspec.json.decode(data, type=list[msgspec.Raw]))
    else:
        yield msgspec.json.decode(data)


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

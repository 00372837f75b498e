"""Items as the current version of a job has them: all in order, one by its id, or some by their place, to compare.

Before: the job has results, in one or more versions. After: rows.py, evidence, files, the diff and downloads. Of an
item that the version does not have, or that has ended anew since it was read, readers get what version 1 has.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Final

import msgspec

from swath.domain.errors import UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import Job, JobStatus
from swath.domain.versions import current_job_id, is_all_read_from, is_read_from, version_of
from swath.pipeline.results.stored_pages import records_at
from swath.ports.job_store import JobStore

__all__ = ["CurrentItem", "current_item", "current_items", "former_at"]

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


async def former_at(
    store: JobStore, status: JobStatus, made: Job, seqs: Collection[int]
) -> dict[int, tuple[str, ItemRecord]]:
    """What readers get of the items of these numbers: the job that has each, and its record there. Those that have
    ended anew since the version that `made` makes was begun are left out: readers get them from version 1."""
    newer, former = await _newer(store, status), dict[int, tuple[str, ItemRecord]]()
    scraped = await store.status(status.job.job_id)  # it may have gone on since
    if newer is not status.job and is_all_read_from(newer, scraped) and is_all_read_from(made, scraped):
        former = {seq: (newer.job_id, record) for seq, record in (await records_at(store, newer.job_id, seqs)).items()}
        seqs = [seq for seq in seqs if seq not in former]
    records = list((await records_at(store, status.job.job_id, seqs)).values())
    for item in await _current(store, status, newer, records):
        if is_read_from(made, item.first):
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
            others = await records_at(store, other_id, [record.seq for record in records])
    if job.extracts is not None:
        return [_of_version(job, record, others.get(record.seq)) for record in records]
    return [_of_scraped(status, newer, first, others.get(first.seq)) for first in records]


def _of_scraped(status: JobStatus, newer: Job, first: ItemRecord, record: ItemRecord | None) -> CurrentItem:
    if record is None or not is_read_from(newer, first):
        return CurrentItem(status.job, 1, first, first)
    return CurrentItem(newer, status.current_version, record, first)


def _of_version(job: Job, record: ItemRecord, first: ItemRecord | None) -> CurrentItem:
    same = first if first is not None and is_read_from(job, first) else record
    return CurrentItem(job, version_of(job) or 1, record, same)

"""Tidies up stored results: settles leases, finds items whose files are missing, removes files of former generations.

Settling a lease publishes the files of accepted outcomes and discards the rest. The holder does it, or whoever
rescues
the lease; both do the same.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from swath.domain.errors import BadInput, StoreDamaged, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.job import Job
from swath.domain.lease import Lease
from swath.domain.storage_keys import (
    INDEX_SUFFIX,
    PACKS_PREFIX,
    WARC_SUFFIX,
    Layout,
    PackLocation,
    encode_key,
    pack_fence,
)
from swath.domain.transitions import JobState
from swath.observability.crash_points import reach
from swath.pipeline.formats.artifacts import METADATA_FILE, StoredMetadata, parse_metadata
from swath.pipeline.formats.packs import index_document, index_key, index_lines, needed_pack_bytes
from swath.pipeline.formats.stored_files import read_item_files
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage, StagedItem

__all__ = ["MissingFiles", "ObsoleteFiles", "PackLedger", "settle_abandoned_lease", "state_with_missing_files"]


class PackLedger:
    """What has won in the packs of a lease so far: the lines of their index, and how much is needed of each.

    Summed up item by item, so that the end of a lease need not go over all of them, in a thread.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._needed: dict[str, int] = {}

    def add(self, places: Sequence[PackLocation], stored: StoredMetadata) -> None:
        """The end of an item was accepted whose files lie there."""
        self._lines += index_lines(places, stored)
        needed = self._needed
        for pack, start, length, _ in places:
            if start + length > needed.get(pack, 0):
                needed[pack] = start + length

    async def settle(self, storage: ResultStorage, job_id: str, fence: int) -> None:
        """Publishes all of it."""
        documents = {index_key(fence): index_document(self._lines)} if self._lines else {}
        await storage.settle(job_id, fence, (), self._needed, documents)


async def settle_abandoned_lease(
    store: JobStore, storage: ResultStorage, job_id: str, fence: int, winners: Collection[str]
) -> None:
    """Settles a lease whose holder did not; `winners` are the items that have ended under it."""
    if not winners or not await _is_packed(store, job_id):
        await storage.settle(job_id, fence, winners)
        return
    ledger = PackLedger()
    for item_id in winners:
        await _add_to_ledger(ledger, store, storage, job_id, item_id)
    await ledger.settle(storage, job_id, fence)


async def _is_packed(store: JobStore, job_id: str) -> bool:
    try:
        return (await store.status(job_id)).job.layout is Layout.WARC
    except UnknownName:  # the job is gone, and its results with it
        return False


async def _add_to_ledger(
    ledger: PackLedger, store: JobStore, storage: ResultStorage, job_id: str, item_id: str
) -> None:
    try:
        record = await store.item(job_id, item_id)
    except UnknownName:  # the job is being deleted
        return
    places = [place for artifact in record.artifacts if (place := PackLocation.of(artifact.key)) is not None]
    ledger.add(places, await _read_metadata(storage, job_id, record))


async def _read_metadata(storage: ResultStorage, job_id: str, record: ItemRecord) -> StoredMetadata:
    """What was damaged meanwhile is kept as it is, for `verify` to find; only the index lacks it."""
    about = [artifact for artifact in record.artifacts if artifact.key.endswith(f"/{METADATA_FILE}")]
    try:
        return parse_metadata((await read_item_files(storage, job_id, record.item_id, about))[METADATA_FILE])
    except (StoreDamaged, BadInput, KeyError):
        return StoredMetadata()


_READ_ITEMS: Final = 1_000


class MissingFiles:
    """Of one job. `items` counts the items of which files are missing."""

    def __init__(self, store: JobStore, storage: ResultStorage, job: Job) -> None:
        self._store = store
        self._storage = storage
        self._job = job
        self._packs: dict[str, int] = {}
        self._ids = io.StringIO()
        self._rows = csv.writer(self._ids, lineterminator="\n")
        self._rows.writerow(["item_id"])
        self.items = 0

    async def pass_by(self, records: Sequence[ItemRecord]) -> None:
        """These items have ended as they say, and everything of theirs has been published."""
        if self._job.layout is Layout.WARC:
            for record in records:
                for pack, end in needed_pack_bytes(record.artifacts).items():
                    self._packs[pack] = max(end, self._packs.get(pack, 0))
            return
        wanted = {artifact.key: artifact.size for record in records for artifact in record.artifacts}
        absent = await self._storage.absent(self._job.job_id, wanted) if wanted else set()
        if absent:
            self._note(record for record in records if any(one.key in absent for one in record.artifacts))

    async def end(self) -> None:
        """All have passed. Only when a pack is missing are they read again, to see which had files in it."""
        absent = await self._storage.absent(self._job.job_id, self._packs) if self._packs else set()
        after = 0
        while absent and (records := await self._store.items(self._job.job_id, after, _READ_ITEMS)):
            self._note(record for record in records if _packs_of(record) & absent)
            after = records[-1].seq

    def document(self) -> bytes:
        """Their ids as a CSV file."""
        return self._ids.getvalue().encode("utf-8", "surrogatepass")

    def _note(self, records: Iterable[ItemRecord]) -> None:
        for record in records:
            self._rows.writerow([record.item_id])
            self.items += 1


def _packs_of(record: ItemRecord) -> set[str]:
    return {packed.pack for one in record.artifacts if (packed := PackLocation.of(one.key)) is not None}


def state_with_missing_files(state: JobState, missing_items: int) -> JobState:
    """How a job ends when files are missing: never as if it had everything."""
    return JobState.PARTIALLY_COMPLETED if missing_items and state is JobState.COMPLETED else state


_MAX_PARALLEL_LOOKUPS: Final = 64
_DELETE_BATCH: Final = 1_000


class ObsoleteFiles:
    """Of one job, under the right to end it."""

    def __init__(self, storage: ResultStorage, lease: Lease, generation: int) -> None:
        self._storage = storage
        self._lease = lease
        self._job_id = lease.job.job_id
        self._generation = generation
        self._packs: set[str] = set()

    async def pass_by(self, records: Sequence[ItemRecord]) -> None:
        """These items have ended as they say."""
        if self._generation == 1:
            return
        if self._lease.job.layout is Layout.WARC:
            self._packs.update(*(needed_pack_bytes(record.artifacts) for record in records))
            return
        bare = [one.item_id for one in records if one.generation == self._generation and not one.artifacts]
        for start in range(0, len(bare), _MAX_PARALLEL_LOOKUPS):
            await self._clear(bare[start : start + _MAX_PARALLEL_LOOKUPS])

    async def end(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> None:
        """All items have passed: removes packs of which none needs anything, and the index of a WARC with it.

        Those of leases later than our own belong to a later generation, which may have come while we slept.
        """
        if self._generation == 1 or self._lease.job.layout is Layout.FILES:
            return
        fences = {pack_fence(pack) for pack in self._packs if pack.endswith(WARC_SUFFIX)}
        unused = []
        async for key in self._storage.keys(self._job_id, PACKS_PREFIX):
            fence = pack_fence(key)
            used = key in self._packs or (key.endswith(INDEX_SUFFIX) and fence in fences)
            if fence is not None and fence < self._lease.fence and not used:
                unused.append(key)
        for start in range(0, len(unused), _DELETE_BATCH):
            progress(start, len(unused))
            reach("before_pack_removal")
            await self._storage.delete(self._job_id, unused[start : start + _DELETE_BATCH])

    async def _clear(self, item_ids: Sequence[str]) -> None:
        """Takes files away from items that have ended without any in this generation.

        As every change of an item's files this goes through the room, which the finisher opened before it made sure of
        its right: a finisher that has lost its right since finds no room, and cannot take away what a later generation
        has published.
        """
        found = await asyncio.gather(*map(self._has_files, item_ids))
        former = [item_id for item_id, has_files in zip(item_ids, found, strict=True) if has_files]
        if former:
            reach("before_former_files")
            await self._storage.stage(self._job_id, self._lease.fence, [StagedItem(one, {}) for one in former])
            reach("before_former_removal")
            await self._storage.publish(self._job_id, self._lease.fence, former)

    async def _has_files(self, item_id: str) -> bool:
        async for _ in self._storage.keys(self._job_id, f"items/{encode_key(item_id)}/"):
            return True
        return False

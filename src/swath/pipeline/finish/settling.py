"""Ends a lease in storage: what won is published, with an index where it is packed, and everything else thrown away.

Called by the lease's holder, who knows what it packed (`PackLedger`), and by those who come after a dead one and read
it again (`settle_for`). Both do the same, so whoever dies on the way leaves it to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from swath.domain.errors import BadInput, StoreDamaged, UnknownName
from swath.domain.item import ItemRecord
from swath.domain.layout import Layout, PackedAt
from swath.pipeline.finish.artifacts import METADATA_FILE, Stored, stored_in
from swath.pipeline.finish.pack_index import index_document, index_key, index_lines
from swath.pipeline.finish.stored import contents
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["PackLedger", "settle_for"]


class PackLedger:
    """What has won in the packs of a lease so far: the lines of their index, and how much is needed of each.

    Summed up item by item, so that the end of a lease need not go over all of them, in a thread.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._needed: dict[str, int] = {}

    def add(self, places: Sequence[PackedAt], stored: Stored) -> None:
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


async def settle_for(
    store: JobStore, storage: ResultStorage, job_id: str, fence: int, winners: Collection[str]
) -> None:
    """Settles a lease whose holder did not; `winners` are the items that have ended under it."""
    if not winners or not await _is_packed(store, job_id):
        await storage.settle(job_id, fence, winners)
        return
    ledger = PackLedger()
    for item_id in winners:
        await _enter(ledger, store, storage, job_id, item_id)
    await ledger.settle(storage, job_id, fence)


async def _is_packed(store: JobStore, job_id: str) -> bool:
    try:
        return (await store.status(job_id)).job.layout is Layout.WARC
    except UnknownName:  # the job is gone, and its results with it
        return False


async def _enter(ledger: PackLedger, store: JobStore, storage: ResultStorage, job_id: str, item_id: str) -> None:
    try:
        record = await store.item(job_id, item_id)
    except UnknownName:  # the job is being deleted
        return
    places = [place for artifact in record.artifacts if (place := PackedAt.of(artifact.key)) is not None]
    ledger.add(places, await _stored(storage, job_id, record))


async def _stored(storage: ResultStorage, job_id: str, record: ItemRecord) -> Stored:
    """What was damaged meanwhile is kept as it is, for `verify` to find; only the index lacks it."""
    about = [artifact for artifact in record.artifacts if artifact.key.endswith(f"/{METADATA_FILE}")]
    try:
        return stored_in((await contents(storage, job_id, record.item_id, about))[METADATA_FILE])
    except (StoreDamaged, BadInput, KeyError):
        return Stored()

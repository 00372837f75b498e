"""StoredPages: the pages of a lease's items out of the job that fetched them, for extraction without the network (R6).

Before: the worker has a lease of a job that `extracts` another. After: pipeline/execute hands them to `extract`. Pages
are read for many items at once and a little ahead of need, so that an item hardly ever waits for the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from swath.domain.errors import BadInput, StoreDamaged, SwathError
from swath.domain.item import ItemRecord
from swath.domain.job import WaitingFor
from swath.domain.layout import file_of
from swath.domain.lease import Lease, LeasedItem
from swath.domain.page import Page
from swath.domain.result import Artifact
from swath.pipeline.dispatch.waits import Waits
from swath.pipeline.finish.artifacts import METADATA_FILE, REFUSED_PAGE, pages_of
from swath.pipeline.finish.stored import contents
from swath.pipeline.results.bulk_read import contents_of_many, in_groups
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["StoredPages", "has_pages", "records_at"]

T = TypeVar("T")

GROUP_ITEMS: Final = 50  # half of a large lease
GROUP_BYTES: Final = 4 << 20  # stored; pages unpack to several times as much, and two groups are held at once

_PAGE_ENDINGS: Final = (".html", ".html.gz")
_REFUSED_FILES: Final = tuple(REFUSED_PAGE + ending for ending in _PAGE_ENDINGS)

_Read = Sequence[Page] | Exception


class _Wanted(NamedTuple):
    """An item as the job that fetched it has it, and those of its artifacts of which pages are made."""

    seq: int
    item_id: str
    artifacts: list[Artifact]

    @property
    def size(self) -> int:
        return sum(artifact.size for artifact in self.artifacts)


class _Plan(msgspec.Struct, frozen=True):
    """The items of the lease, in the groups in which they are read."""

    groups: list[list[_Wanted]]
    group_of: dict[int, int]


class StoredPages:
    """One per lease. An item is asked for once, as a rule; one that is asked for again is read again.

    `in_vain` says that the lease is over, so that nobody waits any more for a store or a disk that is away.
    """

    def __init__(
        self, store: JobStore, storage: ResultStorage, lease: Lease, waits: Waits, in_vain: Callable[[], bool]
    ) -> None:
        if lease.job.extracts is None:
            raise ValueError(f"job {lease.job.job_id!r} reads no stored pages")
        self._store = store
        self._storage = storage
        self._job_id = lease.job.extracts
        self._seqs = [item.seq for item in lease.items]
        self._waits = waits
        self._in_vain = in_vain
        self._who = f"pages of lease {lease.fence}"
        self._plan: asyncio.Task[_Plan] | None = None
        self._reads: dict[int, asyncio.Task[dict[int, _Read]]] = {}

    async def of(self, item: LeasedItem) -> Sequence[Page]:
        """All pages but an answer that was no page. Raises StoreDamaged, and LeaseLost when it was in vain."""
        if self._plan is None:
            self._plan = asyncio.create_task(self._patiently(self._make_plan))
        plan = await _shared(self._plan)
        number = plan.group_of.get(item.seq)
        if number is None:
            raise BadInput(f"job {self._job_id!r} has no item {item.item_id!r} any more")
        for one in (number, number + 1):
            if one < len(plan.groups) and one not in self._reads:
                self._reads[one] = asyncio.create_task(self._read(plan.groups[one]))
        found = (await _shared(self._reads[number])).pop(item.seq, None)
        if found is None:
            again = [one for one in plan.groups[number] if one.seq == item.seq]
            found = (await self._read(again))[item.seq]
        if isinstance(found, Exception):
            raise found
        return found

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._waits.patiently(self._who, WaitingFor.DISK, call, self._in_vain)

    async def _make_plan(self) -> _Plan:
        records = await records_at(self._store, self._job_id, self._seqs)
        wanted = [_Wanted(one.seq, one.item_id, _wanted(one)) for one in records.values()]
        by_size = in_groups(((one, one.size) for one in wanted), GROUP_BYTES)
        groups = [some[at : at + GROUP_ITEMS] for some in by_size for at in range(0, len(some), GROUP_ITEMS)]
        return _Plan(groups, {one.seq: number for number, some in enumerate(groups) for one in some})

    async def _read(self, group: Sequence[_Wanted]) -> dict[int, _Read]:
        wanted = [(one.item_id, one.artifacts) for one in group]
        try:
            files = await self._patiently(lambda: contents_of_many(self._storage, self._job_id, wanted))
        except StoreDamaged:  # costs those items which have the damage, and no others
            return {one.seq: await self._read_one(one) for one in group}
        except SwathError as error:  # of a group that was read ahead, perhaps nobody will ever ask
            return dict.fromkeys((one.seq for one in group), error)
        return {one.seq: _pages(one.item_id, found) for one, found in zip(group, files, strict=True)}

    async def _read_one(self, one: _Wanted) -> _Read:
        try:
            files = await self._patiently(lambda: contents(self._storage, self._job_id, one.item_id, one.artifacts))
        except SwathError as error:
            return error
        return _pages(one.item_id, files)


async def _shared(task: asyncio.Task[T]) -> T:
    """What others wait for too: who gives up does not stop it."""
    return task.result() if task.done() else await asyncio.shield(task)


def _pages(item_id: str, files: dict[str, bytes]) -> _Read:
    try:
        pages = [page for page in pages_of(files) if page.name != REFUSED_PAGE]
    except BadInput as error:
        return error
    return pages or BadInput(f"item {item_id!r} has no stored pages any more")


def _wanted(record: ItemRecord) -> list[Artifact]:
    """What pages are made of; their keys end as their files do, in either layout."""
    return [artifact for artifact in record.artifacts if artifact.key.endswith((f"/{METADATA_FILE}", *_PAGE_ENDINGS))]


def has_pages(record: ItemRecord) -> bool:
    """Whether there is a page of the item from which something could be extracted."""
    found = [artifact.key for artifact in record.artifacts if artifact.key.endswith(_PAGE_ENDINGS)]
    return any(not key.endswith(_REFUSED_FILES) or file_of(record.item_id, key) not in _REFUSED_FILES for key in found)


async def records_at(store: JobStore, job_id: str, seqs: Iterable[int]) -> dict[int, ItemRecord]:
    """The items of these numbers, as far as the job has them; neighbours are read together."""
    left = sorted(seqs, reverse=True)
    found: dict[int, ItemRecord] = {}
    while left:
        wanted, records = set(left), await store.items(job_id, left[-1] - 1, len(left))
        found |= {record.seq: record for record in records if record.seq in wanted}
        reached = records[-1].seq if records else left[0]
        while left and left[-1] <= reached:
            left.pop()
    return found

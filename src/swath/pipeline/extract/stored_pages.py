"""Reads the stored pages of a lease's items, for extraction without the network.

Pages are read for many items at once and unpacked one by one. Nothing is read ahead: a thread beside the extraction
would compete with it for the interpreter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from swath.domain.errors import BadInput, LeaseLost
from swath.domain.item import ItemRecord
from swath.domain.job import WaitingFor
from swath.domain.lease import Lease, LeasedItem
from swath.domain.result import Artifact, Page
from swath.domain.storage_keys import REFUSED_FRAME_PAGE, REFUSED_PAGE, artifact_file_name
from swath.pipeline.formats.artifacts import METADATA_FILE, read_pages
from swath.pipeline.formats.stored_files import RawFiles, WantedFiles, group_by_bytes, opened, read_raw_files
from swath.pipeline.retrying import WaitingStatus
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["StoredPages", "has_pages", "read_records"]

T = TypeVar("T")

GROUP_ITEMS: Final = 250  # half of a large lease
GROUP_BYTES: Final = 4 << 20  # stored

_PAGE_ENDINGS: Final = (".html", ".html.gz")
_ENDINGS: Final = (f"/{METADATA_FILE}", *_PAGE_ENDINGS)
_REFUSED_FILES: Final = tuple(name + ending for name in (REFUSED_PAGE, REFUSED_FRAME_PAGE) for ending in _PAGE_ENDINGS)


class StoredPages:
    """One per lease: pages are brought, unpacked and taken. What was taken is not held any more; who needs it again has
    it brought again.

    `in_vain` says that the lease is over, so that nobody waits any more for a store or a disk that is away.
    """

    def __init__(
        self, store: JobStore, storage: ResultStorage, lease: Lease, waits: WaitingStatus, in_vain: Callable[[], bool]
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
        self._groups: list[dict[int, WantedFiles]] = []  # in which items are read, by number
        self._brought: set[int] = set()
        self._at_hand: dict[int, tuple[WantedFiles, RawFiles] | Exception] = {}
        self._unpacked: dict[int, Sequence[Page] | Exception] = {}

    def has(self, item: LeasedItem) -> bool:
        """Whether it was brought, and not taken since."""
        return item.seq in self._at_hand or item.seq in self._unpacked

    def unpack(self, item: LeasedItem) -> None:
        """Makes pages of what was brought, if that was not done before. It may cost the process: whoever takes notes of
        what runs does so first. What is wrong with them is kept for whoever takes them."""
        found = self._at_hand.pop(item.seq, None)
        if isinstance(found, Exception):
            self._unpacked[item.seq] = found
        elif found is not None:
            try:
                self._unpacked[item.seq] = read_pages(opened(self._job_id, *found))
            except Exception as error:  # noqa: BLE001 whatever it is, it costs this item alone
                self._unpacked[item.seq] = error

    def take(self, item: LeasedItem) -> Sequence[Page]:
        """All pages of an item that was unpacked, but an answer that was no page. Raises what is wrong with them."""
        found = self._unpacked.pop(item.seq)
        if isinstance(found, Exception):
            raise found
        pages = [page for page in found if page.name != REFUSED_PAGE]
        if not pages:
            raise BadInput(f"item {item.item_id!r} has no stored pages any more")
        return pages

    async def bring(self, item: LeasedItem) -> None:
        """Reads the item, and the others of its group if they were not read before. Raises LeaseLost."""
        try:
            wanted, raw = await self._read_group_of(item)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 whatever it is, it costs this item and not the lease
            self._at_hand[item.seq] = error
        else:
            self._at_hand |= {seq: (one, raw) for seq, one in wanted.items()}

    async def _read_group_of(self, item: LeasedItem) -> tuple[dict[int, WantedFiles], RawFiles]:
        if not self._groups:
            self._groups = await self._patiently(self._plan)
        number = next((number for number, group in enumerate(self._groups) if item.seq in group), None)
        if number is None:
            raise BadInput(f"job {self._job_id!r} has no item {item.item_id!r} any more")
        wanted = self._groups[number]
        if number in self._brought:
            wanted = {item.seq: wanted[item.seq]}
        self._brought.add(number)
        artifacts = [artifact for _, artifacts in wanted.values() for artifact in artifacts]
        return wanted, await self._patiently(lambda: read_raw_files(self._storage, self._job_id, artifacts))

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        return await self._waits.patiently(self._who, WaitingFor.DISK, call, self._in_vain)

    async def _plan(self) -> list[dict[int, WantedFiles]]:
        records = await read_records(self._store, self._job_id, self._seqs)
        wanted = [(one.seq, (one.item_id, _wanted(one))) for one in records.values()]
        by_size = group_by_bytes(((one, sum(artifact.size for artifact in one[1][1])) for one in wanted), GROUP_BYTES)
        return [dict(some[at : at + GROUP_ITEMS]) for some in by_size for at in range(0, len(some), GROUP_ITEMS)]


def _wanted(record: ItemRecord) -> list[Artifact]:
    """What pages are made of; their keys end as their files do, in either layout."""
    return [artifact for artifact in record.artifacts if artifact.key.endswith(_ENDINGS)]


def has_pages(record: ItemRecord) -> bool:
    """Whether there is a page of the item from which something could be extracted."""
    for artifact in record.artifacts:
        if artifact.key.endswith(_PAGE_ENDINGS) and not _is_refused(record.item_id, artifact.key):
            return True
    return False


def _is_refused(item_id: str, key: str) -> bool:
    return key.endswith(_REFUSED_FILES) and artifact_file_name(item_id, key) in _REFUSED_FILES


async def read_records(store: JobStore, job_id: str, seqs: Iterable[int]) -> dict[int, ItemRecord]:
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

"""ResultStorage: where artifacts and manifests are stored.

Files are staged under the lease's fence and published when the store has accepted the outcome, so a losing attempt
never touches what a winner published. A folder publishes by renaming. A bucket cannot rename: files are staged at
keys
that no other lease writes. Callers use the keys that `stage` returns.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import msgspec

from swath.domain.lease import LeasedItem
from swath.domain.result import Artifact

__all__ = ["FileRange", "PackAppend", "ResultStorage", "StagedItem"]


class PackAppend(msgspec.Struct, frozen=True):
    """Bytes for a pack. `head` comes before them where the pack is new."""

    data: bytes
    head: bytes = b""


class FileRange(NamedTuple):
    """`length` bytes of a file from `start` on; without a length, all of it."""

    key: str
    start: int = 0
    length: int | None = None


_NO_PACKS: Final[Mapping[str, int]] = MappingProxyType({})
_NO_DOCUMENTS: Final[Mapping[str, bytes]] = MappingProxyType({})


class StagedItem(msgspec.Struct, frozen=True):
    """The files of one item by name (already safe, see domain/keys.py), to be stored together.

    `first` says that no lease ever held the item before, in this generation or an earlier one: then plain keys,
    `items/{item}/{name}`, can belong to nobody else. It must never be said of two leases of a job; whether a deleted
    job had the same id is for the storage to know.
    """

    item_id: str
    files: Mapping[str, bytes]
    first: bool = False


class ResultStorage(Protocol):
    """Keys are relative to the job. An artifact exists whole under its key or not at all. Later leases have higher
    fences.

    `pack_seconds`: how long outcomes had better be gathered for one `append`; 0 where it costs no more to come often.
    """

    pack_seconds: float

    async def open_lease(self, job_id: str, fence: int, items: Collection[LeasedItem] = ()) -> None:
        """Makes room for what will be staged under this fence; to name the items now is cheaper than later."""
        ...

    async def stage(self, job_id: str, fence: int, items: Sequence[StagedItem]) -> list[tuple[Artifact, ...]]:
        """Stores files where no other fence writes; answers with their final keys, sizes and hashes, in order.

        Size and hash are those of what `get` returns. Raises LeaseLost when the fence's room was cleared away. Staging
        an item again replaces it.
        """
        ...

    async def publish(self, job_id: str, fence: int, item_ids: Collection[str]) -> None:
        """Makes staged items visible under their final keys, each at once and replacing what an earlier fence had.

        Items not staged, or published before, are passed over, so it can be repeated after a crash.
        """
        ...

    async def append(self, job_id: str, fence: int, additions: Mapping[str, PackAppend]) -> dict[str, tuple[str, int]]:
        """Adds to the packs of a lease, by the ending of their names (domain/layout.py): answers for each with the
        key of the pack, `packs/{fence}` and more, and where in it `data` begins.

        No other fence ever writes a pack, and what was added never moves. `read` finds it at once; it is published, as
        far as `settle` says, by that. After an error nothing was added. Raises LeaseLost as `stage`.
        """
        ...

    async def settle(
        self,
        job_id: str,
        fence: int,
        winners: Collection[str],
        packs: Mapping[str, int] = _NO_PACKS,
        documents: Mapping[str, bytes] = _NO_DOCUMENTS,
    ) -> None:
        """Publishes the winners among what is staged and throws away the rest and the room. Can be repeated.

        `winners` are all items whose ends the store accepted under this fence and that have files, also those
        published before. `packs` says how many bytes of each pack they need, from its beginning: nothing behind that
        is ever seen again, nor are packs that are not named. `documents` by key are put beside them; when the room is
        gone they are not, for then somebody has settled before.
        """
        ...

    async def put(self, job_id: str, documents: Mapping[str, bytes]) -> list[Artifact]:
        """Writes documents by key, each replacing its former whole; answers in the mapping's order.

        Without a fence, so only for a caller that nobody else can get in the way of; manifests go by `put_under`.
        """
        ...

    async def put_under(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[Artifact]:
        """Writes documents as `put` does, for the holder of a lease whose room is open.

        A holder that has lost its lease can never replace what a later lease wrote, wherever it was stopped and
        whenever it goes on. Raises LeaseLost when the room was removed, or when a later lease wrote such a document.
        """
        ...

    async def withdraw(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> None:
        """Removes documents under the same fence; those that are not there are passed over.

        S3 has no removal on a condition that every server knows. There the given bytes replace each document, and
        should say that it is empty.
        """
        ...

    async def get(self, job_id: str, key: str) -> bytes:
        """The stored bytes. Raises KeyError when there is nothing under the key.

        What is only staged may be found or not; nothing refers to it.
        """
        ...

    async def read(self, job_id: str, key: str, start: int, length: int) -> bytes:
        """A piece of the stored bytes: `length` of them from `start` on, fewer where they end before that, and none
        where they end before `start`. Raises KeyError as `get`."""
        ...

    async def read_all(self, job_id: str, pieces: Sequence[FileRange]) -> list[bytes | None]:
        """Many pieces, as `get` and `read` have them, in the order given; None where there is nothing under the key.
        Files of one folder had better stand side by side."""
        ...

    async def absent(self, job_id: str, sizes: Mapping[str, int]) -> set[str]:
        """Of these published files, by key with the bytes that each must have at least, those that are not there or are
        shorter.

        In S3 a look is a request, so there it is taken at packs only; all other files count as there.
        """
        ...

    async def link(self, job_id: str, key: str, seconds: int) -> str | None:
        """A link with which anybody can download the file for so long, to be saved and never shown by a browser. None
        where files cannot be reached by a link. Raises ValueError when it cannot be good for so long."""
        ...

    async def remove(self, job_id: str, prefix: str) -> None:
        """Removes every document whose key begins so (manifest parts of an interrupted ending)."""
        ...

    async def delete(self, job_id: str, keys: Collection[str]) -> None:
        """Removes the documents with exactly these keys; keys under which there is nothing are ignored.

        The cost follows from the number of keys, not from what else the job holds.
        """
        ...

    async def clear(self, job_id: str, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        """Removes everything of the job, staged and published. Can be repeated; may take long for many files.

        `confirm` is awaited when it is known what there is, and before any of it is removed; what it raises comes out.
        It asks whether the job is still to be removed: this process may have slept, and the job been ordered anew.

        Whatever leases of it do later, what leases of a job ordered anew under the id have staged stays as it is.
        """
        ...

    def keys(self, job_id: str, prefix: str = "") -> AsyncIterator[str]:
        """All keys that begin so, in any order; nothing that is only staged, and nothing that lost.

        What another process has published may be missing until its lease is settled.
        """
        ...

    async def open_leases(self, job_id: str) -> list[int]:
        """The fences whose rooms have not been settled."""
        ...

    async def trouble(self, job_id: str) -> str | None:
        """Why the results of this job cannot be written now, for a reason that other jobs do not share, with the place;
        None when nothing such is seen. Raises StoreUnavailable."""
        ...

    def location(self, job_id: str) -> str:
        """Where a person finds the job's files."""
        ...

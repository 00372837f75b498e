"""ResultStorage: where artifacts and manifests lie. Files are staged under the lease's fence, and published when the
store has accepted the outcome, so a losing attempt never touches what a winner published."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from swath.domain.result import Artifact

__all__ = ["ResultStorage", "StagedItem"]


class StagedItem(msgspec.Struct, frozen=True):
    """The files of one item by name (already safe, see domain/keys.py), to be stored together."""

    item_id: str
    files: Mapping[str, bytes]


class ResultStorage(Protocol):
    """Keys are relative to the job. An artifact exists whole under its key or not at all."""

    async def open_lease(self, job_id: str, fence: int) -> None:
        """Makes room for what will be staged under this fence."""
        ...

    async def stage(self, job_id: str, fence: int, items: Sequence[StagedItem]) -> list[tuple[Artifact, ...]]:
        """Stores files where only this fence sees them; answers with their final keys, sizes and hashes, in order.

        Raises LeaseLost when the fence's room was cleared away. Staging an item again replaces it.
        """
        ...

    async def publish(self, job_id: str, fence: int, item_ids: Collection[str]) -> None:
        """Makes staged items visible under their final keys, each at once and replacing what an earlier fence had.

        Items not staged, or published before, are passed over, so it can be repeated after a crash.
        """
        ...

    async def settle(self, job_id: str, fence: int, winners: Collection[str]) -> None:
        """Publishes the winners among what is staged and throws away the rest and the room. Can be repeated."""
        ...

    async def put(self, job_id: str, documents: Mapping[str, bytes]) -> list[Artifact]:
        """Writes documents by key (manifests), each replacing its former whole; answers in the mapping's order."""
        ...

    async def get(self, job_id: str, key: str) -> bytes:
        """The stored bytes. Raises KeyError when there is nothing under the key."""
        ...

    async def remove(self, job_id: str, prefix: str) -> None:
        """Removes every document whose key begins so (manifest parts of an interrupted ending)."""
        ...

    async def clear(self, job_id: str) -> None:
        """Removes everything of the job, staged and published. Can be repeated; may take long for many files."""
        ...

    def keys(self, job_id: str, prefix: str = "") -> AsyncIterator[str]:
        """All keys that begin so, in any order; nothing that is only staged."""
        ...

    async def open_leases(self, job_id: str) -> list[int]:
        """The fences whose rooms have not been settled."""
        ...

    def location(self, job_id: str) -> str:
        """Where a person finds the job's files."""
        ...

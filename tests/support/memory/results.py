"""Result storage in dictionaries. Lost with the process."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from swath.domain.errors import LeaseLost
from swath.domain.lease import LeasedItem
from swath.domain.result import Artifact
from swath.domain.storage_keys import PACKS_PREFIX, encode_key, pack_fence
from swath.ports.result_storage import FileRange, PackAppend, StagedItem

__all__ = ["MemoryResults"]

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class MemoryResults:
    """ResultStorage that can be looked into: `files` by job and key, `rooms` by job, fence and item."""

    pack_seconds = 0.0

    def __init__(self) -> None:
        self._packs: defaultdict[tuple[str, int], dict[str, bytearray]] = defaultdict(dict)
        self._published: dict[tuple[str, str], list[str]] = {}
        self.files: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        self.rooms: defaultdict[str, dict[int, dict[str, dict[str, bytes]]]] = defaultdict(dict)

    async def close(self) -> None:
        """Nothing to let go of."""

    async def open_lease(self, job_id: str, fence: int, items: Collection[LeasedItem] = ()) -> None:
        """Makes the room. Nothing else does."""
        self.rooms[job_id].setdefault(fence, {})

    async def stage(self, job_id: str, fence: int, items: Sequence[StagedItem]) -> list[tuple[Artifact, ...]]:
        """Keeps the files in the room."""
        room = self.rooms[job_id].get(fence)
        if room is None:
            raise LeaseLost(f"lease {fence} was taken away: its room is gone")
        for item in items:
            for name in item.files:
                _check(name)
            room[item.item_id] = dict(item.files)
        return [
            tuple(_artifact(f"{_folder(item.item_id)}{name}", data) for name, data in item.files.items())
            for item in items
        ]

    async def publish(self, job_id: str, fence: int, item_ids: Collection[str]) -> None:
        """Moves staged items, each replacing all its former files."""
        room, files = self.rooms[job_id].get(fence, {}), self.files[job_id]
        for item_id in item_ids:
            staged = room.pop(item_id, None)
            if staged is None:
                continue
            for key in self._published.get((job_id, item_id), ()):
                files.pop(key, None)
            published = {_folder(item_id) + name: data for name, data in staged.items()}
            self._published[job_id, item_id] = list(published)
            files |= published

    async def append(self, job_id: str, fence: int, additions: Mapping[str, PackAppend]) -> dict[str, tuple[str, int]]:
        """Keeps the packs by the side of the room."""
        if fence not in self.rooms[job_id]:
            raise LeaseLost(f"lease {fence} was taken away: its room is gone")
        for ending in additions:
            _check(PACKS_PREFIX + ending)
        answer = {}
        for ending, addition in additions.items():
            key = f"{PACKS_PREFIX}{fence}.{ending}"
            pack = self._packs[job_id, fence].setdefault(key, bytearray())
            if not pack:
                pack += addition.head
            answer[ending] = (key, len(pack))
            pack += addition.data
        return answer

    async def settle(
        self,
        job_id: str,
        fence: int,
        winners: Collection[str],
        packs: Mapping[str, int] = _NONE,
        documents: Mapping[str, bytes] = _NONE,
    ) -> None:
        """Publishes what is needed and forgets the room."""
        for key in documents:
            _check(key)
        await self.publish(job_id, fence, winners)
        if self.rooms[job_id].pop(fence, None) is None:
            return
        written = self._packs.pop((job_id, fence), {})
        published = {key: bytes(pack[: packs[key]]) for key, pack in written.items() if key in packs}
        self.files[job_id] |= published | dict(documents)

    async def put(self, job_id: str, documents: Mapping[str, bytes]) -> list[Artifact]:
        """Keeps the documents."""
        for key in documents:
            _check(key)
        self.files[job_id] |= documents
        return [_artifact(key, data) for key, data in documents.items()]

    async def put_under(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> list[Artifact]:
        """Keeps the documents while the room is there."""
        if fence not in self.rooms[job_id]:
            raise LeaseLost(f"lease {fence} was taken away: its room is gone")
        return await self.put(job_id, documents)

    async def withdraw(self, job_id: str, fence: int, documents: Mapping[str, bytes]) -> None:
        """Forgets the documents while the room is there."""
        for key in documents:
            _check(key)
            if fence in self.rooms[job_id]:
                self.files[job_id].pop(key, None)

    async def get(self, job_id: str, key: str) -> bytes:
        """The bytes as they were given."""
        _check(key)
        written = self._packs.get((job_id, pack_fence(key) or 0), {})
        return bytes(written[key]) if key in written else self.files[job_id][key]

    async def read(self, job_id: str, key: str, start: int, length: int) -> bytes:
        """A piece of them."""
        return (await self.get(job_id, key))[start : start + length]

    async def read_all(self, job_id: str, pieces: Sequence[FileRange]) -> list[bytes | None]:
        """One after the other."""
        found: list[bytes | None] = []
        for key, start, length in pieces:
            try:
                data = await self.get(job_id, key)
                found.append(data if length is None else data[start : start + length])
            except KeyError:
                found.append(None)
        return found

    async def absent(self, job_id: str, sizes: Mapping[str, int]) -> set[str]:
        """Looks at each."""
        files = self.files[job_id]
        return {key for key, size in sizes.items() if len(files.get(key, b"")) < size or key not in files}

    async def link(self, job_id: str, key: str, seconds: int) -> str | None:
        """None."""
        _check(key)
        return None

    async def remove(self, job_id: str, prefix: str) -> None:
        """Forgets what begins so."""
        _check(prefix + "x")
        files = self.files[job_id]
        for key in [key for key in files if key.startswith(prefix)]:
            del files[key]

    async def delete(self, job_id: str, keys: Collection[str]) -> None:
        """Forgets these."""
        for key in keys:
            _check(key)
            self.files[job_id].pop(key, None)

    async def clear(self, job_id: str, confirm: Callable[[], Awaitable[None]] | None = None) -> None:
        """Forgets the job."""
        if confirm is not None:
            await confirm()
        self.files.pop(job_id, None)
        for fence in self.rooms.pop(job_id, {}):
            self._packs.pop((job_id, fence), None)
        for published in [published for published in self._published if published[0] == job_id]:
            del self._published[published]

    async def keys(self, job_id: str, prefix: str = "") -> AsyncIterator[str]:
        """The keys as they stand at the first step."""
        _check(prefix + "x")
        for key in [key for key in self.files[job_id] if key.startswith(prefix)]:
            yield key

    async def open_leases(self, job_id: str) -> list[int]:
        """The fences whose rooms have not been settled."""
        return sorted(self.rooms[job_id])

    async def trouble(self, job_id: str) -> str | None:
        """Nothing: no place is of one job alone."""
        return None

    def location(self, job_id: str) -> str:
        """Nowhere a person could look."""
        return f"memory:{encode_key(job_id)}"


def _folder(item_id: str) -> str:
    return f"items/{encode_key(item_id)}/"


def _artifact(key: str, data: bytes) -> Artifact:
    return Artifact(key, len(data), hashlib.sha256(data).hexdigest())


def _check(key: str) -> None:
    if "\0" in key or any(segment == "" or segment.startswith(".") for segment in key.split("/")):
        raise ValueError(f"{key!r} is no key inside a job")

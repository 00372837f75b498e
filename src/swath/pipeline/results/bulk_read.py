"""The files of many items at once: what lies close together in a pack is read by one call and opened in one thread.

Before: the store says which artifacts the items have. After: export, comparison and re-extraction. Reads the same as
pipeline/finish/stored.py does for one item.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from swath.domain.layout import PackedAt
from swath.domain.result import Artifact
from swath.pipeline.finish.pack_ranges import PackRange, ranges_of
from swath.pipeline.finish.stored import check_bytes, missing, plain_files
from swath.ports.result_storage import ResultStorage

__all__ = ["Wanted", "contents_of_many", "in_groups"]

Wanted = tuple[str, Sequence[Artifact]]
"""An item's id and those of its artifacts that somebody wants."""

T = TypeVar("T")
_Raw = Mapping[str, bytes]  # stored bytes by the artifact's key

GROUP_BYTES: Final = 16 << 20  # of stored bytes held at once; pages unpack to several times as much
READS_AT_ONCE: Final = 16


async def contents_of_many(storage: ResultStorage, job_id: str, wanted: Sequence[Wanted]) -> list[dict[str, bytes]]:
    """For each item its files by plain name, unpacked and checked, in the order given.

    Holds stored bytes of one group at a time; the answer is as large as what was asked for (see `in_groups`). Raises
    StoreDamaged when a file is not what was stored.
    """
    found: list[dict[str, bytes]] = []
    for group in in_groups((one, _size(one[1])) for one in wanted):
        raw = await _read_all(storage, job_id, [artifact for _, artifacts in group for artifact in artifacts])
        found += await asyncio.to_thread(_open_all, job_id, group, raw)
    return found


def in_groups(sized: Iterable[tuple[T, int]], most_bytes: int = GROUP_BYTES) -> Iterator[list[T]]:
    """In groups of no more bytes than that, or of one that has more."""
    group: list[T] = []
    total = 0
    for one, size in sized:
        if group and total + size > most_bytes:
            yield group
            group, total = [], 0
        group.append(one)
        total += size
    if group:
        yield group


def _size(artifacts: Iterable[Artifact]) -> int:
    return sum(artifact.size for artifact in artifacts)


def _open_all(job_id: str, group: Sequence[Wanted], raw: _Raw) -> list[dict[str, bytes]]:
    opened = []
    for item_id, artifacts in group:
        stored = [raw[artifact.key] for artifact in artifacts]
        for artifact, data in zip(artifacts, stored, strict=True):
            check_bytes(job_id, artifact, data)
        opened.append(plain_files(job_id, item_id, artifacts, stored))
    return opened


async def _read_all(storage: ResultStorage, job_id: str, artifacts: Sequence[Artifact]) -> _Raw:
    places = {artifact.key: place for artifact in artifacts if (place := PackedAt.of(artifact.key)) is not None}
    limit, raw, pieces = asyncio.Semaphore(READS_AT_ONCE), dict[str, bytes](), dict[tuple[str, int, int], bytes]()

    async def read(run: PackRange) -> None:
        async with limit:
            try:
                data = await storage.read(job_id, run.pack, run.start, run.length)
            except KeyError:
                raise missing(job_id, run.places[0].key) from None
        pieces.update(zip((place[:3] for place in run.places), run.cut(data), strict=True))

    async def get(key: str) -> None:
        async with limit:
            try:
                raw[key] = await storage.get(job_id, key)
            except KeyError:
                raise missing(job_id, key) from None

    alone = [artifact.key for artifact in artifacts if artifact.key not in places]
    await _all_or_none([*map(read, ranges_of(places.values())), *map(get, alone)])
    return raw | {key: pieces[place[:3]] for key, place in places.items()}


async def _all_or_none(reads: Iterable[Awaitable[None]]) -> None:
    """The first error ends all of them, and is raised as it is."""
    tasks = [asyncio.ensure_future(read) for read in reads]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()

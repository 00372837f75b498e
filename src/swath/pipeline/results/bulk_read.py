"""The files of many items at once: what lies close together in a pack is read by one call, and so are many files.

Before: the store says which artifacts the items have. After: export, comparison and re-extraction. Reads the same as
pipeline/finish/stored.py does for one item.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from swath.domain.layout import PackedAt
from swath.domain.result import Artifact
from swath.pipeline.finish.pack_ranges import ranges_of
from swath.pipeline.finish.stored import check_bytes, missing, plain_files
from swath.ports.result_storage import Piece, ResultStorage

__all__ = ["Raw", "Wanted", "contents_of_many", "in_groups", "opened", "raw_of_many"]

Wanted = tuple[str, Sequence[Artifact]]
"""An item's id and those of its artifacts that somebody wants."""

T = TypeVar("T")
Raw = Mapping[str, bytes]
"""Stored bytes by the artifact's key."""

GROUP_BYTES: Final = 16 << 20  # of stored bytes held at once; pages unpack to several times as much


async def contents_of_many(storage: ResultStorage, job_id: str, wanted: Sequence[Wanted]) -> list[dict[str, bytes]]:
    """For each item its files by plain name, unpacked and checked, in the order given.

    Holds stored bytes of one group at a time; the answer is as large as what was asked for (see `in_groups`). Raises
    StoreDamaged when a file is not what was stored.
    """
    found: list[dict[str, bytes]] = []
    for group in in_groups((one, _size(one[1])) for one in wanted):
        raw = await raw_of_many(storage, job_id, [artifact for _, artifacts in group for artifact in artifacts])
        found += await asyncio.to_thread(lambda: [opened(job_id, one, raw) for one in group])  # noqa: B023 awaited
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


def opened(job_id: str, wanted: Wanted, raw: Raw) -> dict[str, bytes]:
    """The files of one item by plain name, unpacked and checked. Raises StoreDamaged."""
    item_id, artifacts = wanted
    found = []
    for artifact in artifacts:
        data = raw.get(artifact.key)
        if data is None:
            raise missing(job_id, artifact.key)
        check_bytes(job_id, artifact, data)
        found.append(data)
    return plain_files(job_id, item_id, artifacts, found)


async def raw_of_many(storage: ResultStorage, job_id: str, artifacts: Sequence[Artifact]) -> Raw:
    """As they lie there, unchecked; what is not there is left out."""
    places, alone = list[tuple[str, int, int, str]](), list[str]()
    for artifact in artifacts:
        place = PackedAt.of(artifact.key)
        if place is None:
            alone.append(artifact.key)
        else:
            places.append((*place[:3], artifact.key))
    runs = list(ranges_of(places))
    asked = [*(Piece(run.pack, run.start, run.length) for run in runs), *map(Piece, alone)]
    read = await storage.read_all(job_id, asked)
    raw = {key: data for key, data in zip(alone, read[len(runs) :], strict=True) if data is not None}
    for run, data in zip(runs, read, strict=False):
        if data is not None:
            raw.update(zip([key for _, _, _, key in run.places], run.cut(data), strict=True))
    return raw

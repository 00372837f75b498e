"""The files of many items at once: what lies close together in a pack is read by one call and opened in one thread.

Before: the store says which artifacts the items have. After: export, comparison and re-extraction. Reads the same as
pipeline/finish/stored.py does for one item.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from swath.domain.layout import PackedAt
from swath.domain.result import Artifact
from swath.pipeline.finish.stored import check_bytes, missing, plain_files
from swath.ports.result_storage import ResultStorage

__all__ = ["Wanted", "contents_of_many", "in_groups"]

Wanted = tuple[str, Sequence[Artifact]]
"""An item's id and those of its artifacts that somebody wants."""

T = TypeVar("T")
_Raw = Mapping[str, bytes]  # stored bytes by the artifact's key

GROUP_BYTES: Final = 16 << 20  # of stored bytes held at once; pages unpack to several times as much
RUN_BYTES: Final = 4 << 20  # that one call reads, unless a single file is larger
GAP_BYTES: Final = 32 << 10  # between two files, cheaper to read than to ask again
READS_AT_ONCE: Final = 16


class _Run(NamedTuple):
    """Neighbours in one pack."""

    pack: str
    start: int
    end: int
    artifacts: list[tuple[PackedAt, Artifact]]


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
    packed, alone = [], []
    for artifact in artifacts:
        place = PackedAt.of(artifact.key)
        if place is None:
            alone.append(artifact)
        else:
            packed.append((place, artifact))
    limit, raw = asyncio.Semaphore(READS_AT_ONCE), dict[str, bytes]()

    async def read(run: _Run) -> None:
        async with limit:
            raw.update(await _read_run(storage, job_id, run))

    async def get(artifact: Artifact) -> None:
        async with limit:
            raw[artifact.key] = await _get(storage, job_id, artifact)

    await _all_or_none([*map(read, _runs(packed)), *map(get, alone)])
    return raw


async def _all_or_none(reads: Iterable[Awaitable[None]]) -> None:
    """The first error ends all of them, and is raised as it is."""
    tasks = [asyncio.ensure_future(read) for read in reads]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _runs(packed: list[tuple[PackedAt, Artifact]]) -> Iterator[_Run]:
    """In the order of their bytes, so that neighbours meet."""
    run: _Run | None = None
    for place, artifact in sorted(packed, key=lambda one: (one[0].pack, one[0].start)):
        if run is not None and _goes_on(run, place):
            run.artifacts.append((place, artifact))
            run = run._replace(end=max(run.end, place.end))
            continue
        if run is not None:
            yield run
        run = _Run(place.pack, place.start, place.end, [(place, artifact)])
    if run is not None:
        yield run


def _goes_on(run: _Run, place: PackedAt) -> bool:
    return place.pack == run.pack and place.start <= run.end + GAP_BYTES and place.end - run.start <= RUN_BYTES


async def _read_run(storage: ResultStorage, job_id: str, run: _Run) -> dict[str, bytes]:
    try:
        data = await storage.read(job_id, run.pack, run.start, run.end - run.start)
    except KeyError:
        raise missing(job_id, run.artifacts[0][1]) from None
    return {artifact.key: data[place.start - run.start : place.end - run.start] for place, artifact in run.artifacts}


async def _get(storage: ResultStorage, job_id: str, artifact: Artifact) -> bytes:
    try:
        return await storage.get(job_id, artifact.key)
    except KeyError:
        raise missing(job_id, artifact) from None

"""FormerFiles: takes away what a former generation stored and no end refers to any more.

Called by the finisher for each batch of items, before their manifest is written, and when all have passed. A first
generation has nothing behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from swath.domain.item import ItemRecord
from swath.domain.keys import encode
from swath.domain.layout import INDEX, PACKS, WARC, Layout, pack_fence
from swath.domain.lease import Lease
from swath.observe.crash_points import reach
from swath.pipeline.finish.packing import needed_of
from swath.ports.result_storage import ResultStorage, StagedItem

__all__ = ["FormerFiles"]

_LOOKS_AT_ONCE: Final = 64


class FormerFiles:
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
            self._packs.update(*(needed_of(record.artifacts) for record in records))
            return
        bare = [one.item_id for one in records if one.generation == self._generation and not one.artifacts]
        for start in range(0, len(bare), _LOOKS_AT_ONCE):
            await self._clear(bare[start : start + _LOOKS_AT_ONCE])

    async def end(self) -> None:
        """All items have passed: removes packs of which none needs anything, and the index of a WARC with it.

        Those of leases later than our own belong to a later generation, which may have come while we slept.
        """
        if self._generation == 1 or self._lease.job.layout is Layout.FILES:
            return
        fences = {pack_fence(pack) for pack in self._packs if pack.endswith(WARC)}
        found = [key async for key in self._storage.keys(self._job_id, PACKS)]
        for key in found:
            fence = pack_fence(key)
            used = key in self._packs or (key.endswith(INDEX) and fence in fences)
            if fence is not None and fence < self._lease.fence and not used:
                reach("before_pack_removal")
                await self._storage.remove(self._job_id, key)

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
        async for _ in self._storage.keys(self._job_id, f"items/{encode(item_id)}/"):
            return True
        return False

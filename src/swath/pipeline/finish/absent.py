"""AbsentFiles: finds the items of an ending job whose files are not there any more, as when somebody removed the
results folder while the job ran.

Called by the finisher for each batch of items, and when all have passed. It only looks whether files are there and long
enough; `jobs verify` reads them. Their items are listed in a file that `jobs retry --items` takes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from swath.domain.item import ItemRecord
from swath.domain.job import Job
from swath.domain.layout import Layout, PackedAt
from swath.domain.transitions import JobState
from swath.pipeline.finish.packing import needed_of
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["AbsentFiles", "state_without"]

_READ_ITEMS: Final = 1_000


class AbsentFiles:
    """Of one job. `items` counts the items of which files are missing."""

    def __init__(self, store: JobStore, storage: ResultStorage, job: Job) -> None:
        self._store = store
        self._storage = storage
        self._job = job
        self._packs: dict[str, int] = {}
        self._ids = io.StringIO()
        self._rows = csv.writer(self._ids, lineterminator="\n")
        self._rows.writerow(["item_id"])
        self.items = 0

    async def pass_by(self, records: Sequence[ItemRecord]) -> None:
        """These items have ended as they say, and everything of theirs has been published."""
        if self._job.layout is Layout.WARC:
            for record in records:
                for pack, end in needed_of(record.artifacts).items():
                    self._packs[pack] = max(end, self._packs.get(pack, 0))
            return
        wanted = {artifact.key: artifact.size for record in records for artifact in record.artifacts}
        absent = await self._storage.absent(self._job.job_id, wanted) if wanted else set()
        if absent:
            self._note(record for record in records if any(one.key in absent for one in record.artifacts))

    async def end(self) -> None:
        """All have passed. Only when a pack is missing are they read again, to see which had files in it."""
        absent = await self._storage.absent(self._job.job_id, self._packs) if self._packs else set()
        after = 0
        while absent and (records := await self._store.items(self._job.job_id, after, _READ_ITEMS)):
            self._note(record for record in records if _packs_of(record) & absent)
            after = records[-1].seq

    def document(self) -> bytes:
        """Their ids as a CSV file."""
        return self._ids.getvalue().encode("utf-8", "surrogatepass")

    def _note(self, records: Iterable[ItemRecord]) -> None:
        for record in records:
            self._rows.writerow([record.item_id])
            self.items += 1


def _packs_of(record: ItemRecord) -> set[str]:
    return {packed.pack for one in record.artifacts if (packed := PackedAt.of(one.key)) is not None}


def state_without(state: JobState, missing_items: int) -> JobState:
    """How a job ends when files are missing: never as if it had everything."""
    return JobState.PARTIALLY_COMPLETED if missing_items and state is JobState.COMPLETED else state

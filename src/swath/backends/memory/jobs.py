"""Jobs and items as people see them, and who is told of changes: the rest of the JobStore part of the memory store.

Before: loading.py takes them in. After: control.py and claims.py.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from swath.backends.memory.loading import MemoryLoading
from swath.domain.errors import UnknownName
from swath.domain.item import ItemFilter, ItemRecord
from swath.domain.job import JobStatus
from swath.domain.portion import PAGE_BYTES, Portion, item_bytes
from swath.domain.transitions import JobState
from swath.ports.job_store import ItemPage
from swath.ports.news import News

__all__ = ["MemoryJobs"]


class MemoryJobs(MemoryLoading):
    """See ports/job_store.py for what each method promises."""

    async def status(self, job_id: str) -> JobStatus:
        with self._shelves.open():
            return self._shelves.status(self._shelves.job(job_id))

    async def jobs(
        self, after: str | None = None, limit: int = 100, *, states: Collection[JobState] = (), on_demand: bool = True
    ) -> list[JobStatus]:
        with self._shelves.open():
            newest_first = list(reversed(self._shelves.jobs.values()))
            if after is not None:
                newest_first = newest_first[newest_first.index(self._shelves.job(after)) + 1 :]
            fitting = [
                job
                for job in newest_first
                if (not states or job.state in states) and (on_demand or not job.order.on_demand)
            ]
            return [self._shelves.status(job) for job in fitting[:limit]]

    async def held_by(self) -> str | None:
        return None

    async def items(self, job_id: str, after: int = 0, limit: int = 1_000) -> list[ItemRecord]:
        with self._shelves.open():
            return list(Portion(PAGE_BYTES).take(self._records(job_id, after)[:limit], item_bytes))

    def _records(self, job_id: str, after: int) -> list[ItemRecord]:
        job = self._shelves.job(job_id)
        return [self._shelves.record(job, job.items[seq]) for seq in sorted(job.items) if seq > after]

    async def find_items(self, job_id: str, wanted: ItemFilter, after: int = 0, limit: int = 100) -> ItemPage:
        with self._shelves.open():
            records = self._records(job_id, after)
            fitting, portion = [record for record in records if wanted.takes(record)][:limit], Portion(PAGE_BYTES)
            page = list(portion.take(fitting, item_bytes))
            goes_on = portion.full or (len(page) == limit and page[-1].seq < records[-1].seq)
            return ItemPage(page, page[-1].seq if goes_on else None)

    async def item(self, job_id: str, item_id: str) -> ItemRecord:
        with self._shelves.open():
            job = self._shelves.job(job_id)
            if item_id not in job.seqs:
                raise UnknownName(f"there is no item {item_id!r} in job {job_id!r}")
            stored = job.items[job.seqs[item_id]]
            return msgspec.structs.replace(self._shelves.record(job, stored), earlier=stored.earlier)

    def news(self) -> News:
        return self._shelves.bulletin.listen()

    async def close(self) -> None:
        self._shelves.closed = True

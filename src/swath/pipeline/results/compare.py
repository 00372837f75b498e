"""Comparison of two jobs by a key (R7): which records are new, changed or vanished, and which nobody can tell.

Before: both jobs have records (rows.py), of their current versions. After: `swath jobs compare` shows the summary and
writes the differences (compare_text.py). Records go through a temporary file, so memory does not grow with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.item import ItemFilter
from swath.domain.job import JobStatus
from swath.domain.policy import Keep
from swath.domain.transitions import JobState
from swath.domain.versions import current_job_id
from swath.pipeline.results.compare_report import (
    BY_ITEM,
    Change,
    Compared,
    Difference,
    FieldChanges,
    Question,
    Summary,
)
from swath.pipeline.results.compare_table import CompareTable, Keyed, Meeting, Side, Unkeyed
from swath.pipeline.results.flatten import Scalar, as_text, flatten
from swath.pipeline.results.rows import Row, rows_of
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["Comparison"]

_INPUT: Final = "input"
_FIELDS_REMEMBERED: Final = 2_000  # to say which fields there are when a key is none of them
_PAGE_ITEMS: Final = 1_000


class Comparison:
    """Of two jobs as they stand: `load` first."""

    def __init__(self, store: JobStore, storage: ResultStorage, table: CompareTable, question: Question) -> None:
        self._store = store
        self._storage = storage
        self._table = table
        self._question = question
        self._known: list[dict[str, None]] = [{}, {}]  # the names that a key could have
        self._jobs: list[Compared] = []

    async def load(self, jobs: tuple[JobStatus, JobStatus], told: Callable[[int], None]) -> None:
        """Reads the records of both. Raises BadInput, Conflict and UnknownName for what cannot be compared."""
        for side, status in zip(Side, jobs, strict=True):
            _check(status)
            await self._load(side, status, told)
        await self._load_without_record(jobs[1].job.job_id)
        await asyncio.to_thread(self._table.close_intake)
        for side, status in zip(Side, jobs, strict=True):
            await self._check_unchanged(status)
            self._jobs.append(await self._compared(side, status))

    async def _load(self, side: Side, status: JobStatus, told: Callable[[int], None]) -> None:
        async with aclosing(rows_of(self._store, self._storage, status)) as batches:
            async for batch in batches:
                await asyncio.to_thread(self._add, side, batch.rows)
                told(batch.items)

    def _add(self, side: Side, rows: Sequence[Row]) -> None:
        keyed, unkeyed = [], []
        for row in rows:
            data = flatten(row.data)
            item_id = row.item.record.item_id
            key = self._key(side, row, data)
            if key is None:
                unkeyed.append(Unkeyed(side, item_id, row.number))
                continue
            counts = {name: value for name, value in data.items() if value is not None and self._question.takes(name)}
            keyed.append(Keyed(side, key, item_id, row.number, counts))
        self._table.add(keyed, unkeyed)

    def _key(self, side: Side, row: Row, data: Mapping[str, Scalar]) -> tuple[str, ...] | None:
        """None when a part of it is not there, or is nothing."""
        if not self._question.key:
            return row.item.record.item_id, str(row.number)
        there = {**flatten(row.item.first.input, _INPUT), **data}
        if len(self._known[side]) < _FIELDS_REMEMBERED:
            self._known[side] |= dict.fromkeys(there)
        parts = tuple(as_text(there.get(name)) for name in self._question.key)
        return parts if all(parts) else None

    async def _load_without_record(self, job_id: str) -> None:
        after: int | None = 0
        while after is not None:
            page = await self._store.find_items(job_id, ItemFilter(kind="not_found"), after, _PAGE_ITEMS)
            await asyncio.to_thread(self._table.add_without_record, [record.item_id for record in page.items])
            after = page.next_after

    async def _check_unchanged(self, before: JobStatus) -> None:
        now = await self._store.status(before.job.job_id)
        if (before.generation, before.current_version) != (now.generation, now.current_version) or now.deleting:
            raise Conflict(f"job {before.job.job_id!r} changed while it was compared; compare again")

    async def _compared(self, side: Side, status: JobStatus) -> Compared:
        keyed, unkeyed = await asyncio.to_thread(self._table.count, side)
        if unkeyed and not keyed:
            known = self._known[side]
            missing = next((name for name in self._question.key if name not in known), None)
            if missing is not None:
                told = f"--key: the fields are {', '.join(list(known)[:20])}"
                raise UnknownName.of(f"field in the records of job {status.job.job_id!r}, called", missing, known, told)
        jobs = [status] if status.current_version == 1 else [status, await self._store.status(current_job_id(status))]
        return Compared(
            job_id=status.job.job_id,
            status=status.state.value,
            version=status.current_version,
            records=keyed + unkeyed,
            # A skipped item was not looked at, and a record without a key may be the one that is missed.
            complete=not unkeyed and all(one.state is JobState.COMPLETED and not one.counts.skipped for one in jobs),
        )

    def summary(self) -> Summary:
        """Blocks; goes through all records."""
        counts, fields, same = dict.fromkeys(Change, 0), dict[str, FieldChanges](), 0
        for one in self._all():
            if one is None:
                same += 1
                continue
            counts[one.change] += 1
            for name, (before, after) in one.fields.items():
                changes = fields.setdefault(name, FieldChanges())
                if before is None:
                    changes.filled += 1
                elif after is None:
                    changes.lost += 1
                else:
                    changes.changed += 1
        return Summary(
            a=self._jobs[Side.A],
            b=self._jobs[Side.B],
            key=self._question.key or BY_ITEM,
            same=same,
            counts={change.value: number for change, number in counts.items()},
            fields=dict(sorted(fields.items())),
        )

    def differences(self) -> Iterator[Difference]:
        """By key, then the records that have none. Blocks; the same each time."""
        return (one for one in self._all() if one is not None)

    def _all(self) -> Iterator[Difference | None]:
        for meeting in self._table.meetings():
            yield self._difference(meeting)
        for one in self._table.unkeyed():
            of_a = one.side is Side.A
            items = (one.item_id, None) if of_a else (None, one.item_id)
            yield Difference(change=Change.NO_KEY, records=(1, 0) if of_a else (0, 1), items=items)

    def _difference(self, meeting: Meeting) -> Difference | None:
        changed: dict[str, tuple[Scalar, Scalar]] = {}
        match meeting.counts:
            case (1, 1):
                changed = _changed(*meeting.data)
                if not changed:
                    return None
                change = Change.CHANGED
            case (0, 1):
                change = Change.NEW
            case (1, 0):
                gone = self._jobs[Side.B].complete or meeting.has_no_record
                change = Change.VANISHED if gone else Change.UNKNOWN
            case _:
                change = Change.DUPLICATE_KEY
        return Difference(change=change, key=meeting.key, records=meeting.counts, items=meeting.items, fields=changed)


def _check(status: JobStatus) -> None:
    job_id = status.job.job_id
    if status.deleting:
        raise Conflict.being_deleted(job_id)
    if status.job.policy.keep is Keep.PAGES and status.current_version == 1:
        raise BadInput(f"job {job_id!r} keeps pages and no records; make some with `swath jobs reextract` first")


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Scalar, Scalar]]:
    names = sorted({**before, **after})
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if not _same(*pair)}


def _same(before: Scalar, after: Scalar) -> bool:
    """1 and 1.0 are the same number; 1 and true are not."""
    return before == after and isinstance(before, bool) == isinstance(after, bool)

"""Comparison of two jobs by a key (R7): which records are new, changed or vanished, and which nobody can tell.

Before: both jobs have records (rows.py), of their current versions. After: `swath jobs compare` shows the summary and
writes the differences (compare_text.py). Records go through a temporary file, so memory does not grow with them.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing

from swath.domain.attempt import Finding
from swath.domain.errors import BadInput, Conflict
from swath.domain.job import JobStatus
from swath.domain.policy import Keep
from swath.domain.transitions import JobState
from swath.domain.versions import current_job_id
from swath.pipeline.results.compare_asked import asked_by, asked_for, input_mark, parts_of
from swath.pipeline.results.compare_names import NamesSeen
from swath.pipeline.results.compare_report import (
    BY_ITEM,
    INPUT,
    Because,
    Change,
    Compared,
    Difference,
    FieldChanges,
    Question,
    Summary,
)
from swath.pipeline.results.compare_table import Asked, CompareTable, Keyed, Meeting, Side, Unkeyed
from swath.pipeline.results.flatten import Value, same_value, values_of
from swath.pipeline.results.rows import Row, rows_of
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["Comparison"]


class Comparison:
    """Of two jobs as they stand: `load` first."""

    def __init__(self, store: JobStore, storage: ResultStorage, table: CompareTable, question: Question) -> None:
        self._store = store
        self._storage = storage
        self._table = table
        self._question = question
        self._needs_mark = bool(question.key) and not question.key_of_input
        self._names = NamesSeen(question)
        self._jobs: list[Compared] = []

    async def load(self, jobs: tuple[JobStatus, JobStatus], told: Callable[[int], None]) -> None:
        """Reads the records of both. Raises BadInput, Conflict and UnknownName for what cannot be compared."""
        for status in jobs:
            _check(status)
        for side, status in zip(Side, jobs, strict=True):
            await self._load(side, status, told)
        await asyncio.to_thread(self._table.close_intake)
        for side, status in zip(Side, jobs, strict=True):
            await self._check_unchanged(status)
            self._jobs.append(await self._compared(side, status))
        self._names.check_fields()

    async def _load(self, side: Side, status: JobStatus, told: Callable[[int], None]) -> None:
        everything = side is Side.B  # its items tell what it was asked for, those without a record what is gone
        async with aclosing(rows_of(self._store, self._storage, status, everything=everything)) as batches:
            async for batch in batches:
                await asyncio.to_thread(self._add, side, batch.rows)
                told(batch.items)

    def _add(self, side: Side, rows: Sequence[Row]) -> None:
        keyed, unkeyed, asked = [], [], list[Asked]()
        for row in rows:
            item_id = row.item.record.item_id
            if side is Side.B and row.number == 1:
                asked += self._asked(row)
            if not row.has_data:
                continue
            data = values_of(row.data)
            key = self._key(side, row, data)
            if key is None:
                unkeyed.append(Unkeyed(side, item_id, row.number))
                continue
            counts = {name: value for name, value in data.items() if value is not None and self._question.takes(name)}
            mark = input_mark(row.item.first) if side is Side.A and self._needs_mark else None
            keyed.append(Keyed(side, key, item_id, row.number, counts, mark))
        self._table.add(keyed, unkeyed, asked)

    def _key(self, side: Side, row: Row, data: Mapping[str, Value]) -> tuple[str, ...] | None:
        given = values_of(row.item.first.input, INPUT) if self._question.key else {}
        self._names.see(side, data, given)
        named = {**data, **given}
        return parts_of(self._question.key, named) if self._question.key else (row.item.record.item_id, str(row.number))

    def _asked(self, row: Row) -> list[Asked]:
        """When the key is in the records any item may have any, so that one has none says nothing."""
        none = not row.has_data and row.item.record.finding is Finding.NOT_FOUND and self._question.key_is_input
        return [Asked(what, none) for what in asked_by(self._question, row.item.first)]

    async def _check_unchanged(self, before: JobStatus) -> None:
        now = await self._store.status(before.job.job_id)
        if (before.generation, before.current_version) != (now.generation, now.current_version) or now.deleting:
            raise Conflict(f"job {before.job.job_id!r} changed while it was compared; compare again")

    async def _compared(self, side: Side, status: JobStatus) -> Compared:
        keyed, unkeyed = await asyncio.to_thread(self._table.count, side)
        if unkeyed and not keyed:
            self._names.check_key(side, status.job.job_id)
        because = await self._incomplete_because(status, unkeyed)
        return Compared(
            job_id=status.job.job_id,
            status=status.state.value,
            version=status.current_version,
            records=keyed + unkeyed,
            complete=because is None,
            incomplete_because=because,
        )

    async def _incomplete_because(self, status: JobStatus, unkeyed: int) -> str | None:
        """A skipped item was not looked at, and a record without a key may be the one that is missed."""
        jobs = {"it": status}
        if status.current_version > 1:
            jobs[f"its version {status.current_version}"] = await self._store.status(current_job_id(status))
        reasons = [f"{name} is {one.state}" for name, one in jobs.items() if one.state is not JobState.COMPLETED]
        skipped = sum(one.counts.skipped for one in jobs.values())
        reasons += [f"items skipped: {skipped:,}"] if skipped else []
        reasons += [f"records without the key: {unkeyed:,}"] if unkeyed else []
        return ", ".join(reasons) or None

    def summary(self) -> Summary:
        """Blocks; goes through all records."""
        counts, reasons = dict.fromkeys(Change, 0), dict.fromkeys(Because, 0)
        fields, same = dict[str, FieldChanges](), 0
        for one in self._all():
            if one is None:
                same += 1
                continue
            counts[one.change] += 1
            if one.because is not None:
                reasons[one.because] += 1
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
            unknown_because={reason.value: number for reason, number in reasons.items()},
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
        changed: dict[str, tuple[Value, Value]] = {}
        because: Because | None = None
        match meeting.counts:
            case (1, 1):
                changed = _changed(*meeting.data)
                if not changed:
                    return None
                change = Change.CHANGED
            case (0, 1):
                change = Change.NEW
            case (1, 0):
                because = self._unknown_because(meeting)
                change = Change.VANISHED if because is None else Change.UNKNOWN
            case _:
                change = Change.DUPLICATE_KEY
        return Difference(
            change=change,
            key=meeting.key,
            records=meeting.counts,
            items=meeting.items,
            fields=changed,
            because=because,
        )

    def _unknown_because(self, meeting: Meeting) -> Because | None:
        """None when it is known that the record is gone: somebody asked for it."""
        asked = [
            none for what in asked_for(self._question, meeting) if (none := self._table.has_none(what)) is not None
        ]
        if not asked:
            return Because.NOT_ASKED
        return None if self._jobs[Side.B].complete or all(asked) else Because.INCOMPLETE


def _check(status: JobStatus) -> None:
    job_id = status.job.job_id
    if status.deleting:
        raise Conflict.being_deleted(job_id)
    first = status.job.extracts
    if first is not None:
        see = shlex.join(["swath", "jobs", "versions", first])
        told = f"job {job_id!r} is a version of {first!r}; compare {first!r}, of which the current version counts"
        raise BadInput(f"{told}, or see `{see}` for what versions say otherwise")
    if status.job.policy.keep is Keep.PAGES and status.current_version == 1:
        raise BadInput(f"job {job_id!r} keeps pages and no records; make some with `swath jobs reextract` first")


def _changed(before: Mapping[str, Value], after: Mapping[str, Value]) -> dict[str, tuple[Value, Value]]:
    names = sorted({**before, **after})
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if not same_value(*pair)}

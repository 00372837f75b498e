"""Compares the records of two jobs by a key: new, changed, vanished, or unknown.

A record counts as vanished only if the second job asked the site for it. Records go through a temporary file, so
memory
does not grow with them. A field that no record has is reported as an error.
"""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import msgspec

from swath.domain.errors import BadInput, Conflict, UnknownName
from swath.domain.execution_policy import Keep
from swath.domain.item import ItemRecord, SuccessOutcome
from swath.domain.job import JobStatus
from swath.domain.result_versions import current_job_id
from swath.domain.transitions import JobState
from swath.pipeline.results.compare.report import (
    BY_ITEM,
    INPUT_PREFIX,
    Change,
    ComparedJob,
    CompareRequest,
    CompareSummary,
    Difference,
    FieldChanges,
    UnknownReason,
    is_below,
)
from swath.pipeline.results.compare.table import AskedItem, CompareTable, JobSide, KeyedRecord, KeyMatch, UnkeyedRecord
from swath.pipeline.results.flatten import Value, cell_text, same_value, values_of
from swath.pipeline.results.records import RecordRow, read_rows
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["FieldNames", "JobComparison", "input_mark", "key_parts", "marks_of_item", "marks_of_record"]

_MAX_NAMES: Final = 2_000  # of each job, to say which fields there are
_MAX_NAMES_SHOWN: Final = 20


class FieldNames:
    """Of the records that it was shown."""

    def __init__(self, question: CompareRequest) -> None:
        self._question = question
        self._known: tuple[dict[str, None], dict[str, None]] = ({}, {})
        self._not_met = dict.fromkeys((*question.fields, *question.ignore))

    def see(self, side: JobSide, fields: Iterable[str], given: Iterable[str]) -> None:
        """Those of a record, and what its item was given."""
        if self._not_met:
            met = [asked for asked in self._not_met if any(is_below(name, (asked,)) for name in fields)]
            for asked in met:
                del self._not_met[asked]
        if len(self._known[side]) < _MAX_NAMES:
            self._known[side].update(dict.fromkeys((*fields, *given)))

    def check_key(self, side: JobSide, job_id: str) -> None:
        """For a job none of whose records has the key. Raises UnknownName when they lack a part of it as a field."""
        known = self._known[side]
        missing = next((name for name in self._question.key if name not in known), None)
        if missing is not None:
            raise _unknown_name(f"field in the records of job {job_id!r}, called", missing, known)

    def check_fields(self) -> None:
        """Raises UnknownName when one that is to count, or not to count, is in no record of either job."""
        known = [
            name for name in {**self._known[JobSide.A], **self._known[JobSide.B]} if not is_below(name, (INPUT_PREFIX,))
        ]
        missing = next(iter(self._not_met), None)
        if known and missing is not None:
            raise _unknown_name("field in the records of either job, called", missing, known)


def _unknown_name(what: str, name: str, known: Iterable[str]) -> UnknownName:
    return UnknownName.of(what, name, known, f"the fields are {', '.join(list(known)[:_MAX_NAMES_SHOWN])}")


_BY_ID, _BY_INPUT = "item", "input"


def key_parts(names: Sequence[str], there: Mapping[str, Value]) -> tuple[str, ...] | None:
    """The texts of a key. None when a part of it is not there, or is nothing."""
    parts = tuple(_key_part(there.get(name)) for name in names)
    return parts if all(parts) else None


def marks_of_item(question: CompareRequest, item: ItemRecord) -> list[tuple[str, ...]]:
    """All that this item of job B may be known by to those who ask with `asked_for`."""
    if not question.key:
        return [(item.item_id,)]
    if question.key_of_input:
        parts = key_parts(question.key_of_input, values_of(item.input, INPUT_PREFIX))
        return [] if parts is None else [parts]
    return _item_mark(item.item_id, input_mark(item))


def marks_of_record(question: CompareRequest, meeting: KeyMatch) -> list[tuple[str, ...]]:
    """What an item of job B would be known by that was asked for this record of job A: one of these is enough."""
    if not question.key:
        return [meeting.key[:1]]
    if question.key_of_input:
        named = zip(question.key, meeting.key, strict=True)
        return [tuple(part for name, part in named if name in question.key_of_input)]
    return _item_mark(meeting.items[0] or "", meeting.mark)


def input_mark(item: ItemRecord) -> str | None:
    """The same for items with the same input, whatever their ids; None where nothing was given."""
    named = values_of(item.input).items()
    given = sorted((name, part) for name, value in named if (part := _key_part(value)))
    return hashlib.blake2b(msgspec.json.encode(given), digest_size=16).hexdigest() if given else None


def _item_mark(item_id: str, mark: str | None) -> list[tuple[str, ...]]:
    by_id = (_BY_ID, item_id)
    return [by_id] if mark is None else [by_id, (_BY_INPUT, mark)]


def _key_part(value: Value) -> str:
    """1 and 1.0 are the same number in a key, too."""
    return cell_text(int(value) if isinstance(value, float) and value.is_integer() else value)


class JobComparison:
    """Of two jobs as they stand: `load` first."""

    def __init__(self, store: JobStore, storage: ResultStorage, table: CompareTable, question: CompareRequest) -> None:
        self._store = store
        self._storage = storage
        self._table = table
        self._question = question
        self._needs_mark = bool(question.key) and not question.key_of_input
        self._names = FieldNames(question)
        self._jobs: list[ComparedJob] = []

    async def load(self, jobs: tuple[JobStatus, JobStatus], told: Callable[[int], None]) -> None:
        """Reads the records of both. Raises BadInput, Conflict and UnknownName for what cannot be compared."""
        for status in jobs:
            _check(status)
        for side, status in zip(JobSide, jobs, strict=True):
            await self._load(side, status, told)
        await asyncio.to_thread(self._table.close_intake)
        for side, status in zip(JobSide, jobs, strict=True):
            await self._check_unchanged(status)
            self._jobs.append(await self._compared(side, status))
        self._names.check_fields()

    async def _load(self, side: JobSide, status: JobStatus, told: Callable[[int], None]) -> None:
        everything = side is JobSide.B  # its items tell what it was asked for, those without a record what is gone
        async with aclosing(read_rows(self._store, self._storage, status, everything=everything)) as batches:
            async for batch in batches:
                await asyncio.to_thread(self._add, side, batch.rows)
                told(batch.items)

    def _add(self, side: JobSide, rows: Sequence[RecordRow]) -> None:
        keyed, unkeyed, asked = [], [], list[AskedItem]()
        for row in rows:
            item_id = row.item.record.item_id
            if side is JobSide.B and row.number == 1:
                asked += self._asked(row)
            if not row.has_data:
                continue
            data = values_of(row.data)
            key = self._key(side, row, data)
            if key is None:
                unkeyed.append(UnkeyedRecord(side, item_id, row.number))
                continue
            counts = {name: value for name, value in data.items() if value is not None and self._question.takes(name)}
            mark = input_mark(row.item.first) if side is JobSide.A and self._needs_mark else None
            keyed.append(KeyedRecord(side, key, item_id, row.number, counts, mark))
        self._table.add(keyed, unkeyed, asked)

    def _key(self, side: JobSide, row: RecordRow, data: Mapping[str, Value]) -> tuple[str, ...] | None:
        given = values_of(row.item.first.input, INPUT_PREFIX) if self._question.key else {}
        self._names.see(side, data, given)
        named = {**data, **given}
        return (
            key_parts(self._question.key, named) if self._question.key else (row.item.record.item_id, str(row.number))
        )

    def _asked(self, row: RecordRow) -> list[AskedItem]:
        """When the key is in the records any item may have any, so that one has none says nothing."""
        none = not row.has_data and row.item.record.finding is SuccessOutcome.NOT_FOUND and self._question.key_is_input
        return [AskedItem(what, none) for what in marks_of_item(self._question, row.item.first)]

    async def _check_unchanged(self, before: JobStatus) -> None:
        now = await self._store.status(before.job.job_id)
        if (before.generation, before.current_version) != (now.generation, now.current_version) or now.deleting:
            raise Conflict(f"job {before.job.job_id!r} changed while it was compared; compare again")

    async def _compared(self, side: JobSide, status: JobStatus) -> ComparedJob:
        keyed, unkeyed = await asyncio.to_thread(self._table.count, side)
        if unkeyed and not keyed:
            self._names.check_key(side, status.job.job_id)
        because = await self._incomplete_because(status, unkeyed)
        return ComparedJob(
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

    def summary(self) -> CompareSummary:
        """Blocks; goes through all records."""
        counts, reasons = dict.fromkeys(Change, 0), dict.fromkeys(UnknownReason, 0)
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
        return CompareSummary(
            a=self._jobs[JobSide.A],
            b=self._jobs[JobSide.B],
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
            of_a = one.side is JobSide.A
            items = (one.item_id, None) if of_a else (None, one.item_id)
            yield Difference(change=Change.NO_KEY, records=(1, 0) if of_a else (0, 1), items=items)

    def _difference(self, meeting: KeyMatch) -> Difference | None:
        changed: dict[str, tuple[Value, Value]] = {}
        because: UnknownReason | None = None
        match meeting.counts:
            case (1, 1):
                changed = _changed_fields(*meeting.data)
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

    def _unknown_because(self, meeting: KeyMatch) -> UnknownReason | None:
        """None when it is known that the record is gone: somebody asked for it."""
        asked = [
            none
            for what in marks_of_record(self._question, meeting)
            if (none := self._table.has_none(what)) is not None
        ]
        if not asked:
            return UnknownReason.NOT_ASKED
        return None if self._jobs[JobSide.B].complete or all(asked) else UnknownReason.INCOMPLETE


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


def _changed_fields(before: Mapping[str, Value], after: Mapping[str, Value]) -> dict[str, tuple[Value, Value]]:
    names = sorted({**before, **after})
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if not same_value(*pair)}

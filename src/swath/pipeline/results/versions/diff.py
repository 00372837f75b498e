"""Compares a new version of a job's results with the one that readers have, field by field.

Items are read in order of `seq`; memory does not grow with the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgspec

from swath.domain.errors import StoreDamaged
from swath.domain.item import ItemRecord, SuccessOutcome
from swath.domain.job import Job, JobStatus
from swath.domain.result import Artifact
from swath.domain.result_versions import DIFF_KEY, version_of
from swath.domain.storage_keys import artifact_file_name
from swath.domain.transitions import ItemState
from swath.pipeline.formats.artifacts import DATA_FILE
from swath.pipeline.formats.stored_files import (
    RawFiles,
    decode_item_data,
    group_by_bytes,
    missing_file_error,
    read_raw_files,
)
from swath.pipeline.results.flatten import Value, cell_text, same_value, values_of
from swath.pipeline.results.records import current_items_at
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["Diff", "DiffExample", "FieldDiff", "VersionComparison", "read_diff"]

MOST_EXAMPLES: Final = 3
MOST_FIELDS: Final = 1_000  # records whose names are data would else make a field of each
OTHER_FIELDS: Final = "(others)"
VALUE_CHARACTERS: Final = 200

_DATA_KEY: Final = f"/{DATA_FILE}"
_TEXT: Final = frozenset({str})


class DiffExample(msgspec.Struct, frozen=True):
    """A value, or an end, in both versions; long ones are cut, and a long list is the beginning of its text."""

    item_id: str
    before: Value
    after: Value


class FieldDiff(msgspec.Struct):
    """The values of one field. `filled`: there was none before; `lost`: there is none now."""

    same: int = 0
    filled: int = 0
    changed: int = 0
    lost: int = 0
    examples: dict[str, list[DiffExample]] = {}


class Diff(msgspec.Struct, kw_only=True):
    """`items` were looked at. `gone` had a record before and have none now, by the kind of failure or `not_found`;
    `still_none` had none before either, `gained` have one only now, and of `unreadable` a stored file is damaged."""

    job_id: str
    version: int
    former_version: int
    items: int = 0
    same_items: int = 0
    gained: int = 0
    still_none: int = 0
    unreadable: int = 0
    gone: dict[str, int] = {}
    gone_examples: dict[str, list[DiffExample]] = {}
    fields: dict[str, FieldDiff] = {}

    @property
    def loses_records(self) -> bool:
        """Whether readers would miss a record that they have now."""
        return bool(self.gone)


class _Pair(NamedTuple):
    """An item of the new version, and its data as readers have had it and here."""

    record: ItemRecord
    before: Artifact | None
    after: Artifact | None


class _SameShape(msgspec.Struct):
    """Records that have text under the same names and nothing else, as most of a job have. `same` is how many more of
    them were the same before than their fields say so far."""

    fields: list[FieldDiff]
    same: int = 0


_KnownShapes = dict[tuple[str, ...] | None, _SameShape]
"""By their names."""


class _RawBytes(NamedTuple):
    """What was read of a job's stored files."""

    job_id: str
    raw: RawFiles


class VersionComparison:
    """Compares what a version's job has `made` with what readers of the job `status` get, as its items pass by. Those
    that have ended anew since are left out: readers get them from version 1."""

    def __init__(self, store: JobStore, storage: ResultStorage, status: JobStatus, made: Job) -> None:
        self.diff = Diff(job_id=status.job.job_id, version=version_of(made) or 1, former_version=status.current_version)
        self._store = store
        self._storage = storage
        self._status = status
        self._made = made

    async def add(self, records: Sequence[ItemRecord]) -> None:
        """Looks at these items of the version's job, which have ended."""
        former = await current_items_at(self._store, self._status, self._made, [record.seq for record in records])
        by_job: dict[str, list[_Pair]] = {}
        for record in records:
            if record.seq in former:
                job_id, before = former[record.seq]
                by_job.setdefault(job_id, []).append(_Pair(record, _data_of(before), _data_of(record)))
        for job_id, pairs in by_job.items():
            for group in group_by_bytes([(pair, _size(pair)) for pair in pairs]):
                await self._add_group(job_id, group)

    async def _add_group(self, former_job_id: str, group: Sequence[_Pair]) -> None:
        """Pairs whose items readers have had from one job."""
        before = [pair.before for pair in group if pair.before is not None]
        after = [pair.after for pair in group if pair.after is not None]
        then = _RawBytes(former_job_id, await read_raw_files(self._storage, former_job_id, before))
        now = _RawBytes(self._made.job_id, await read_raw_files(self._storage, self._made.job_id, after))
        await asyncio.to_thread(_add_all, self.diff, group, then, now)


def _data_of(record: ItemRecord) -> Artifact | None:
    for one in reversed(record.artifacts):  # where it is one of the last
        if one.key.endswith(_DATA_KEY) and artifact_file_name(record.item_id, one.key) == DATA_FILE:
            return one
    return None


def _size(pair: _Pair) -> int:
    _, before, after = pair
    return (0 if before is None else before.size) + (0 if after is None else after.size)


async def read_diff(storage: ResultStorage, version_job_id: str) -> Diff | None:
    """As it was stored; None if there is none."""
    try:
        return msgspec.json.decode(await storage.get(version_job_id, DIFF_KEY), type=Diff)
    except KeyError:
        return None


def _add_all(diff: Diff, group: Sequence[_Pair], then: _RawBytes, now: _RawBytes) -> None:
    known: _KnownShapes = {}
    _compare_all(diff, known, group, then, now)
    _count(known)


def _count(known: _KnownShapes) -> None:
    """Lets their fields know of them."""
    for alike in known.values():
        for field in alike.fields:
            field.same += alike.same


def _compare_all(diff: Diff, known: _KnownShapes, group: Sequence[_Pair], then: _RawBytes, now: _RawBytes) -> None:
    for record, old, new in group:
        try:
            before, value = _data(old, then), _data(new, now)
        except StoreDamaged:
            diff.unreadable += 1
            continue
        diff.items += 1
        if before == value and value is not None:  # as most are
            _add_same(diff, known, msgspec.json.decode(value))
            continue
        rows, former = _rows(value), _rows(before)
        if rows:
            diff.gained += not former
            diff.same_items += _add_values(diff, record.item_id, former, rows)
        elif former:  # there is no record now, or a list with nothing in it
            _add_gone(diff, record)
        else:
            diff.still_none += 1


def _data(artifact: Artifact | None, read: _RawBytes) -> bytes | None:
    if artifact is None:
        return None
    raw = read.raw.get(artifact.key)
    if raw is None:
        raise missing_file_error(read.job_id, artifact.key)
    return decode_item_data(read.job_id, artifact, raw)


def _rows(data: bytes | None) -> list[dict[str, Value]]:
    if data is None:
        return []
    decoded = msgspec.json.decode(data)
    return [values_of(one) for one in decoded] if isinstance(decoded, list) else [values_of(decoded)]


def _add_same(diff: Diff, known: _KnownShapes, data: Any) -> None:
    """What `_add_values` does with a record, or a list of them, that was the same before."""
    if data == []:
        diff.still_none += 1
        return
    diff.same_items += 1
    for record in data if isinstance(data, list) else (data,):
        is_text = type(record) is dict and _TEXT.issuperset(map(type, record.values())) and all(record.values())
        names = tuple(record) if is_text else None
        if names in known:
            known[names].same += 1
            continue
        filled = [_field(diff, name) for name, value in values_of(record).items() if not _is_nothing(value)]
        if names is not None:
            known[names] = _SameShape(filled)
        for field in filled:
            field.same += 1


def _add_values(
    diff: Diff, item_id: str, before: Sequence[Mapping[str, Value]], after: Sequence[Mapping[str, Value]]
) -> bool:
    """Records of a list are compared by their place in it. Whether all is the same."""
    same, none = True, dict[str, Value]()
    for old, new in zip_longest(before, after, fillvalue=none):
        for name in (*new, *(name for name in old if name not in new)):
            was, becomes = old.get(name), new.get(name)
            what = _kind_of_change(was, becomes)
            if what is None:
                continue
            field = diff.fields.get(name) or _field(diff, name)
            if what == "same":
                field.same += 1
                continue
            same = False
            setattr(field, what, getattr(field, what) + 1)
            _keep(field.examples, what, DiffExample(item_id, _shortened(was), _shortened(becomes)))
    return same


def _kind_of_change(was: Value, becomes: Value) -> str | None:
    if _is_nothing(was):
        return None if _is_nothing(becomes) else "filled"
    if _is_nothing(becomes):
        return "lost"
    return "same" if same_value(was, becomes) else "changed"


def _is_nothing(value: Value) -> bool:
    """Null, and what is empty; but 0 and false say something."""
    return not value and (value is None or isinstance(value, (str, list, dict)))


def _field(diff: Diff, name: str) -> FieldDiff:
    if name not in diff.fields and len(diff.fields) >= MOST_FIELDS:
        name = OTHER_FIELDS
    return diff.fields.setdefault(name, FieldDiff())


def _add_gone(diff: Diff, record: ItemRecord) -> None:
    if record.failure is not None:
        why, message = record.failure.kind.value, record.failure.message
    elif record.finding is SuccessOutcome.NOT_FOUND:
        why, message = SuccessOutcome.NOT_FOUND.value, None
    else:
        why, message = record.state.value, record.reason
    if record.state is ItemState.SUCCESS and record.finding is SuccessOutcome.FOUND:
        why = "no_data"
    diff.gone[why] = diff.gone.get(why, 0) + 1
    _keep(diff.gone_examples, why, DiffExample(record.item_id, None, _shortened(message)))


def _keep(examples: dict[str, list[DiffExample]], what: str, example: DiffExample) -> None:
    kept = examples.setdefault(what, [])
    if len(kept) < MOST_EXAMPLES:
        kept.append(example)


def _shortened(value: Value) -> Value:
    if not isinstance(value, (str, list, dict)):
        return value
    text = cell_text(value)
    return value if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"

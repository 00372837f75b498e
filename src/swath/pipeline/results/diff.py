"""Diff: what a new version of a job's results says otherwise than the one that readers got so far, field by field (R6).

Before: a version was made of the stored pages (versions.py). After: the diff lies beside it as a document, and says
whether readers may be given the new version. Read in order of `seq`; memory does not grow with the job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

import msgspec

from swath.domain.attempt import Finding
from swath.domain.errors import StoreDamaged
from swath.domain.item import ItemRecord
from swath.domain.job import Job, JobStatus
from swath.domain.layout import file_of
from swath.domain.result import Artifact
from swath.domain.transitions import ItemState
from swath.domain.versions import DIFF_KEY, version_of
from swath.pipeline.finish.artifacts import DATA_FILE
from swath.pipeline.results.bulk_read import Raw, in_groups, opened, raw_of_many
from swath.pipeline.results.current import former_at
from swath.pipeline.results.flatten import Value, as_text, same_value, values_of
from swath.ports.job_store import JobStore
from swath.ports.result_storage import ResultStorage

__all__ = ["Diff", "Example", "FieldDiff", "compare_versions", "read_diff"]

BATCH_ITEMS: Final = 1_000
MOST_EXAMPLES: Final = 3
MOST_FIELDS: Final = 1_000  # records whose names are data would else make a field of each
OTHER_FIELDS: Final = "(others)"
VALUE_CHARACTERS: Final = 200

_DATA_KEY: Final = f"/{DATA_FILE}"


class Example(msgspec.Struct, frozen=True):
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
    examples: dict[str, list[Example]] = {}


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
    gone_examples: dict[str, list[Example]] = {}
    fields: dict[str, FieldDiff] = {}

    @property
    def loses_records(self) -> bool:
        """Whether readers would miss a record that they have now."""
        return bool(self.gone)


class _Pair(NamedTuple):
    """An item of the new version, the job that readers have had it from, and its data there and here."""

    record: ItemRecord
    former_job_id: str
    before: Artifact | None
    after: Artifact | None


async def compare_versions(store: JobStore, storage: ResultStorage, status: JobStatus, made: Job) -> Diff:
    """Compares what a version's job has made with what readers of the job `status` get. Items that have ended anew
    since are left out: readers get those from version 1."""
    diff = Diff(job_id=status.job.job_id, version=version_of(made) or 1, former_version=status.current_version)
    after_seq = 0
    while records := await store.items(made.job_id, after_seq, BATCH_ITEMS):
        former = await former_at(store, status, made, [record.seq for record in records])
        pairs = [
            _Pair(record, former[record.seq][0], _data_of(former[record.seq][1]), _data_of(record))
            for record in records
            if record.seq in former
        ]
        for job_id in {pair.former_job_id: None for pair in pairs}:
            here = [(pair, _size(pair)) for pair in pairs if pair.former_job_id == job_id]
            for group in in_groups(here):
                await _add_group(diff, storage, made.job_id, group)
        after_seq = records[-1].seq
    return diff


def _data_of(record: ItemRecord) -> Artifact | None:
    for one in record.artifacts:
        if one.key.endswith(_DATA_KEY) and file_of(record.item_id, one.key) == DATA_FILE:
            return one
    return None


def _size(pair: _Pair) -> int:
    _, _, before, after = pair
    return (0 if before is None else before.size) + (0 if after is None else after.size)


async def _add_group(diff: Diff, storage: ResultStorage, made_id: str, group: Sequence[_Pair]) -> None:
    """Pairs whose items readers have had from one job."""
    before = [pair.before for pair in group if pair.before is not None]
    after = [pair.after for pair in group if pair.after is not None]
    then = await raw_of_many(storage, group[0].former_job_id, before)
    now = await raw_of_many(storage, made_id, after)
    await asyncio.to_thread(_add_all, diff, made_id, group, then, now)


async def read_diff(storage: ResultStorage, version_job_id: str) -> Diff | None:
    """As it was stored; None if there is none."""
    try:
        return msgspec.json.decode(await storage.get(version_job_id, DIFF_KEY), type=Diff)
    except KeyError:
        return None


def _add_all(diff: Diff, made_id: str, group: Sequence[_Pair], then: Raw, now: Raw) -> None:
    for record, former_id, old, new in group:
        try:
            before, value = _data(former_id, record, old, then), _data(made_id, record, new, now)
        except StoreDamaged:
            diff.unreadable += 1
            continue
        diff.items += 1
        rows = _rows(value)
        former = rows if before == value else _rows(before)
        if not rows:  # none, or a list with nothing in it
            if former:
                _add_gone(diff, record)
            else:
                diff.still_none += 1
        elif former is rows:
            _add_same(diff, rows)
            diff.same_items += 1
        else:
            diff.gained += not former
            diff.same_items += _add_values(diff, record.item_id, former, rows)


def _data(job_id: str, record: ItemRecord, artifact: Artifact | None, raw: Raw) -> bytes | None:
    return None if artifact is None else opened(job_id, (record.item_id, (artifact,)), raw).get(DATA_FILE)


def _rows(data: bytes | None) -> list[dict[str, Value]]:
    if data is None:
        return []
    decoded = msgspec.json.decode(data)
    return [values_of(one) for one in decoded] if isinstance(decoded, list) else [values_of(decoded)]


def _add_same(diff: Diff, rows: Sequence[Mapping[str, Value]]) -> None:
    """What `_add_values` does with rows that were the same before, which most are."""
    fields = diff.fields
    for row in rows:
        for name, value in row.items():
            if value or not _is_nothing(value):
                (fields.get(name) or _field(diff, name)).same += 1


def _add_values(
    diff: Diff, item_id: str, before: Sequence[Mapping[str, Value]], after: Sequence[Mapping[str, Value]]
) -> bool:
    """Records of a list are compared by their place in it. Whether all is the same."""
    same, none = True, dict[str, Value]()
    for old, new in zip_longest(before, after, fillvalue=none):
        for name in (*new, *(name for name in old if name not in new)):
            was, becomes = old.get(name), new.get(name)
            what = _change(was, becomes)
            if what is None:
                continue
            field = diff.fields.get(name) or _field(diff, name)
            if what == "same":
                field.same += 1
                continue
            same = False
            setattr(field, what, getattr(field, what) + 1)
            _keep(field.examples, what, Example(item_id, _short(was), _short(becomes)))
    return same


def _change(was: Value, becomes: Value) -> str | None:
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
    elif record.finding is Finding.NOT_FOUND:
        why, message = Finding.NOT_FOUND.value, None
    else:
        why, message = record.state.value, record.reason
    if record.state is ItemState.SUCCESS and record.finding is Finding.FOUND:
        why = "no_data"
    diff.gone[why] = diff.gone.get(why, 0) + 1
    _keep(diff.gone_examples, why, Example(record.item_id, None, _short(message)))


def _keep(examples: dict[str, list[Example]], what: str, example: Example) -> None:
    kept = examples.setdefault(what, [])
    if len(kept) < MOST_EXAMPLES:
        kept.append(example)


def _short(value: Value) -> Value:
    if not isinstance(value, (str, list, dict)):
        return value
    text = as_text(value)
    return value if len(text) <= VALUE_CHARACTERS else text[: VALUE_CHARACTERS - 1] + "…"

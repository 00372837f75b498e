"""What items ask a site for, so that a record that has vanished is told from one that a job was never asked for.

Before: compare.py has the items of both jobs. After: it looks up what job B was asked for (compare_table.py), by the
parts of the key that are input, by the item where there is no key, and else by the item that the record came from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from swath.domain.item import ItemRecord
from swath.pipeline.results.compare_report import INPUT, Question
from swath.pipeline.results.compare_table import Meeting
from swath.pipeline.results.flatten import Value, as_text, values_of

__all__ = ["asked_by", "asked_for", "input_mark", "parts_of"]

_BY_ID, _BY_INPUT = "item", "input"


def parts_of(names: Sequence[str], there: Mapping[str, Value]) -> tuple[str, ...] | None:
    """The texts of a key. None when a part of it is not there, or is nothing."""
    parts = tuple(_part(there.get(name)) for name in names)
    return parts if all(parts) else None


def asked_by(question: Question, item: ItemRecord) -> list[tuple[str, ...]]:
    """All that this item of job B may be known by to those who ask with `asked_for`."""
    if not question.key:
        return [(item.item_id,)]
    if question.key_of_input:
        parts = parts_of(question.key_of_input, values_of(item.input, INPUT))
        return [] if parts is None else [parts]
    return _item(item.item_id, input_mark(item))


def asked_for(question: Question, meeting: Meeting) -> list[tuple[str, ...]]:
    """What an item of job B would be known by that was asked for this record of job A: one of these is enough."""
    if not question.key:
        return [meeting.key[:1]]
    if question.key_of_input:
        named = zip(question.key, meeting.key, strict=True)
        return [tuple(part for name, part in named if name in question.key_of_input)]
    return _item(meeting.items[0] or "", meeting.mark)


def input_mark(item: ItemRecord) -> str | None:
    """The same for items with the same input, whatever their ids; None where nothing was given."""
    named = values_of(item.input).items()
    given = sorted((name, part) for name, value in named if (part := _part(value)))
    return hashlib.blake2b(msgspec.json.encode(given), digest_size=16).hexdigest() if given else None


def _item(item_id: str, mark: str | None) -> list[tuple[str, ...]]:
    by_id = (_BY_ID, item_id)
    return [by_id] if mark is None else [by_id, (_BY_INPUT, mark)]


def _part(value: Value) -> str:
    """1 and 1.0 are the same number in a key, too."""
    return as_text(int(value) if isinstance(value, float) and value.is_integer() else value)

"""The request and the result of a comparison of two jobs, and its differences as JSON or CSV, in pieces."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Final

import msgspec

from swath.pipeline.results.export.formats import safe_cell
from swath.pipeline.results.flatten import Value, cell_text, to_json_text

__all__ = [
    "BY_ITEM",
    "INPUT_PREFIX",
    "Change",
    "CompareRequest",
    "CompareSummary",
    "ComparedJob",
    "Difference",
    "FieldChanges",
    "UnknownReason",
    "csv_pieces",
    "difference_json",
    "format_change",
    "is_below",
    "json_pieces",
    "parse_difference",
]

INPUT_PREFIX: Final = "input"  # what the names of an item's input lie below
BY_ITEM: Final = ("item_id", "record")  # the key when none is given: the item, and which of its records


class Change(StrEnum):
    """What became of a record."""

    NEW = "new"
    CHANGED = "changed"
    VANISHED = "vanished"
    UNKNOWN = "unknown"  # not in job B, which does not prove that it has vanished
    DUPLICATE_KEY = "duplicate_key"  # several records of one job share the key, so none of them is compared
    NO_KEY = "no_key"  # the record lacks a part of the key


class UnknownReason(StrEnum):
    """Why nobody knows what became of a record."""

    NOT_ASKED = "not_asked"  # job B has no item that asks for it
    INCOMPLETE = "incomplete"  # job B may have missed it


class CompareRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared: by which fields records are the same, and which others count. A name stands for what lies
    below it, too; no `fields` are all fields."""

    key: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @property
    def key_of_input(self) -> tuple[str, ...]:
        """The parts of the key that are known of an item before anybody has asked the site for it."""
        return tuple(name for name in self.key if name.startswith(f"{INPUT_PREFIX}."))

    @property
    def key_is_input(self) -> bool:
        """Whether all of the key is, so that no other item can have the record."""
        return self.key_of_input == self.key

    def takes(self, field: str) -> bool:
        """Whether a difference in this field counts. Those of the key are the same, however they are written."""
        return (
            field not in self.key
            and (not self.fields or is_below(field, self.fields))
            and not is_below(field, self.ignore)
        )


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One key, or a record without. `fields`: before and after, in order of their names; null and missing are the same.
    `records` of A and of B have the key; `items` are those of the first of each. `because` is there for what is
    unknown."""

    change: Change
    key: tuple[str, ...] = ()
    records: tuple[int, int] = (0, 0)
    items: tuple[str | None, str | None] = (None, None)
    fields: dict[str, tuple[Value, Value]] = {}
    because: UnknownReason | None = None


class ComparedJob(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two jobs. `complete`: whatever it does not have was not there; otherwise `incomplete_because` says
    why that cannot be known."""

    job_id: str
    status: str
    version: int
    records: int
    complete: bool
    incomplete_because: str | None


class FieldChanges(msgspec.Struct, kw_only=True):
    """In how many records a field is other: `filled` where there was nothing, `lost` where there is nothing now."""

    changed: int = 0
    filled: int = 0
    lost: int = 0


class CompareSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How many keys of each kind. `no_key` counts records. `unknown_because`: the unknown ones by the reason."""

    a: ComparedJob
    b: ComparedJob
    key: tuple[str, ...]
    same: int
    counts: dict[str, int]
    unknown_because: dict[str, int]
    fields: dict[str, FieldChanges]


def is_below(field: str, names: Sequence[str]) -> bool:
    """Whether it is one of these, or lies below one."""
    return any(field == name or field.startswith(f"{name}.") for name in names)


_PIECE_DIFFERENCES: Final = 500
_JOBS: Final = ("a", "b")
_LAST_COLUMNS: Final = ("records_a", "records_b", "field", "before", "after", "because")


def json_pieces(summary: CompareSummary, differences: Iterable[Difference]) -> Iterator[bytes]:
    """One document: the summary, then a line for each difference."""
    yield b'{"summary":%s,\n"differences":[' % msgspec.json.encode(summary)
    before = b"\n"
    for some in _in_pieces(differences):
        yield before + b",\n".join([msgspec.json.encode(difference_json(one, summary.key)) for one in some])
        before = b",\n"
    yield b"\n]}\n"


def difference_json(one: Difference, names: Sequence[str]) -> dict[str, Any]:
    """For machines; `names` are those of the key."""
    return {
        "change": one.change,
        "key": dict(zip(names, one.key, strict=False)),  # a record without a key has none of it
        "items": dict(zip(_JOBS, one.items, strict=True)),
        "records": dict(zip(_JOBS, one.records, strict=True)),
        "fields": {name: {"before": before, "after": after} for name, (before, after) in one.fields.items()},
        "because": one.because,
    }


def parse_difference(told: Mapping[str, Any], names: Sequence[str]) -> Difference:
    """The same again. Raises KeyError, TypeError or ValueError for what is none."""
    return Difference(
        change=Change(told["change"]),
        key=tuple(told["key"][name] for name in names) if told["key"] else (),
        records=(told["records"]["a"], told["records"]["b"]),
        items=(told["items"]["a"], told["items"]["b"]),
        fields={name: (one["before"], one["after"]) for name, one in told["fields"].items()},
        because=None if told["because"] is None else UnknownReason(told["because"]),
    )


def csv_pieces(summary: CompareSummary, differences: Iterable[Difference]) -> Iterator[bytes]:
    """A line for each changed field, and one for every other difference. Safe for spreadsheets, as exports are."""
    names = [f"key_{name}" for name in summary.key]
    yield _lines([["change", *names, "item_a", "item_b", *_LAST_COLUMNS]])
    for some in _in_pieces(differences):
        yield _lines([cells for one in some for cells in _cells(one, len(names))])


def format_change(before: Value, after: Value) -> tuple[Value, Value]:
    """A change for people to see: text is in quotes where it reads like the value that it is not, 7 and "7", [] and
    "[]"."""
    if cell_text(before) != cell_text(after):
        return before, after
    return _quoted(before), _quoted(after)


def _quoted(value: Value) -> Value:
    return to_json_text(value) if isinstance(value, str) else value


def _cells(one: Difference, key_parts: int) -> Iterator[list[Value]]:
    key = one.key or ("",) * key_parts
    head: list[Value] = [one.change.value, *key, *one.items, *one.records]
    if not one.fields:
        yield [*head, None, None, None, one.because]
    for name, (before, after) in one.fields.items():
        yield [*head, name, *format_change(before, after), one.because]


def _lines(rows: Sequence[Sequence[Value]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows([[safe_cell(cell) for cell in row] for row in rows])
    return text.getvalue().encode()


def _in_pieces(differences: Iterable[Difference]) -> Iterator[list[Difference]]:
    iterator = iter(differences)
    while some := list(islice(iterator, _PIECE_DIFFERENCES)):
        yield some

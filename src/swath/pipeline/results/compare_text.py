"""Differences between two jobs as JSON and as CSV, in pieces, so that they can be written as they are found.

Before: compare.py. After: `swath jobs compare` sends them to stdout or a file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from swath.pipeline.results.compare_report import Because, Change, Difference, Summary
from swath.pipeline.results.flatten import Value, as_text, json_text
from swath.pipeline.results.texts import safe_cell

__all__ = ["csv_pieces", "difference_json", "difference_of", "json_pieces", "told_apart"]

_PIECE_DIFFERENCES: Final = 500
_JOBS: Final = ("a", "b")
_LAST: Final = ("records_a", "records_b", "field", "before", "after", "because")


def json_pieces(summary: Summary, differences: Iterable[Difference]) -> Iterator[bytes]:
    """One document: the summary, then a line for each difference."""
    yield b'{"summary":%s,\n"differences":[' % msgspec.json.encode(summary)
    before = b"\n"
    for some in _some(differences):
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


def difference_of(told: Mapping[str, Any], names: Sequence[str]) -> Difference:
    """The same again. Raises KeyError, TypeError or ValueError for what is none."""
    return Difference(
        change=Change(told["change"]),
        key=tuple(told["key"][name] for name in names) if told["key"] else (),
        records=(told["records"]["a"], told["records"]["b"]),
        items=(told["items"]["a"], told["items"]["b"]),
        fields={name: (one["before"], one["after"]) for name, one in told["fields"].items()},
        because=None if told["because"] is None else Because(told["because"]),
    )


def csv_pieces(summary: Summary, differences: Iterable[Difference]) -> Iterator[bytes]:
    """A line for each changed field, and one for every other difference. Safe for spreadsheets, as exports are."""
    names = [f"key_{name}" for name in summary.key]
    yield _lines([["change", *names, "item_a", "item_b", *_LAST]])
    for some in _some(differences):
        yield _lines([cells for one in some for cells in _cells(one, len(names))])


def told_apart(before: Value, after: Value) -> tuple[Value, Value]:
    """A change for people to see: text is in quotes where it reads like the value that it is not, 7 and "7", [] and
    "[]"."""
    if as_text(before) != as_text(after):
        return before, after
    return _quoted(before), _quoted(after)


def _quoted(value: Value) -> Value:
    return json_text(value) if isinstance(value, str) else value


def _cells(one: Difference, key_parts: int) -> Iterator[list[Value]]:
    key = one.key or ("",) * key_parts
    head: list[Value] = [one.change.value, *key, *one.items, *one.records]
    if not one.fields:
        yield [*head, None, None, None, one.because]
    for name, (before, after) in one.fields.items():
        yield [*head, name, *told_apart(before, after), one.because]


def _lines(rows: Sequence[Sequence[Value]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows([[safe_cell(cell) for cell in row] for row in rows])
    return text.getvalue().encode()


def _some(differences: Iterable[Difference]) -> Iterator[list[Difference]]:
    iterator = iter(differences)
    while some := list(islice(iterator, _PIECE_DIFFERENCES)):
        yield some

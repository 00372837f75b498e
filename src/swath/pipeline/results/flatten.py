"""Flattens nested records to one row of named values, by rules that never depend on other records.

Objects become dotted columns, lists JSON text; where values are compared, lists stay lists. Two places in a record
never share a column, and no column has the name of a provenance column.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

__all__ = [
    "PROVENANCE_PREFIX",
    "VALUE_COLUMN",
    "Scalar",
    "Value",
    "cell_text",
    "flatten",
    "same_value",
    "to_json_text",
    "values_of",
]

Scalar = str | int | float | bool | None
"""What a cell can hold."""

Value = Scalar | list[Any] | dict[str, Any]
"""What a field can be: a list as a whole, and an object only if there is nothing in it."""

PROVENANCE_PREFIX: Final = "_"  # what provenance columns begin with; a record's own names that do get a second one
VALUE_COLUMN: Final = "value"  # the column of a record that is no object


def flatten(record: Any, under: str | None = None) -> dict[str, Scalar]:
    """A record by column, in its own order. One that is a plain value, or a list, has the column `value`.

    `under` is the column that it lies in, if it is not the record itself.
    """
    return _by_name(record, under, _cell)


def values_of(record: Any, under: str | None = None) -> dict[str, Value]:
    """The same by the same names, but each value as it is, so that a list is not the text that it would be written
    as."""
    return _by_name(record, under, _unchanged)


def _by_name(record: Any, under: str | None, made: Callable[[Any], Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    if under is not None:
        _put(flat, under, record, made)
        return flat
    if not isinstance(record, dict):
        flat[VALUE_COLUMN] = made(record)
        return flat
    for key, value in record.items():
        name = _column(key)
        if isinstance(value, str):  # as most are
            flat[name] = value
        else:
            _put(flat, name, value, made)
    return flat


@lru_cache(4_096)  # records have the same names again and again
def _column(key: str) -> str:
    name = _escaped(key)
    return PROVENANCE_PREFIX + name if name.startswith(PROVENANCE_PREFIX) else name


def _put(flat: dict[str, Any], column: str, value: Any, made: Callable[[Any], Any]) -> None:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            _put(flat, f"{column}.{_escaped(key)}", part, made)
    else:
        flat[column] = made(value)


def _escaped(key: str) -> str:
    """A dot inside a name is no step into an object."""
    return key.replace("\\", "\\\\").replace(".", "\\.") if "." in key or "\\" in key else key


def _cell(value: Any) -> Scalar:
    if value is None or isinstance(value, (str, int, float)):
        return value
    return to_json_text(value)


def _unchanged(value: Any) -> Any:
    return value


def to_json_text(value: Any) -> str:
    """Compact, in the order that it has."""
    return msgspec.json.encode(value).decode()


def cell_text(value: Value) -> str:
    """A cell where all is text: JSON, but for text itself; nothing for null."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json_text(value)


def same_value(before: Value, after: Value) -> bool:
    """1 and 1.0 are the same number; 1 and true are not, nor a list and its text. The order of names means nothing."""
    if isinstance(before, list):
        return isinstance(after, list) and len(before) == len(after) and all(map(same_value, before, after))
    if isinstance(before, dict):
        if not isinstance(after, dict) or before.keys() != after.keys():
            return False
        return all(same_value(part, after[name]) for name, part in before.items())
    return before == after and isinstance(before, bool) is isinstance(after, bool)

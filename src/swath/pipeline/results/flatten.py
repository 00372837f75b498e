"""Nested records as one row of named values, by rules that never depend on other records (docs/how-to/export.md).

Objects become dotted columns, lists JSON text. Different places in a record never share a column, and no column of a
record has the name of a provenance column.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

__all__ = ["OURS", "VALUE", "Scalar", "as_text", "flatten", "json_text"]

Scalar = str | int | float | bool | None
"""What a cell can hold."""

OURS: Final = "_"  # what provenance columns begin with; a record's own names that do get a second one
VALUE: Final = "value"  # the column of a record that is no object


def flatten(record: Any, under: str | None = None) -> dict[str, Scalar]:
    """A record by column, in its own order. One that is a plain value, or a list, has the column `value`.

    `under` is the column that it lies in, if it is not the record itself.
    """
    flat: dict[str, Scalar] = {}
    if under is not None:
        _put(flat, under, record)
        return flat
    if not isinstance(record, dict):
        flat[VALUE] = _cell(record)
        return flat
    for key, value in record.items():
        name = _column(key)
        if isinstance(value, str):  # as most are
            flat[name] = value
        else:
            _put(flat, name, value)
    return flat


@lru_cache(4_096)  # records have the same names again and again
def _column(key: str) -> str:
    name = _escaped(key)
    return OURS + name if name.startswith(OURS) else name


def _put(flat: dict[str, Scalar], column: str, value: Any) -> None:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            _put(flat, f"{column}.{_escaped(key)}", part)
    else:
        flat[column] = _cell(value)


def _escaped(key: str) -> str:
    """A dot inside a name is no step into an object."""
    return key.replace("\\", "\\\\").replace(".", "\\.") if "." in key or "\\" in key else key


def _cell(value: Any) -> Scalar:
    if value is None or isinstance(value, (str, int, float)):
        return value
    return json_text(value)


def json_text(value: Any) -> str:
    """Compact, in the order that it has."""
    return msgspec.json.encode(value).decode()


def as_text(value: Scalar) -> str:
    """A cell where all is text: JSON, but for text itself; nothing for null."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)

"""Records as text: CSV that no spreadsheet takes for formulas, and JSON Lines. Bytes that can be sent as they are made.

Before: rows.py, and columns.py for CSV. After: export.py writes them to a file, the API and stdout send them on.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from swath.pipeline.results.columns import Columns, distinct
from swath.pipeline.results.flatten import VALUE, Value, as_text
from swath.pipeline.results.rows import Row

__all__ = ["PROVENANCE", "CsvText", "JsonLines", "TextFormat", "safe_cell"]

PROVENANCE: Final = "_provenance"  # the key of a JSON line that is ours

_ALIKE: Final = re.compile("_+provenance")
# What spreadsheets begin a formula with, also in full width, the white space that they skip before it, and the
# byte-order mark, which readers take off the first cell of a file.
_FORMULA: Final = tuple(
    "=+-@\t\r\n\ufeff\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}\uff20"
)
_PLAIN_NUMBER: Final = r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_NUMBER: Final = re.compile(_PLAIN_NUMBER)
# Where a cell is split by a spreadsheet that expects semicolons or tabs: inside a cell it takes quotes for letters, so
# a line break ends the row, and what comes next begins a cell.
_SPLIT: Final = re.compile(
    rf"([;\t\r\n]\"*)(?=[{re.escape(''.join(_FORMULA))}])(?![\t\r\n])(?!{_PLAIN_NUMBER}(?:[;\t\r\n]|\Z))"
)


class TextFormat(Protocol):
    """Makes bytes of rows, some at a time."""

    def head(self) -> bytes:
        """What comes before all rows."""
        ...

    def encode(self, rows: Sequence[Row]) -> bytes:
        """These rows."""
        ...


class CsvText:
    """RFC 4180, in UTF-8. Formula-safe unless it is to be `raw`."""

    def __init__(self, columns: Columns, *, raw: bool = False) -> None:
        self._columns = columns
        self._cell = as_text if raw else safe_cell

    def head(self) -> bytes:
        """The names of the columns."""
        return self._lines([distinct(map(self._cell, self._columns.kinds))])

    def encode(self, rows: Sequence[Row]) -> bytes:
        """See TextFormat."""
        return self._lines([self._columns.values(row) for row in rows])

    def _lines(self, lines: Sequence[Sequence[Any]]) -> bytes:
        text, cell = io.StringIO(newline=""), self._cell
        csv.writer(text, lineterminator="\r\n").writerows([[cell(value) for value in line] for line in lines])
        return text.getvalue().encode()


def safe_cell(value: Value) -> str:
    """A cell that a spreadsheet shows as it is: text that it would take for a formula begins with an apostrophe, also
    where only one that splits at semicolons or tabs would.

    Numbers, and text that is nothing but a number, compute nothing and stay as they are.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return as_text(value)
    if value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        value = f"'{value}"
    return _SPLIT.sub(r"\1'", value)


class JsonLines:
    """Each record as it was extracted, with one key more. One that is no object is under `value`."""

    def head(self) -> bytes:
        """Nothing."""
        return b""

    def encode(self, rows: Sequence[Row]) -> bytes:
        """See TextFormat."""
        return b"".join([msgspec.json.encode(_line(row)) + b"\n" for row in rows])


def _line(row: Row) -> dict[str, Any]:
    if not row.has_data:
        record: dict[str, Any] = {}
    elif isinstance(row.data, dict):
        record = {f"_{key}" if _ALIKE.fullmatch(key) else key: value for key, value in row.data.items()}
    else:
        record = {VALUE: row.data}
    return {**record, PROVENANCE: row.provenance}

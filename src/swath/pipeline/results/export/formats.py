"""Writes records as CSV, JSON Lines, a SQLite database or a Parquet file.

CSV and JSON Lines come in pieces that can be streamed; CSV is safe from spreadsheets that run formulas.
"""

from __future__ import annotations

import csv
import importlib
import io
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from swath.domain.errors import BadInput
from swath.pipeline.results.export.columns import Columns, ColumnType, distinct
from swath.pipeline.results.flatten import VALUE_COLUMN, Value, cell_text
from swath.pipeline.results.records import RecordRow

__all__ = [
    "PROVENANCE",
    "CsvText",
    "JsonLinesText",
    "ParquetTable",
    "SqliteTable",
    "Table",
    "TextFormat",
    "check_parquet",
    "safe_cell",
]

PROVENANCE: Final = "_provenance"  # the key of a JSON line that is ours

_PROVENANCE_LIKE: Final = re.compile("_+provenance")
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

    def encode(self, rows: Sequence[RecordRow]) -> bytes:
        """These rows."""
        ...


class CsvText:
    """RFC 4180, in UTF-8. Formula-safe unless it is to be `raw`."""

    def __init__(self, columns: Columns, *, raw: bool = False) -> None:
        self._columns = columns
        self._cell = cell_text if raw else safe_cell

    def head(self) -> bytes:
        """The names of the columns."""
        return self._lines([distinct(map(self._cell, self._columns.kinds))])

    def encode(self, rows: Sequence[RecordRow]) -> bytes:
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
        return cell_text(value)
    if value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        value = f"'{value}"
    return _SPLIT.sub(r"\1'", value)


class JsonLinesText:
    """Each record as it was extracted, with one key more. One that is no object is under `value`."""

    def head(self) -> bytes:
        """Nothing."""
        return b""

    def encode(self, rows: Sequence[RecordRow]) -> bytes:
        """See TextFormat."""
        return b"".join([msgspec.json.encode(_line(row)) + b"\n" for row in rows])


def _line(row: RecordRow) -> dict[str, Any]:
    if not row.has_data:
        record: dict[str, Any] = {}
    elif isinstance(row.data, dict):
        record = {f"_{key}" if _PROVENANCE_LIKE.fullmatch(key) else key: value for key, value in row.data.items()}
    else:
        record = {VALUE_COLUMN: row.data}
    return {**record, PROVENANCE: row.provenance}


GROUP_BYTES: Final = 8 << 20  # of values in a row group of a Parquet file, and at most so many rows:
GROUP_ROWS: Final = 20_000
_SQL_TYPES: Final = {
    ColumnType.BOOL: "BOOLEAN",
    ColumnType.INT: "INTEGER",
    ColumnType.FLOAT: "REAL",
    ColumnType.TEXT: "TEXT",
}


class Table(Protocol):
    """Takes rows, some at a time. Raises OSError when they cannot be written."""

    def write(self, rows: Sequence[RecordRow]) -> None:
        """These rows, too."""
        ...

    def close(self, *, complete: bool) -> None:
        """Lets go of the file, which is whole if it is to be."""
        ...


class SqliteTable:
    """A database with one table, `records`. It has no journal: until it is whole nobody sees it."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._columns = columns
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        names = distinct((name.replace("\0", "\N{REPLACEMENT CHARACTER}") for name in columns.kinds), str.lower)
        declared = ", ".join(
            f"{_quoted(name)} {_SQL_TYPES[kind]}" for name, kind in zip(names, columns.kinds.values(), strict=True)
        )
        self._insert = f"INSERT INTO records VALUES ({', '.join('?' * len(names))})"  # noqa: S608 only question marks
        self._run(
            "PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", f"CREATE TABLE records ({declared})", "BEGIN"
        )

    def write(self, rows: Sequence[RecordRow]) -> None:
        """See Table."""
        cells = [self._columns.cells(row) for row in rows]
        try:
            self._db.executemany(self._insert, cells)
        except sqlite3.OperationalError as error:
            raise OSError(None, str(error)) from error

    def close(self, *, complete: bool) -> None:
        """See Table."""
        try:
            if complete:
                self._run("COMMIT")
        finally:
            self._db.close()

    def _run(self, *statements: str) -> None:
        try:
            for statement in statements:
                self._db.execute(statement)
        except sqlite3.OperationalError as error:
            raise OSError(None, str(error)) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def check_parquet() -> None:
    """Raises BadInput when the library for it is not installed."""
    try:
        importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise BadInput("parquet is not installed; get it with: pip install 'swath[parquet]'") from None


class ParquetTable:
    """Row groups bounded in bytes; what they took is given back after each."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._arrow: Any = importlib.import_module("pyarrow")  # an extra, and slow to import
        arrow = self._arrow
        types = {ColumnType.BOOL: arrow.bool_(), ColumnType.INT: arrow.int64(), ColumnType.FLOAT: arrow.float64()}
        fields = [(name, types.get(kind, arrow.string())) for name, kind in columns.kinds.items()]
        self._schema = arrow.schema(fields)
        self._columns = columns
        self._writer = importlib.import_module("pyarrow.parquet").ParquetWriter(path, self._schema)
        self._rows: list[list[Any]] = []
        self._bytes = 0

    def write(self, rows: Sequence[RecordRow]) -> None:
        """See Table."""
        for row in rows:
            cells = self._columns.cells(row)
            self._rows.append(cells)
            self._bytes += sum([len(cell) if isinstance(cell, str) else 8 for cell in cells])
            if self._bytes >= GROUP_BYTES or len(self._rows) >= GROUP_ROWS:
                self._flush()

    def _flush(self) -> None:
        arrays = [
            self._arrow.array(list(column), field.type)
            for column, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self._rows, self._bytes = [], 0
        self._writer.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        del arrays
        self._arrow.default_memory_pool().release_unused()

    def close(self, *, complete: bool) -> None:
        """See Table."""
        if complete and self._rows:
            self._flush()
        self._writer.close()

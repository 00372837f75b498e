"""Records as typed tables: a SQLite database and a Parquet file, each written to a path that nobody else has.

Before: columns.py knows the columns. After: export.py gives the file its name when it is complete.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from swath.domain.errors import BadInput
from swath.pipeline.results.columns import Columns, Kind, distinct
from swath.pipeline.results.rows import Row

__all__ = ["ParquetTable", "SqliteTable", "Table", "check_parquet"]

GROUP_BYTES: Final = 8 << 20  # of values in a row group of a Parquet file, and at most so many rows:
GROUP_ROWS: Final = 20_000
_SQL_TYPES: Final = {Kind.BOOL: "BOOLEAN", Kind.INT: "INTEGER", Kind.FLOAT: "REAL", Kind.TEXT: "TEXT"}


class Table(Protocol):
    """Takes rows, some at a time. Raises OSError when they cannot be written."""

    def write(self, rows: Sequence[Row]) -> None:
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

    def write(self, rows: Sequence[Row]) -> None:
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
        types = {Kind.BOOL: arrow.bool_(), Kind.INT: arrow.int64(), Kind.FLOAT: arrow.float64()}
        fields = [(name, types.get(kind, arrow.string())) for name, kind in columns.kinds.items()]
        self._schema = arrow.schema(fields)
        self._columns = columns
        self._writer = importlib.import_module("pyarrow.parquet").ParquetWriter(path, self._schema)
        self._rows: list[list[Any]] = []
        self._bytes = 0

    def write(self, rows: Sequence[Row]) -> None:
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

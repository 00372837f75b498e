"""Row and BadRow: what a source yields, before the checker turns rows into items.

Sources are files (file_source.py) or values that are at hand already (`GivenRows`); both are read in one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

import msgspec

__all__ = ["ROW_LIMIT_CHARS", "BadRow", "GivenRows", "OpenedRows", "Row", "RowSource"]

ROW_LIMIT_CHARS: Final = 1 << 20  # a longer row is a mistake, and must not cost memory without bound


class Row(msgspec.Struct, frozen=True, gc=False):
    """One data row. `number` counts rows from 1, `line` is the physical line where it begins.

    `text` says that all values are strings of a table, where an empty one stands for "nothing".
    """

    number: int
    line: int
    data: dict[str, Any]
    text: bool = False


class BadRow(msgspec.Struct, frozen=True):
    """One data row that cannot become an item, and why."""

    number: int
    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


class OpenedRows(msgspec.Struct, frozen=True):
    """A source in the middle of being read. `columns` is None where each row brings its own names."""

    columns: tuple[str, ...] | None
    rows: Iterator[Row | BadRow]


class RowSource(Protocol):
    """Where rows come from; read in a thread, because reading blocks."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    def open(self) -> AbstractContextManager[OpenedRows]:
        """Begins at the first row, each time. Raises BadInput when the source as a whole is unusable."""
        ...


class GivenRows:
    """Rows that a program has at hand: bodies of the API, the parcels of the demo. A row's line is its number."""

    def __init__(self, name: str, given: Iterable[Mapping[str, Any]]) -> None:
        self.name = name
        self._given = given

    def open(self) -> AbstractContextManager[OpenedRows]:
        """See RowSource."""
        rows = (Row(number, number, dict(data)) for number, data in enumerate(self._given, start=1))
        return nullcontext(OpenedRows(None, rows))

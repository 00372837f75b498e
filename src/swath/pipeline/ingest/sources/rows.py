"""Rows as a source yields them, before validation; rows from memory; the first rows or a random sample of a source.

Sampled rows are renumbered but keep their physical lines.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

__all__ = [
    "ROW_LIMIT_CHARS",
    "BadRow",
    "FirstRows",
    "InputRow",
    "OpenSource",
    "RowSource",
    "RowsInMemory",
    "SampledRows",
]

ROW_LIMIT_CHARS: Final = 1 << 20  # a longer row is a mistake, and must not cost memory without bound


class InputRow(msgspec.Struct, frozen=True, gc=False):
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


class OpenSource(msgspec.Struct, frozen=True):
    """A source in the middle of being read. `columns` is None where each row brings its own names."""

    columns: tuple[str, ...] | None
    rows: Iterator[InputRow | BadRow]


class RowSource(Protocol):
    """Where rows come from; read in a thread, because reading blocks."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    def open(self) -> AbstractContextManager[OpenSource]:
        """Begins at the first row, each time. Raises BadInput when the source as a whole is unusable."""
        ...


class RowsInMemory:
    """Rows that a program has at hand: bodies of the API, the parcels of the demo. A row's line is its number."""

    def __init__(self, name: str, given: Iterable[Mapping[str, Any]]) -> None:
        self.name = name
        self._given = given

    def open(self) -> AbstractContextManager[OpenSource]:
        """See RowSource."""
        rows = (InputRow(number, number, dict(data)) for number, data in enumerate(self._given, start=1))
        return nullcontext(OpenSource(None, rows))


class FirstRows:
    """The first `rows` of a source; what comes after them is not read."""

    def __init__(self, source: RowSource, rows: int) -> None:
        self.name = source.name
        self._source = source
        self._rows = rows

    @contextmanager
    def open(self) -> Iterator[OpenSource]:
        """See RowSource."""
        with self._source.open() as opened:
            yield OpenSource(opened.columns, islice(opened.rows, self._rows))


class SampledRows:
    """`rows` of a source, each as likely as any other, in the order of the file; the same ones each time.

    The whole source is read; only the sample is held (a reservoir).
    """

    def __init__(self, source: RowSource, rows: int) -> None:
        self.name = source.name
        self._source = source
        self._rows = rows

    @contextmanager
    def open(self) -> Iterator[OpenSource]:
        """See RowSource."""
        with self._source.open() as opened:
            yield OpenSource(opened.columns, self._sampled(opened.rows))

    def _sampled(self, rows: Iterator[InputRow | BadRow]) -> Iterator[InputRow | BadRow]:
        chance = random.Random(self._rows)  # noqa: S311 the same command must find the same rows again
        kept = list(islice(rows, self._rows))
        for seen, row in enumerate(rows, start=len(kept) + 1):
            place = int(chance.random() * seen)
            if place < self._rows:
                kept[place] = row
        kept.sort(key=lambda row: row.number)
        for number, row in enumerate(kept, start=1):
            yield _renumbered(row, number)


def _renumbered(row: InputRow | BadRow, number: int) -> InputRow | BadRow:
    if isinstance(row, BadRow):
        return BadRow(number, row.line, row.message)
    return InputRow(number, row.line, row.data, row.text)

"""Part of a source: its first rows, or a sample of them, for trying a job out before all of it runs.

Wraps a file source; the checker comes after. Rows are numbered anew and keep their lines, so that messages still name
the place in the file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

from swath.pipeline.accept.rows import BadRow, OpenedRows, Row, RowSource

__all__ = ["FirstRows", "SampledRows"]


class FirstRows:
    """The first `rows` of a source; what comes after them is not read."""

    def __init__(self, source: RowSource, rows: int) -> None:
        self.name = source.name
        self._source = source
        self._rows = rows

    @contextmanager
    def open(self) -> Iterator[OpenedRows]:
        """See RowSource."""
        with self._source.open() as opened:
            yield OpenedRows(opened.columns, islice(opened.rows, self._rows))


class SampledRows:
    """`rows` of a source, each as likely as any other, in the order of the file; the same ones each time.

    The whole source is read; only the sample is held (a reservoir).
    """

    def __init__(self, source: RowSource, rows: int) -> None:
        self.name = source.name
        self._source = source
        self._rows = rows

    @contextmanager
    def open(self) -> Iterator[OpenedRows]:
        """See RowSource."""
        with self._source.open() as opened:
            yield OpenedRows(opened.columns, self._sampled(opened.rows))

    def _sampled(self, rows: Iterator[Row | BadRow]) -> Iterator[Row | BadRow]:
        chance = random.Random(self._rows)  # noqa: S311 the same command must find the same rows again
        kept = list(islice(rows, self._rows))
        for seen, row in enumerate(rows, start=len(kept) + 1):
            place = int(chance.random() * seen)
            if place < self._rows:
                kept[place] = row
        kept.sort(key=lambda row: row.number)
        for number, row in enumerate(kept, start=1):
            yield _renumbered(row, number)


def _renumbered(row: Row | BadRow, number: int) -> Row | BadRow:
    if isinstance(row, BadRow):
        return BadRow(number, row.line, row.message)
    return Row(number, row.line, row.data, row.text)

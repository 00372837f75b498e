"""Rows of a CSV file with a header line. Comes before: the checker. Lines come from text.py.

Blank lines, and rows in which every cell is empty (spreadsheets append them), are no rows and are not numbered.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from swath.domain.errors import BadInput
from swath.pipeline.accept.rows import ROW_LIMIT_CHARS, BadRow, Row
from swath.pipeline.accept.text import Lines

__all__ = ["COLUMN_LIMIT", "DELIMITERS", "CsvRows"]

DELIMITERS: Final = (",", ";", "\t", "|")
COLUMN_LIMIT: Final = 10_000

_QUOTED: Final = re.compile(r'"[^"]*"?')
_SPOKEN: Final = {"\t": "a tab"}


class CsvRows:
    """Reads the header at once, and rows as they are asked for."""

    def __init__(self, name: str, lines: Lines, delimiter: str | None = None) -> None:
        self._name = name
        self._lines = lines
        self._row_end = 0  # the last physical line of the latest row
        # The module's own limit is 128 KiB a cell and process-wide. Ours comes first, so it may only be in the way.
        csv.field_size_limit(max(csv.field_size_limit(), 4 * ROW_LIMIT_CHARS))
        blocks = iter(self._watched())
        head = next(blocks, [])
        self._delimiter = delimiter or _sniff(head)
        self._reader = csv.reader(chain(head, chain.from_iterable(blocks)), delimiter=self._delimiter, strict=True)
        self.columns = self._header()

    def _watched(self) -> Iterator[list[str]]:
        """Hands lines on, and stops a quoted cell that swallows the file."""
        row_end, held_chars = 0, 0
        for lines in self._lines:
            if self._row_end != row_end:
                row_end, held_chars = self._row_end, 0
            elif held_chars > ROW_LIMIT_CHARS:
                raise BadInput(self._unclosed(f"is not closed within {ROW_LIMIT_CHARS:,} characters"))
            held_chars += sum(map(len, lines))
            yield lines

    def _unclosed(self, what: str) -> str:
        return f'{self._name}: line {self._row_end + 1}: a quote (") in this row {what}; close it, or double it inside'

    def _header(self) -> tuple[str, ...]:
        cells: list[str] = []
        try:
            while not any(cells) and not self._lines.oversized:
                self._row_end = self._reader.line_num
                cells = next(self._reader)
        except StopIteration:
            raise BadInput(f"{self._name}: is empty; it needs a header line and a line for each item") from None
        except csv.Error as error:
            if "end of data" in str(error):
                raise BadInput(self._unclosed("is never closed")) from None
            raise BadInput(f"{self._name}: line {self._row_end + 1}: the header is not valid CSV: {error}") from None
        line, self._row_end = self._row_end + 1, self._reader.line_num
        if self._lines.oversized or len(cells) > COLUMN_LIMIT:
            size = "is too long" if self._lines.oversized else f"has {len(cells):,} columns"
            raise BadInput(f"{self._name}: line {line}: the header {size}; at most {COLUMN_LIMIT:,} columns are read")
        columns = tuple(cell.strip() or f"column_{place}" for place, cell in enumerate(cells, start=1))
        for column, times in Counter(columns).items():
            if times > 1:
                raise BadInput(f"{self._name}: line {line}: the header has {column!r} {times} times; rename one")
        return columns

    def __iter__(self) -> Iterator[Row | BadRow]:
        columns, reader, oversized = self.columns, self._reader, self._lines.oversized
        width, number = len(columns), 0
        while True:
            try:
                for cells in reader:
                    line = self._row_end + 1
                    self._row_end = row_end = reader.line_num
                    if len(cells) != width or row_end != line or oversized:
                        problem = self._problem(line, cells)
                        if problem is not None:
                            number += 1
                            yield BadRow(number, line, problem)
                            continue
                    if any(cells):
                        number += 1
                        yield Row(number, line, dict(zip(columns, cells)), True)  # noqa: B905 checked by `width`
            except csv.Error as error:
                if "end of data" in str(error):
                    raise BadInput(self._unclosed("is never closed")) from None
                number += 1
                line, self._row_end = self._row_end + 1, reader.line_num
                yield BadRow(number, line, "goes on after a closing quote; double the quotes inside a quoted cell")
            else:
                return

    def _problem(self, line: int, cells: list[str]) -> str | None:
        """What is wrong with a row that is not plainly right."""
        oversized = {number for number in self._lines.oversized if line <= number <= self._row_end}
        self._lines.oversized -= oversized
        if oversized or sum(map(len, cells)) > ROW_LIMIT_CHARS:
            return f"is longer than {ROW_LIMIT_CHARS:,} characters"
        if cells and len(cells) != len(self.columns):
            spoken = _SPOKEN.get(self._delimiter, f"{self._delimiter!r}")
            hint = f"; quote cells that contain {spoken}" if len(cells) > len(self.columns) else ""
            return f"has {_cells(len(cells))} where the header has {len(self.columns)}{hint}"
        return None


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count:,} cells"


def _sniff(head: list[str]) -> str:
    """The delimiter that the header uses most; a file of one column has none, and any will do."""
    header, quotes = list[str](), 0
    for line in head:
        header.append(line)
        quotes += line.count('"')
        if line.strip() and not quotes % 2:  # else a name of a column goes on in the next line
            break
    bare = _QUOTED.sub("", "".join(header))
    return max(DELIMITERS, key=bare.count)

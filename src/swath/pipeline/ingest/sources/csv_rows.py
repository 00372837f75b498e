"""Reads rows of a CSV file with a header line, and lists of item ids, one a line or in a CSV column.

Blank lines and rows of empty cells are skipped and not counted.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Final

from swath.domain.errors import BadInput
from swath.pipeline.ingest.sources.decoding import (
    STDIN,
    ByteReader,
    TextLines,
    decompress,
    open_bytes,
    read_chunks,
    text_blocks,
)
from swath.pipeline.ingest.sources.rows import ROW_LIMIT_CHARS, BadRow, InputRow

__all__ = ["COLUMN_LIMIT", "DELIMITERS", "CsvRows", "looks_like_table", "read_item_ids"]

DELIMITERS: Final = (",", ";", "\t", "|")
COLUMN_LIMIT: Final = 10_000

_QUOTED: Final = re.compile(r'"[^"]*"?')
_DELIMITER_NAMES: Final = {"\t": "a tab"}


class CsvRows:
    """Reads the header at once, and rows as they are asked for."""

    def __init__(self, name: str, lines: TextLines, delimiter: str | None = None) -> None:
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

    def __iter__(self) -> Iterator[InputRow | BadRow]:
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
                        yield InputRow(number, line, dict(zip(columns, cells)), True)  # noqa: B905 checked by `width`
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
            spoken = _DELIMITER_NAMES.get(self._delimiter, f"{self._delimiter!r}")
            hint = f"; quote cells that contain {spoken}" if len(cells) > len(self.columns) else ""
            return f"has {_count_of_cells(len(cells))} where the header has {len(self.columns)}{hint}"
        return None


def _count_of_cells(count: int) -> str:
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


ID_COLUMN = "item_id"
ID_DELIMITERS = ",;\t|"


def read_item_ids(path: str, stdin: ByteReader | None = None) -> frozenset[str]:
    """One id a line, or a CSV file with a column `item_id`; `-` is stdin. Raises BadInput."""
    name = "stdin" if path == STDIN else path
    with open_bytes(path, stdin) as file:
        blocks = text_blocks(name, decompress(name, read_chunks(name, file)))
        head = next(blocks, "")
        lines = TextLines(chain((head,), blocks) if head else blocks)
        found = _column(name, lines) if _is_table(head) else _ids(lines)
    if not found:
        raise BadInput(f"{name}: has no item ids; write one on each line")
    return found


def looks_like_table(ids: Collection[str]) -> bool:
    """Whether what was read line by line was rather a table. An id may have a comma, so that alone is no mistake."""
    return any({0} != counts and len(counts) == 1 for counts in ({id_.count(d) for id_ in ids} for d in ID_DELIMITERS))


def _is_table(head: str) -> bool:
    first = head.lstrip().partition("\n")[0]
    return any(
        ID_COLUMN in (cell.strip() for cell in next(csv.reader([first], delimiter=d), [])) for d in ID_DELIMITERS
    )


def _column(name: str, lines: TextLines) -> frozenset[str]:
    ids = set()
    for row in CsvRows(name, lines):
        if isinstance(row, BadRow):
            raise BadInput(f"{name}: {row}")
        ids.add(row.data[ID_COLUMN])
    return frozenset(ids - {""})


def _ids(lines: TextLines) -> frozenset[str]:
    return frozenset(chain.from_iterable((line.strip() for line in block) for block in lines)) - {""}

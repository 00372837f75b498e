"""A table of a page as rows by the names of its columns, with cells that span several put into each of them.

Comes after `text`; used by `WebPage.table`, and by `pairs`, which reads tables of two columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from selectolax.lexbor import LexborNode

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.reading.text import text_in

__all__ = ["TableRow", "read_table", "rows_of"]

_GROUPS: Final = frozenset({"thead", "tbody", "tfoot"})
_CELLS: Final = frozenset({"th", "td"})
_WIDEST_COLUMNS: Final = 1000  # what the HTML standard allows a cell to span
_TALLEST_ROWS: Final = 65534
_MOST_CELLS: Final = 500_000  # a page of a kilobyte can ask for more


class TableRow(msgspec.Struct, frozen=True):
    """A row with its own cells. `group` is that of its thead, tbody or tfoot, beyond which no cell spans."""

    cells: list[LexborNode]
    group: int
    is_head: bool


def rows_of(table: LexborNode) -> list[TableRow]:
    """The rows of this table, and not of those that stand in its cells."""
    rows: list[TableRow] = []
    for group, child in enumerate(table.iter()):
        if child.tag in _GROUPS:
            inside = [row for row in child.iter() if row.tag == "tr"]
            rows.extend(_row(row, group, is_head=child.tag == "thead") for row in inside)
        elif child.tag == "tr":
            rows.append(_row(child, -1, is_head=False))
    return rows


def read_table(table: LexborNode, header: Sequence[str] | None = None) -> list[dict[str, str]]:
    """The rows of a table as text by column, in order.

    Columns are named by the rows in thead, else by the first rows of nothing but th, else by the first row; or by
    `header`, and then the first row is one like the others unless it is such a heading. A name that comes twice is
    numbered (`Amount`, `Amount 2`), and a column without one is `column 3`. A cell that is missing is empty. Rows that
    say nothing, and those of a single cell over the whole width (titles, remarks, page numbers), are left out.
    """
    rows = _without_remarks([row for row in rows_of(table) if row.cells])
    heads = _count_heads(rows)
    if not heads and header is None:
        heads = 1
    grid = _expanded(rows)
    names = _names(grid[:heads] if header is None else [list(header)], max(map(len, grid), default=0))
    return [dict(zip(names, line + [""] * (len(names) - len(line)), strict=True)) for line in grid[heads:] if any(line)]


def _row(node: LexborNode, group: int, *, is_head: bool) -> TableRow:
    return TableRow([cell for cell in node.iter() if cell.tag in _CELLS], group, is_head)


def _without_remarks(rows: list[TableRow]) -> list[TableRow]:
    """Without the rows of one cell that spans the table."""
    spans = [sum(_span(cell, "colspan", _WIDEST_COLUMNS) for cell in row.cells) for row in rows]
    widest = max((span for row, span in zip(rows, spans, strict=True) if len(row.cells) > 1), default=0)
    return [row for row, span in zip(rows, spans, strict=True) if len(row.cells) > 1 or not 1 < widest <= span]


def _count_heads(rows: list[TableRow]) -> int:
    """How many rows at the top are headings."""
    named = sum(row.is_head for row in rows)
    if named:
        return named
    for count, row in enumerate(rows):
        if any(cell.tag != "th" for cell in row.cells):
            return count
    return min(len(rows), 1)


def _expanded(rows: list[TableRow]) -> list[list[str]]:
    """Each row with a text per column, cells from above included."""
    grid: list[list[str]] = []
    hanging: dict[int, tuple[int, str]] = {}  # column → for how many rows more, and what
    group, count = None, 0
    for row in rows:
        if row.group != group:
            group, hanging = row.group, {}
        line: list[str] = []
        below = {column: (more - 1, text) for column, (more, text) in hanging.items() if more > 1}
        for cell in row.cells:
            _fill(line, hanging)
            text, wide = text_in(cell), _span(cell, "colspan", _WIDEST_COLUMNS)
            tall = _span(cell, "rowspan", _TALLEST_ROWS)
            if tall > 1:
                below |= dict.fromkeys(range(len(line), len(line) + wide), (tall - 1, text))
            line.extend([text] * wide)
            if count + len(line) > _MOST_CELLS:
                raise Failed(Failure.of(FailureKind.TOO_LARGE, f"a table has more than {_MOST_CELLS:,} cells"))
        _fill(line, hanging)
        count += len(line)
        grid.append(line)
        hanging = below
    return grid


def _fill(line: list[str], hanging: dict[int, tuple[int, str]]) -> None:
    """Adds what hangs down into the columns that come next."""
    while (above := hanging.get(len(line))) is not None:
        line.append(above[1])


def _span(cell: LexborNode, name: str, most: int) -> int:
    """A rowspan of 0 lasts to the end of its group."""
    value = (cell.attributes.get(name) or "").strip()
    if not value.isascii() or not value.isdigit() or len(value) > 9:
        return 1
    asked = int(value)
    return min(asked or (most if name == "rowspan" else 1), most)


def _names(heads: list[list[str]], width: int) -> list[str]:
    """One name per column, out of the headings above it, each said once."""
    width = max(width, *(len(line) for line in heads)) if heads else width
    names: list[str] = []
    taken: set[str] = set()
    for column in range(width):
        parts = dict.fromkeys(line[column] for line in heads if column < len(line) and line[column])
        name = base = " ".join(parts) or f"column {column + 1}"
        number = 1
        while name in taken:
            number += 1
            name = f"{base} {number}"
        taken.add(name)
        names.append(name)
    return names

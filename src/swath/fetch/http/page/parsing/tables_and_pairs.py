"""Tables as rows by column name, and labelled values.

A cell that spans several columns or rows is repeated in each. Labelled values are rows of two cells, definition
lists,
labels, and `Label: value` in text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec
from selectolax.lexbor import LexborNode

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.http.page.parsing.text_and_links import BREAKING, UNSEEN, collapsed, text_in
from swath.fetch.url import redacted

__all__ = ["Pairs", "TableRow", "read_pairs", "read_table", "rows_of"]

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
    names = _column_names(grid[:heads] if header is None else [list(header)], max(map(len, grid), default=0))
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
            _fill_spans(line, hanging)
            text, wide = text_in(cell), _span(cell, "colspan", _WIDEST_COLUMNS)
            tall = _span(cell, "rowspan", _TALLEST_ROWS)
            if tall > 1:
                below |= dict.fromkeys(range(len(line), len(line) + wide), (tall - 1, text))
            line.extend([text] * wide)
            if count + len(line) > _MOST_CELLS:
                raise Failed(Failure.of(FailureKind.TOO_LARGE, f"a table has more than {_MOST_CELLS:,} cells"))
        _fill_spans(line, hanging)
        count += len(line)
        grid.append(line)
        hanging = below
    return grid


def _fill_spans(line: list[str], hanging: dict[int, tuple[int, str]]) -> None:
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


def _column_names(heads: list[list[str]], width: int) -> list[str]:
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


_LABEL_CLASSES: Final = frozenset({"label", "lbl", "field-label", "field-name", "key"})
_LABELLED: Final = ", ".join(["tr, dt, label, b, strong", *(f".{name}" for name in sorted(_LABEL_CLASSES))])
_NEEDS_COLON: Final = frozenset({"b", "strong"})
_CONTROLS: Final = frozenset({"input", "select", "textarea", "button"})
_NO_PROSE: Final = frozenset({*UNSEEN, "dt", "th", "label", "b", "strong"})  # the labels among them were read before
_CLIMBS: Final = 2
_HEADS: Final = 5
_LOOKS_AHEAD: Final = 50
_DEEPEST: Final = 50
_IN_TEXT: Final = re.compile(r"\s*([^\W\d_][^:.;!?]{0,59}?)\s*:(?:\s+|$)(.*)", re.DOTALL)
_LABELS_SHOWN: Final = 30

Labels = Mapping[str, str | Iterable[str]]


class Pairs(dict[str, str]):
    """Values by label, without the colon. A label that is not there raises Failed layout_changed, as `get` does not."""

    def __init__(self, pairs: Iterable[tuple[str, str]], url: str = "") -> None:
        super().__init__()
        self._url = url
        for label, value in pairs:
            self.setdefault(label, value)

    def __missing__(self, label: str) -> str:
        raise self._lacks([repr(label)])

    def fields(self, labels: Labels) -> dict[str, str]:
        """Values by field, where a field has one label or, for several layouts, the first of some that is there.

        Raises Failed layout_changed that names every label that is missing.
        """
        values: dict[str, str] = {}
        missing: list[str] = []
        for field, asked in labels.items():
            names = (asked,) if isinstance(asked, str) else tuple(asked)
            for name in names:
                if name in self:
                    values[field] = self[name]
                    break
            else:
                missing.append(" or ".join(map(repr, names)))
        if missing:
            raise self._lacks(missing)
        return values

    def _lacks(self, missing: list[str]) -> Failed:
        known = ", ".join(map(repr, list(self)[:_LABELS_SHOWN])) or "none"
        message = f"the page {redacted(self._url)} has no label {', '.join(missing)}; it has {known}"
        return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, message))


def read_pairs(nodes: Sequence[LexborNode]) -> list[tuple[str, str]]:
    """All pairs in these nodes: those of rows, lists and labels in the order of the page, then those found in text."""
    pairs: list[tuple[str, str]] = []
    for node in nodes:
        parent: LexborNode | None = None
        too_deep = False
        for found in node.css(_LABELLED):
            # Neighbours are equally deep, and most are neighbours.
            if parent is None or (found.parent is not None and found.parent.mem_id != parent.mem_id):
                parent = found.parent
                too_deep = _is_too_deep(found, node)
            if too_deep:
                continue
            if found.tag == "tr":
                pairs += _row_pairs(found)
            elif found.tag == "dt":
                pairs.append((_label_text(text_in(found)), _definition(found)))
            else:
                pairs += _label_pair(found)
    for node in nodes:
        if ":" in (node.text() or ""):
            pairs += _text_pairs(node)
    return pairs


def _text_pairs(node: LexborNode) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for at in node.traverse(include_text=True):
        if at.is_text_node and ":" in (text := at.text_content or ""):
            pairs += _text_pair(at, text)
    return pairs


def _is_too_deep(found: LexborNode, container: LexborNode) -> bool:
    """Text in boxes in boxes would be read once per box: a page that nests without end would take as long."""
    at: LexborNode | None = found
    for _ in range(_DEEPEST):
        if at is None or at.mem_id == container.mem_id:
            return False
        at = at.parent
    return True


def _label_text(label: str) -> str:
    return label.rstrip(": ")


def _row_pairs(row: LexborNode) -> list[tuple[str, str]]:
    cells = [cell for cell in row.iter() if cell.tag in _CELLS]
    if len(cells) == 2 and cells[0].tag == "th" and cells[1].tag == "td":
        return [(_label_text(text_in(cells[0])), text_in(cells[1]))]
    labels, values = cells[::2], cells[1::2]
    if not cells or len(labels) != len(values) or any(value.tag == "th" for value in values):
        return []
    if any(label.tag != "th" for label in labels):
        if _holds_table(cells) or _is_in_grid(row):
            return []
        # Two cells side by side are a pair; of more, who knows, unless each label says that it is one.
        if len(cells) > 2 and not all(label.tag == "th" or text_in(label).endswith(":") for label in labels):
            return []
    return [(_label_text(text_in(label)), text_in(value)) for label, value in zip(labels, values, strict=True)]


def _is_in_grid(row: LexborNode) -> bool:
    """Whether the table has headings above its columns, so that two cells side by side are no label and value."""
    table = row.parent
    if table is not None and table.tag != "table":
        table = table.parent
    for group in table.iter() if table is not None else ():
        heads = [group] if group.tag == "tr" else list(islice(group.iter(), _HEADS if group.tag == "thead" else 1))
        tags = [[cell.tag for cell in head.iter()] for head in heads if head.tag == "tr"]
        if tags:
            return any(len(row_tags) > 1 and set(row_tags) == {"th"} for row_tags in tags)
    return False


def _holds_table(cells: list[LexborNode]) -> bool:
    """A row that only places other tables side by side."""
    return any(cell.first_child is not None and cell.css_first("table") is not None for cell in cells)


def _definition(term: LexborNode) -> str:
    """All that is said of a term; of several terms in a row, each has what follows the last."""
    values: list[str] = []
    at = term.next
    for _ in range(_LOOKS_AHEAD):
        if at is None or (at.tag == "dt" and values):
            break
        if at.tag == "dd":
            values.append(text_in(at))
        at = at.next
    return " ".join(values)


def _label_pair(label: LexborNode) -> list[tuple[str, str]]:
    text = text_in(label)
    value = _value_after(label.next) or _value_beyond(label, text)
    has_colon = text.endswith(":") or value.startswith(":")
    # Words in bold are labels only if they say so; labels and what is classed as such need no colon, but a value.
    if _label_text(text) and (has_colon or (value and label.tag not in _NEEDS_COLON)):
        return [(_label_text(text), value.lstrip(": "))]
    return []


def _text_pair(at: LexborNode, text: str) -> list[tuple[str, str]]:
    parent = at.parent
    if parent is not None and parent.tag in _NO_PROSE:
        return []
    found = _IN_TEXT.fullmatch(text)
    if found is None:
        return []
    label = collapsed(found[1])
    value = _value_after(at.next, found[2]) or _value_beyond(at, f"{label}:")
    return [(label, value)] if value else []


def _value_after(at: LexborNode | None, begun: str = "") -> str:
    """What was begun, and the text up to the end of the line or the next label; a block only if it comes first."""
    value = begun
    for _ in range(_LOOKS_AHEAD):
        if at is None:
            break
        has_begun = bool(value.strip(": \n\t\r\xa0"))
        if at.is_text_node:
            text = at.text_content or ""
            if has_begun and ":" in text and _IN_TEXT.fullmatch(text):
                break
            value += text
        elif at.tag in _CONTROLS or _is_label(at) or (has_begun and at.tag in BREAKING):
            break
        elif at.tag in BREAKING:
            value += text_in(at)
        elif at.tag not in UNSEEN:
            value += at.text() or ""
        at = at.next
    return collapsed(value)


def _value_beyond(label: LexborNode, text: str) -> str:
    """What stands behind the element that holds nothing but the label: the next column of a layout made of boxes."""
    for _ in range(_CLIMBS):
        parent = label.parent
        if parent is None or not text.endswith(":") or not (_is_blank(label.prev) and _is_blank(label.next)):
            return ""
        label = parent
        if value := _value_after(label.next):
            return value
    return ""


def _is_blank(sibling: LexborNode | None) -> bool:
    """Whether there is nothing on that side but white space."""
    return sibling is None or (sibling.is_text_node and not (sibling.text_content or "").strip())


def _is_label(node: LexborNode) -> bool:
    if node.tag in _NEEDS_COLON:
        return text_in(node).endswith(":")
    return node.tag in {"label", "dt"} or not _LABEL_CLASSES.isdisjoint((node.attributes.get("class") or "").split())

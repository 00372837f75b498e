"""Figures as tables: for a terminal, and inside a Markdown page between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["NO_HEAD", "Row", "Section", "as_text", "marks", "put_into"]

Row = tuple[str, ...]
Section = tuple[Row, Sequence[Row]]

NO_HEAD: Final = ("", "")


def marks(kind: str = "figures") -> tuple[str, str]:
    """Between which of its lines a page has such figures."""
    return f"<!-- {kind}: begin -->", f"<!-- {kind}: end -->"


def as_text(sections: Sequence[Section]) -> str:
    """For a terminal: columns side by side."""
    blocks = []
    for head, rows in sections:
        lines = [row for row in (head, *rows) if any(row)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
        blocks.append("\n".join("  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in lines))
    return "\n\n".join(blocks)


def put_into(page: Path, sections: Sequence[Section], kind: str = "figures") -> None:
    """Replaces what stands between the marks of a page."""
    first, last = marks(kind)
    before, begin, rest = page.read_text(encoding="utf-8").partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise SystemExit(f"{page} has no place for figures: {first} … {last}")
    lines: list[str] = []
    for head, rows in sections:
        lines += ["", _line(head), "|" + "---|" * len(head), *map(_line, rows)]
    page.write_text("\n".join([before + begin, *lines, "", end + after]), encoding="utf-8")


def _line(cells: Row) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")

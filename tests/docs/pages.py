"""Reads the project's pages: their fenced blocks with the marks above them, links, tables and inline code.

A mark is a comment on the lines right above a block. `file: NAME` writes the block to a file, `exits: N` expects that
exit code, `run as: COMMAND` runs something else in its place, and `not run: REASON` leaves it out and is counted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

__all__ = [
    "AS_ROOT",
    "ON_AWS",
    "PAGES",
    "ROOT",
    "Block",
    "Mark",
    "blocks_of",
    "code_in",
    "prose_of",
    "rows_of",
    "section_of",
]

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ["README.md", "SECURITY.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]

# Their blocks need the AWS servers: tests/integration/aws/test_how_to.py follows them.
ON_AWS: Final = ["docs/how-to/run-on-aws.md"]
# Theirs need root and make users: tests/docs/test_service_page.py follows them.
AS_ROOT: Final = ["docs/how-to/run-as-a-service.md"]

_FENCE: Final = re.compile(r"^```(?P<language>\S*)\s*$")
_MARK: Final = re.compile(r"^<!-- (?P<name>file|exits|run as|not run): (?P<value>.+?) -->$")
_CELL_BREAK: Final = re.compile(r"(?<!\\)\|")


class Mark(NamedTuple):
    """What is to be done with a block."""

    name: str
    value: str


class Block(NamedTuple):
    """One fenced block. `line` is that of its opening fence."""

    language: str
    text: str
    line: int
    marks: tuple[Mark, ...] = ()

    def mark(self, name: str) -> str | None:
        """The value of a mark, if the block has it."""
        return next((mark.value for mark in self.marks if mark.name == name), None)


def blocks_of(markdown: str) -> list[Block]:
    """All fenced blocks in order; a block that is never closed is an error of the page."""
    blocks: list[Block] = []
    marks: list[Mark] = []
    opened: tuple[str, int] | None = None
    held: list[str] = []
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened is not None:
            if line == "```":
                blocks.append(Block(opened[0], "\n".join(held) + "\n", opened[1], tuple(marks)))
                opened, held, marks = None, [], []
            else:
                held.append(line)
        elif fence is not None:
            opened = fence["language"], number
        elif found := _MARK.match(line):
            marks.append(Mark(found["name"], found["value"]))
        elif line:
            assert not marks, f"line {number}: the mark {marks[-1]} stands above no block"
    assert opened is None, f"a block is never closed: {opened}"
    return blocks


def prose_of(markdown: str) -> str:
    """The page without its blocks and comments."""
    without_blocks = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"<!--.*?-->", "", without_blocks, flags=re.DOTALL)


def code_in(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", text)


def section_of(markdown: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    start = markdown.index(f"\n{heading}\n")
    end = re.compile(rf"^#{{1,{level}}} ", re.MULTILINE).search(markdown, start + len(heading) + 2)
    return markdown[start : end.start() if end else None]


def rows_of(markdown: str) -> list[list[str]]:
    """The cells of all table rows, but for header and ruler."""
    rows: list[list[str]] = []
    lines = markdown.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        is_header = re.fullmatch(r"\|[-| :]+\|", following) is not None
        if line.startswith("|") and not is_header and re.fullmatch(r"\|[-| :]+\|", line) is None:
            rows.append([cell.strip() for cell in _CELL_BREAK.split(line)[1:-1]])
    return rows

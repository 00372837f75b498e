"""Rows of a JSON array or of JSON Lines. Comes before: the checker. Text comes from text.py, a block at a time.

The array is scanned through a window that holds little more than one row, so its length does not matter.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from swath.domain.errors import BadInput
from swath.pipeline.accept.rows import ROW_LIMIT_CHARS, BadRow, Row
from swath.pipeline.accept.strict_json import DECODER, VALUES_LIMIT, Refused, depth_of, has_more_values
from swath.pipeline.accept.text import Lines

__all__ = ["DEPTH_LIMIT", "json_array_rows", "json_lines_rows"]

DEPTH_LIMIT: Final = 100

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TOO_DEEP: Final = f"is nested more than {DEPTH_LIMIT} deep"
_TOO_MANY: Final = f"has more than {VALUES_LIMIT:,} values"
_TOO_LONG: Final = f"is longer than {ROW_LIMIT_CHARS:,} characters"


# Finds where a refused value ends, so that reading can go on behind it.
_LENIENT: Final = json.JSONDecoder(parse_float=str, parse_int=str)


class _Marks(NamedTuple):
    """How many of them a row's text has: with few [ and { it cannot be nested deep, with few commas not have much."""

    brackets: int
    commas: int

    @classmethod
    def of(cls, text: str, start: int = 0, end: int = sys.maxsize) -> _Marks:
        """Those between two places of the text."""
        return cls(text.count("[", start, end) + text.count("{", start, end), text.count(",", start, end))


def _row(number: int, line: int, value: object, marks: _Marks) -> Row | BadRow:
    if not isinstance(value, dict):
        return BadRow(number, line, "is not an object; write {…} with the fields of the input")
    if marks.brackets > DEPTH_LIMIT and depth_of(value) > DEPTH_LIMIT:
        return BadRow(number, line, _TOO_DEEP)
    if sum(marks) > VALUES_LIMIT and has_more_values(value, VALUES_LIMIT):
        return BadRow(number, line, _TOO_MANY)
    return Row(number, line, value)


def json_lines_rows(name: str, lines: Lines) -> Iterator[Row | BadRow]:
    """One value a line; a line that is not JSON is that row's error only. Blank lines are not counted."""
    number, line = 0, 0
    for block in lines:
        for text in block:
            line += 1
            if text.isspace():
                if line not in lines.oversized:
                    continue
                number += 1
                yield BadRow(number, line, _TOO_LONG)
                continue
            number += 1
            if number == 1 and text.lstrip().startswith("["):
                raise BadInput(f"{name}: line {line}: begins a JSON array, not JSON Lines; say --format json")
            yield _line_row(number, line, text)


def _line_row(number: int, line: int, text: str) -> Row | BadRow:
    try:
        return _row(number, line, DECODER.decode(text), _Marks.of(text))
    except json.JSONDecodeError as error:
        return BadRow(number, line, f"is not valid JSON: {error.msg} at column {error.colno}")
    except Refused as error:
        return BadRow(number, line, str(error))
    except RecursionError:
        return BadRow(number, line, _TOO_DEEP)


def json_array_rows(name: str, blocks: Iterator[str]) -> Iterator[Row | BadRow]:
    """The elements of one array. Raises BadInput where the text stops being JSON."""
    window = _Window(name, blocks)
    if window.next_char() != "[":
        hint = "for one object per line say --format jsonl" if window.next_char() == "{" else "write [{…}, {…}]"
        raise BadInput(f"{name}: line {window.line}: is not a JSON array; {hint}")
    number = 0
    window.position += 1
    while (char := window.next_char()) != "]":
        if number:
            if char != ",":
                raise window.wrong("',' or ']' is missing here" if char else "ends in the middle; the file was cut off")
            window.position += 1
            window.next_char()
        number += 1
        line = window.line
        value = window.value()
        if isinstance(value, Refused):
            yield BadRow(number, line, str(value))
        else:
            yield _row(number, line, value, window.marks)
    window.position += 1
    if window.next_char():
        raise window.wrong("something follows after the end of the array; remove it")


class _Window:
    """The part of the text that is being looked at. `line` is the physical line of `position`.

    `marks` are those of the latest value.
    """

    def __init__(self, name: str, blocks: Iterator[str]) -> None:
        self._name = name
        self._blocks = blocks
        self._text = ""
        self._ended = False
        self.position = 0
        self.line = 1
        self.marks = _Marks(0, 0)

    def wrong(self, what: str) -> BadInput:
        """The error for what is at the present position."""
        return BadInput(f"{self._name}: line {self.line}: {what}")

    def next_char(self) -> str:
        """The next character that is not white space, which stays the next; "" at the end."""
        while True:
            found = _SPACE.match(self._text, self.position)
            self._go_to(found.end() if found else self.position)
            if self.position < len(self._text) or self._ended:
                return self._text[self.position : self.position + 1]
            self._grow()

    def _go_to(self, position: int) -> None:
        self.line += self._text.count("\n", self.position, position)
        self.position = position

    def _grow(self) -> None:
        block = next(self._blocks, "")
        self._ended = not block
        self._text = self._text[self.position :] + block
        self.position = 0

    def value(self) -> object:
        """Takes one value, or the reason why it is refused, and moves behind it."""
        while True:
            try:
                value, end = self._decode()
            except json.JSONDecodeError as error:
                if self._ended or len(self._text) - self.position > ROW_LIMIT_CHARS:
                    raise self._broken(error) from None
            except RecursionError:
                raise self.wrong(_TOO_DEEP) from None
            else:
                if end - self.position > ROW_LIMIT_CHARS:
                    raise self.wrong(f"this element {_TOO_LONG}")
                if end < len(self._text) or self._ended:  # else a number may go on in the next block
                    self.marks = _Marks.of(self._text, self.position, end)
                    self._go_to(end)
                    return value
            self._grow()

    def _decode(self) -> tuple[object, int]:
        try:
            return DECODER.raw_decode(self._text, self.position)
        except Refused as refused:
            return refused, _LENIENT.raw_decode(self._text, self.position)[1]

    def _broken(self, error: json.JSONDecodeError) -> BadInput:
        # A little before the end counts as the end: an escape or a literal may have been cut.
        at_the_end = error.msg.startswith("Unterminated") or error.pos >= len(self._text.rstrip()) - 8 * (
            not self._ended
        )
        if at_the_end:
            cut_off = "is not finished; the file was cut off"
            return self.wrong(f"this element {cut_off if self._ended else _TOO_LONG}")
        self._go_to(error.pos)
        return self.wrong(f"is not valid JSON: {error.msg}")

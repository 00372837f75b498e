"""Reads rows of JSON Lines or of a JSON array, one in memory at a time; and decodes strict JSON, also for the API.

Strict JSON refuses what two parsers could read differently: repeated keys, NaN, lone surrogates, huge numbers.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from swath.domain.errors import BadInput
from swath.domain.validation_messages import display_value
from swath.pipeline.ingest.sources.decoding import TextLines
from swath.pipeline.ingest.sources.rows import ROW_LIMIT_CHARS, BadRow, InputRow

__all__ = [
    "DEPTH_LIMIT",
    "STRICT_DECODER",
    "VALUES_LIMIT",
    "DisallowedJson",
    "has_lone_surrogate",
    "has_more_values",
    "json_array_rows",
    "json_lines_rows",
    "nesting_depth",
]

VALUES_LIMIT: Final = 10_000  # of one item: a model that refuses them all must not take long to say so


class DisallowedJson(ValueError):
    """Well-formed, and still nothing that an item may hold."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise DisallowedJson(f"has the key {display_value(twice)} twice")
    return made


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise DisallowedJson(f"has a number that is too large ({text[:20]}); write it as text")
    return number


def _whole(text: str) -> int:
    if len(text) > 40:  # beyond what any back end stores as a number
        raise DisallowedJson(f"has a number of {len(text)} digits; write it as text")
    return int(text)


def _constant(text: str) -> None:
    raise DisallowedJson(f"has {text}, which is not JSON; write null or text")


STRICT_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_int=_whole, parse_constant=_constant
)


def nesting_depth(value: object) -> int:
    """How deep lists and objects are nested."""
    depth, level = 0, [value]
    while level := [inner for outer in level for inner in _inside(outer)]:
        depth += 1
    return depth


def has_more_values(value: object, limit: int) -> bool:
    """Whether all lists and objects in it have more values than that, together. Looks no further than it must."""
    found, level = 0, [value]
    while level:
        found += sum(len(one) for one in level if isinstance(one, dict | list))
        if found > limit:
            return True
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
    return False


def has_lone_surrogate(value: object) -> bool:
    """Whether a text in it, or a key, has half of a surrogate pair, which is no character."""
    level = [value]
    while level:
        for one in level:
            if isinstance(one, str) and not one.isascii() and not _is_text(one):
                return True
        keys = [key for one in level if isinstance(one, dict) for key in one]
        level = [*keys, *(inner for outer in level for inner in _inside(outer))]
    return False


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


DEPTH_LIMIT: Final = 100

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TOO_DEEP: Final = f"is nested more than {DEPTH_LIMIT} deep"
_TOO_MANY: Final = f"has more than {VALUES_LIMIT:,} values"
_TOO_LONG: Final = f"is longer than {ROW_LIMIT_CHARS:,} characters"


# Finds where a refused value ends, so that reading can go on behind it.
_LENIENT: Final = json.JSONDecoder(parse_float=str, parse_int=str)


class _StructureCounts(NamedTuple):
    """How many of them a row's text has: with few [ and { it cannot be nested deep, with few commas not have much."""

    brackets: int
    commas: int

    @classmethod
    def of(cls, text: str, start: int = 0, end: int = sys.maxsize) -> _StructureCounts:
        """Those between two places of the text."""
        return cls(text.count("[", start, end) + text.count("{", start, end), text.count(",", start, end))


def _row(number: int, line: int, value: object, marks: _StructureCounts) -> InputRow | BadRow:
    if not isinstance(value, dict):
        return BadRow(number, line, "is not an object; write {…} with the fields of the input")
    if marks.brackets > DEPTH_LIMIT and nesting_depth(value) > DEPTH_LIMIT:
        return BadRow(number, line, _TOO_DEEP)
    if sum(marks) > VALUES_LIMIT and has_more_values(value, VALUES_LIMIT):
        return BadRow(number, line, _TOO_MANY)
    return InputRow(number, line, value)


def json_lines_rows(name: str, lines: TextLines) -> Iterator[InputRow | BadRow]:
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


def _line_row(number: int, line: int, text: str) -> InputRow | BadRow:
    try:
        return _row(number, line, STRICT_DECODER.decode(text), _StructureCounts.of(text))
    except json.JSONDecodeError as error:
        return BadRow(number, line, f"is not valid JSON: {error.msg} at column {error.colno}")
    except DisallowedJson as error:
        return BadRow(number, line, str(error))
    except RecursionError:
        return BadRow(number, line, _TOO_DEEP)


def json_array_rows(name: str, blocks: Iterator[str]) -> Iterator[InputRow | BadRow]:
    """The elements of one array. Raises BadInput where the text stops being JSON."""
    window = _TextWindow(name, blocks)
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
        if isinstance(value, DisallowedJson):
            yield BadRow(number, line, str(value))
        else:
            yield _row(number, line, value, window.marks)
    window.position += 1
    if window.next_char():
        raise window.wrong("something follows after the end of the array; remove it")


class _TextWindow:
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
        self.marks = _StructureCounts(0, 0)

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
                    self.marks = _StructureCounts.of(self._text, self.position, end)
                    self._go_to(end)
                    return value
            self._grow()

    def _decode(self) -> tuple[object, int]:
        try:
            return STRICT_DECODER.raw_decode(self._text, self.position)
        except DisallowedJson as refused:
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

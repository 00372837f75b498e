"""Reads a recorder's JSON strictly: each key once, finite numbers, valid text; and the fields of one step by type.

Keeps track of the fields that were not asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from swath.domain.errors import BadInput

__all__ = ["MOST_CHARS", "RecorderFields", "read_json", "read_json_lines"]

MOST_CHARS: Final = 16 << 20
_DEEPEST: Final = 64
_MOST_DIGITS: Final = 100


def read_json(text: str, name: str, *, line: int | None = None) -> Any:
    """Raises BadInput, in one line with the place. `line`: the text is that one of a file."""
    where = name if line is None else f"{name}: line {line}"
    if len(text) > MOST_CHARS:
        raise BadInput(f"{where}: is larger than 16 MiB, which no recording is; name the right file")
    try:
        document = json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_float=_float,
            parse_int=_int,
        )
        if _depth(document) > _DEEPEST:
            raise RecursionError
        json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        early = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        end = "; it ends too early: export it again" if early else ""
        raise BadInput(
            f"{name}: line {error.lineno if line is None else line}: is not valid JSON: {error.msg}{end}"
        ) from None
    except UnicodeEncodeError:
        raise BadInput(f"{where}: has half a character (a lone surrogate) in a text; export it again") from None
    except RecursionError:
        raise BadInput(f"{where}: is nested too deep for a recording") from None
    except ValueError as error:
        raise BadInput(f"{where}: {error}") from None
    return document


def read_json_lines(text: str, name: str) -> list[Any]:
    """One document a line; empty lines are passed over. Raises BadInput."""
    lines = enumerate(text.removeprefix("\ufeff").split("\n"), 1)
    return [read_json(one, name, line=number) for number, one in lines if one.strip()]


def _depth(document: Any) -> int:
    depth, level = 0, [document]
    while level:
        depth += 1
        inside = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list)))
        level = [part for parts in inside for part in parts]
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)[:100]!r} is there twice")
    return made


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"has {word}, which is no number")


def _int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"has {digits[:20]}…, a number of {len(digits):,} digits, which cannot be used")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"has {digits[:50]}, which is no number that can be used")
    return number


class RecorderFields:
    """`place` names the step in errors. A field that is null counts as one that is not there."""

    def __init__(self, given: dict[str, Any], place: str) -> None:
        self.place = place
        self._left = {name: value for name, value in given.items() if value is not None}

    def text(self, name: str) -> str | None:
        """A text, if it is there."""
        value = self._left.pop(name, None)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "is not a text")
        return value

    def number(self, name: str) -> float | None:
        """A number, if it is there."""
        value = self._left.pop(name, None)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.wrong(name, "is not a number")
        return value

    def flag(self, name: str) -> bool | None:
        """True or false, if it is there."""
        value = self._left.pop(name, None)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "is neither true nor false")
        return value

    def choice(self, name: str, among: Sequence[str]) -> str | None:
        """One of some words, if it is there."""
        value = self.text(name)
        if value is not None and value not in among:
            raise self.wrong(name, f"is {value!r}, not one of {', '.join(among)}")
        return value

    def needed_text(self, name: str) -> str:
        """A text, which must be there."""
        value = self.text(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def needed_number(self, name: str) -> float:
        """A number, which must be there."""
        value = self.number(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def needed_flag(self, name: str) -> bool:
        """True or false, which must be there."""
        value = self.flag(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def anything(self, name: str) -> Any:
        """Whatever is there."""
        return self._left.pop(name, None)

    def leave(self, given: dict[str, Any]) -> None:
        """Puts in what was inside of another field, and nobody asks for."""
        self._left |= {name: value for name, value in given.items() if value is not None}

    def rest(self) -> dict[str, Any]:
        """What nobody has asked for."""
        return dict(self._left)

    def wrong(self, name: str, why: str) -> BadInput:
        """An error of that field."""
        return BadInput(f"{self.place}: {name} {why}" if self.place else f"{name} {why}")

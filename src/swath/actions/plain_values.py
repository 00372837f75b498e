"""A document as plain values: what JSON or YAML says, bounded and without what no recording has.

Before: the text. After: document.py makes a Recording of it.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

import yaml

from swath.actions.checking.problem import Problem
from swath.actions.explaining import place_of
from swath.sites.strict_yaml import parse_yaml

__all__ = ["MOST_CHARS", "plain_values"]

MOST_CHARS: Final = 1 << 20
_DEEPEST: Final = 32
_MOST_VALUES: Final = 50_000
_MOST_DIGITS: Final = 100  # of a whole number, as in YAML

_Path = tuple[int | str, ...]


def plain_values(text: str, *, is_json: bool) -> object:
    """What the text says. Raises ValueError, with the line or the place."""
    if len(text) > MOST_CHARS or len(text.encode("utf-8", "surrogatepass")) > MOST_CHARS:
        raise ValueError("is larger than 1 MiB, which no recording is; name the right file")
    if text.startswith("\ufeff"):
        raise ValueError("begins with a byte order mark; save it as UTF-8 without one")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(f"line {line}: has a NUL character; save it as UTF-8 text")
    try:
        content = _from_json(text) if is_json else parse_yaml(text, most_values=_MOST_VALUES)
    except RecursionError:
        raise ValueError(f"is nested deeper than {_DEEPEST} levels") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: is no valid JSON: {error.msg}") from None
    except yaml.MarkedYAMLError as error:
        line_there = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{line_there}{error.problem or 'is no valid YAML'}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = (
            f"has the character U+{ord(text[error.position]):04X}" if error.position < len(text) else str(error.reason)
        )
        raise ValueError(f"line {line}: {what}, which YAML does not allow; write it in double quotes as \\u…") from None
    _check(content, (), content)
    return content


def _from_json(text: str) -> object:
    if not text.strip():
        return None
    return json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_int=_whole)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"the key {name[:60]!r} is there twice")
        made[name] = value
    return made


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"has a number of {len(digits):,} digits, {digits[:20]}…; at most {_MOST_DIGITS}")
    return int(digits)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"has {constant}, which is no number")


def _check(value: object, path: _Path, content: object) -> None:
    """Only what JSON has, not too deep, and only text that can be stored."""
    if len(path) > _DEEPEST:
        raise ValueError(f"is nested deeper than {_DEEPEST} levels")
    objection = _objection(value)
    if objection is not None:
        raise ValueError(str(Problem(place_of(path, content), objection)))
    if isinstance(value, dict):
        for key, part in value.items():
            objection = _objection(key) if isinstance(key, str) else f"the name {key!r} is no text; write it in quotes"
            if objection is not None:
                raise ValueError(str(Problem(place_of(path, content), objection)))
            _check(part, (*path, key), content)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            _check(part, (*path, number), content)


def _objection(value: object) -> str | None:
    match value:
        case str():
            if "\0" in value:
                return "has a NUL character; take it out"
            try:
                value.encode()
            except UnicodeEncodeError:
                return "has half a character (a lone surrogate); take it out"
        case float() if not math.isfinite(value):
            return "must be a finite number"
        case None | bool() | int() | float() | dict() | list():
            return None
        case _:
            return "is neither text, a number, a list nor a mapping; write it in quotes"
    return None

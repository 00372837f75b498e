"""JSON of a recorder's file: whole, each key once, numbers that are numbers, text that is text."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from swath.domain.errors import BadInput

__all__ = ["MOST_CHARS", "read_json", "read_json_lines"]

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

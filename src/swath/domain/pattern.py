"""Patterns that people write in YAML: whether one is a regular expression, and one that ends.

Used by domain/site.py when a policy is loaded. A site chooses the text that is searched, so that a pattern which can
be led astray is refused before it meets one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants, _parser  # type: ignore[attr-defined]  # the parser of patterns has no public name
from typing import Any, Final

__all__ = ["objection_to"]

_MANY: Final = 20  # times; what is repeated less often, even twice over, ends soon enough
_BACKTRACKING: Final = frozenset({_constants.MAX_REPEAT, _constants.MIN_REPEAT})
_FIRM: Final = frozenset({_constants.POSSESSIVE_REPEAT, _constants.ATOMIC_GROUP})  # what they took, they keep


def objection_to(pattern: str) -> str | None:
    """Why the pattern cannot be used; None when it can."""
    try:
        re.compile(pattern)
        parsed = _parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is no regular expression: {error}"
    if _runs_away(parsed, within=False):
        return "repeats what is a repeat itself, like (a+)+, which can take for ever; make the inner one firm: (a++)+"
    return None


def _runs_away(parsed: Any, *, within: bool) -> bool:
    """Whether a repeat that may take more or less stands in one that is done many times."""
    for operator, argument in parsed:
        often = False
        if operator in _BACKTRACKING:
            least, most = int(argument[0]), int(argument[1])
            if within and most > _MANY and least != most:
                return True
            often = most > _MANY
        inner = within and operator not in _FIRM
        if any(_runs_away(part, within=inner or often) for part in _parts(argument)):
            return True
    return False


def _parts(argument: Any) -> Iterator[Any]:
    """The patterns in what an operator applies to."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for part in argument:
            yield from _parts(part)

"""Patterns that people write in YAML: whether one is a regular expression, and one that ends.

Used by domain/site.py when a policy is loaded. A site chooses the text that is searched, so that a pattern which can
be led astray is refused before it meets one.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["objection_to"]

_constants, _parser = map(importlib.import_module, ("re._constants", "re._parser"))  # they have no public names

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
        return "can take for ever, like (a+)+ and (.|\\s)*; make what is inside firm, as in (a++)+, or a set: [\\s\\S]*"
    return None


def _runs_away(parsed: Any, *, within: bool) -> bool:
    """Whether in something done many times there is a repeat that may take more or less, or a choice between equals."""
    for operator, argument in parsed:
        often = False
        if operator in _BACKTRACKING:
            least, most = int(argument[0]), int(argument[1])
            if within and most > _MANY and least != most:
                return True
            often = most > _MANY
        if within and operator is _constants.BRANCH and _are_alike(argument[1]):
            return True
        inner = within and operator not in _FIRM
        if any(_runs_away(part, within=inner or often) for part in _parts(argument)):
            return True
    return False


def _are_alike(choices: list[Any]) -> bool:
    """Whether two of them can begin with the same character: after the parser, only with nothing at all or a dot."""
    first = [choice[0] if len(choice) else None for choice in choices]
    newline = (_constants.LITERAL, ord("\n"))
    dots = [one for one in first if one is not None and one[0] is _constants.ANY]
    return first.count(None) > 1 or (bool(dots) and any(one not in (dots[0], newline) for one in first))


def _parts(argument: Any) -> Iterator[Any]:
    """The patterns in what an operator applies to."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for part in argument:
            yield from _parts(part)

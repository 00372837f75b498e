"""The marks of a value, and what became of each: `1234.50` is `1,234.50` without its commas, however long the value.

Used by forms.py, before a value is cut by the places of its letters and digits, which fits values of one length only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from swath.actions.language.template import Call

__all__ = ["cased", "marks_of", "rewritten", "without"]


def marks_of(text: str) -> tuple[str, ...]:
    """Each once, in the order in which they come."""
    return tuple(dict.fromkeys(character for character in text if not character.isalnum()))


def without(marks: tuple[str, ...]) -> tuple[Call, ...]:
    """Filters that take the marks away."""
    return tuple(Call("replace", (mark, "")) for mark in marks)


def rewritten(literal: str, text: str) -> tuple[Call, ...] | None:
    """Filters that make the text of the value: every mark stays, goes, or is another one, wherever it stands. The
    fewest that do; None when there are none."""
    for calls in sorted(_ways(marks_of(literal), marks_of(text)), key=len):
        made = literal
        for call in calls:
            old, new = call.arguments
            made = made.replace(str(old), str(new))
        case = cased(made, text)
        if case is not None:
            return (*calls, *case)
    return None


def cased(recorded: str, text: str) -> tuple[Call, ...] | None:
    """Filters that lead from one to the other, if they differ at most in capitals."""
    if text == recorded:
        return ()
    if text == recorded.upper():
        return (Call("upper"),)
    return (Call("lower"),) if text == recorded.lower() else None


def _ways(marks: tuple[str, ...], there: tuple[str, ...]) -> Iterator[tuple[Call, ...]]:
    for chosen in itertools.product(*(dict.fromkeys((mark, "", *there)) for mark in marks)):
        yield tuple(Call("replace", (old, new)) for old, new in zip(marks, chosen, strict=True) if old != new)

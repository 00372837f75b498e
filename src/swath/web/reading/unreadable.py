"""Unreadable: a text that is not what it should be, such as an amount or a date.

A ValueError for models, which collect them by field; a Failed for `extract`, where it ends the attempt as it should.
"""

from __future__ import annotations

from typing import Final

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["Unreadable", "is_missing", "value_in"]

_SHOWN_CHARS: Final = 40
_LONGEST_CHARS: Final = 100
_MISSING: Final = frozenset(
    {"", "-", "--", "---", "\u2013", "\u2014", "\u2212", "n/a", "na", "none", "null", "not available"}
)


class Unreadable(Failed, ValueError):
    """Carries invalid_output, and the beginning of the text."""

    def __init__(self, text: str, wanted: str) -> None:
        super().__init__(Failure.of(FailureKind.INVALID_OUTPUT, f"{text[:_SHOWN_CHARS]!r} is no {wanted}"))

    def __str__(self) -> str:
        return self.failure.message


def is_missing(text: str) -> bool:
    """Whether a text is one of those with which sites say that there is no value: a dash, `N/A`, nothing at all."""
    return " ".join(text.split()).lower() in _MISSING


def value_in(text: str | None, wanted: str) -> str | None:
    """The text in one line, None when it says that there is no value. Raises Unreadable when it is as long as a page.

    A pattern may take very long over a long text, and nothing could interrupt it.
    """
    if text is None or is_missing(text):
        return None
    if len(flat := " ".join(text.split())) > _LONGEST_CHARS:
        raise Unreadable(text, wanted)
    return flat

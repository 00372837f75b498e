"""Filters: what a template does to a value on its way: `{{ input.parcel_id | digits | slice(0, 3) }}`.

A closed table of pure functions of text. Their arguments are looked at when a recording is validated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote, quote_plus

import msgspec

from swath.domain.pattern import TookTooLong, objection_to, search

__all__ = ["FILTERS", "Argument", "Filter", "apply", "objection_to_call"]

Argument = str | int

_MOST_CHARS: Final = 10_000
_MOST_MADE: Final = 1_000_000
_MOST_PAD: Final = 1_000


class Filter(msgspec.Struct, frozen=True):
    """`kinds`: of its arguments; those from `least` on may be left out. `about` is for people."""

    do: Callable[..., str]
    kinds: tuple[type[Any], ...] = ()
    least: int = 0
    about: str = ""


def _slice(text: str, start: int, end: int | None = None) -> str:
    return text[start:end]


def _split(text: str, separator: str, index: int) -> str:
    pieces = text.split(separator) if separator else text.split()
    if not -len(pieces) <= index < len(pieces):
        raise ValueError(f"has {len(pieces)} parts between {separator!r}, and number {index} is asked for")
    return pieces[index]


def _regex(text: str, pattern: str, group: int = 0) -> str:
    found = search(pattern, text[:_MOST_CHARS])
    if found is None:
        raise ValueError(f"does not match {pattern!r}")
    return found[group] or ""


def _replace(text: str, old: str, new: str) -> str:
    if len(text) + text.count(old) * (len(new) - len(old)) > _MOST_MADE:
        raise ValueError(f"would have more than {_MOST_MADE:,} characters")  # a few in a row could make any number
    return text.replace(old, new)


def _pad(text: str, width: int, fill: str = "0") -> str:
    return text.rjust(width, fill[:1] or "0")


def _url(text: str) -> str:
    return quote(text, safe="", errors="replace")


def _url_plus(text: str) -> str:
    return quote_plus(text, errors="replace")


def _default(text: str, other: str) -> str:
    return text or other


FILTERS: Final[dict[str, Filter]] = {
    "digits": Filter(lambda text: re.sub(r"[^0-9]", "", text), about="only the digits"),
    "letters": Filter(lambda text: re.sub(r"[^A-Za-z]", "", text), about="only the letters A to Z"),
    "upper": Filter(str.upper, about="in capital letters"),
    "lower": Filter(str.lower, about="in small letters"),
    "trim": Filter(str.strip, about="without white space at its ends"),
    "slice": Filter(_slice, (int, int), 1, "from one position up to another, counted from 0; negative from the end"),
    "split": Filter(_split, (str, int), 2, "one of the parts between a separator, counted from 0"),
    "regex": Filter(_regex, (str, int), 1, "what a regular expression finds, or one of its groups"),
    "replace": Filter(_replace, (str, str), 2, "with every occurrence of a text replaced by another"),
    "pad": Filter(_pad, (int, str), 1, "filled up at its beginning to a width, with zeros unless said otherwise"),
    "default": Filter(_default, (str,), 1, "another text in the place of an empty one"),
    "url": Filter(_url, about="percent-encoded, for a part of an address"),
    "url_plus": Filter(_url_plus, about="the same, with + for a space, as forms send it"),
}


def objection_to_call(name: str, arguments: Sequence[Argument]) -> str | None:
    """Why a filter cannot be called so; None when it can."""
    known = FILTERS.get(name)
    if known is None:
        return f"there is no filter {name!r}; there is {', '.join(FILTERS)}"
    if not known.least <= len(arguments) <= len(known.kinds):
        most = len(known.kinds)
        wanted = str(most) if known.least == most else f"{known.least} to {most}"
        return f"{name} takes {wanted} arguments, not {len(arguments)}"
    for argument, kind in zip(arguments, known.kinds, strict=False):
        if not isinstance(argument, kind):
            return f"{name} takes a {'number' if kind is int else 'text in double quotes'} in the place of {argument!r}"
    if name == "regex":
        return _objection_to_regex(arguments)
    if name == "pad" and not 0 <= int(arguments[0]) <= _MOST_PAD:
        return f"pad fills up to {_MOST_PAD:,} characters, not {arguments[0]}"
    return None


def apply(name: str, text: str, arguments: Sequence[Argument]) -> str:
    """Raises ValueError when the value does not fit (TookTooLong is one), KeyError when there is no such filter."""
    try:
        return FILTERS[name].do(text, *arguments)
    except TookTooLong as error:
        raise TookTooLong(f"{name}: the value {error}") from None
    except ValueError as error:
        raise ValueError(f"{name}: the value {error}") from None


def _objection_to_regex(arguments: Sequence[Argument]) -> str | None:
    pattern = str(arguments[0])
    objection = objection_to(pattern)
    if objection is not None:
        return f"the pattern {pattern!r} {objection}"
    groups = re.compile(pattern).groups
    if len(arguments) > 1 and not 0 <= int(arguments[1]) <= groups:
        return f"the pattern {pattern!r} has {groups} groups, and number {arguments[1]} is asked for"
    return None

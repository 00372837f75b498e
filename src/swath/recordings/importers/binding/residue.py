"""Detects what is left of a value where no input could replace it: other capitals, an encoding that no filter writes
(`M%FCller`), a date in another notation, or a value so short that it may be chance. It is reported to the user.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import date, datetime
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from swath.recordings.importers.binding.forms import MatchScope, RecordedValue, bounded_pattern, literals_in

__all__ = ["is_still_in", "other_date_notations"]

_YEAR_FIRST: Final = re.compile(r"([0-9]{4})([-/.]?)([0-9]{1,2})\2([0-9]{1,2})")
_YEAR_LAST: Final = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})")
_COMPACT_CHARS: Final = 8
_IN_WORDS: Final = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y")
_YEARS: Final = range(1800, 2200)
_MONTHS: Final = 12


class _ReadDate(NamedTuple):
    """`day_first`: it was written so between slashes or dashes."""

    day: date
    day_first: bool = False


def other_date_notations(literal: str) -> tuple[str, ...]:
    """None for what is no date."""
    read = _read(literal)
    if read is None:
        return ()
    return tuple(dict.fromkeys(one for one in _writings(*read) if one != literal))


def _read(text: str) -> _ReadDate | None:
    if found := _YEAR_FIRST.fullmatch(text):
        year, mark, month, day = found.groups()
        return _date(year, month, day) if mark or len(text) == _COMPACT_CHARS else None
    if found := _YEAR_LAST.fullmatch(text):
        first, mark, second, year = found.groups()
        usual, other = (first, second), (second, first)
        for month, day in (other, usual) if mark == "." else (usual, other):
            if made := _date(_whole(year), month, day):
                return made._replace(day_first=mark != "." and (month, day) == other != usual)
        return None
    for form in _IN_WORDS:
        try:
            return _ReadDate(datetime.strptime(text, form).date())  # noqa: DTZ007 a day has no time zone
        except ValueError:
            continue
    return None


def _date(year: str, month: str, day: str) -> _ReadDate | None:
    try:
        return _ReadDate(date(int(year), int(month), int(day))) if int(year) in _YEARS else None
    except ValueError:
        return None


def _whole(year: str) -> str:
    return year if len(year) > 2 else f"20{year}" if year < "70" else f"19{year}"


def _writings(day: date, day_first: bool) -> Iterator[str]:
    year, months, days = f"{day.year:04}", (f"{day.month:02}", str(day.month)), (f"{day.day:02}", str(day.day))
    yield f"{year}{months[0]}{days[0]}"
    both = list(itertools.product(months, days))
    for month, number in both:
        yield from (mark.join((year, month, number)) for mark in "-/.")
        yield from (f"{number}.{month}.{short}" for short in (year, year[2:]))
    turned = [(number, month) for month, number in both]
    orders = turned if day_first else [*both, *(turned if day.day > _MONTHS else [])]
    for one, other in orders:
        yield from (f"{one}/{other}/{short}" for short in (year, year[2:]))
        yield f"{one}-{other}-{year}"
    for number in days:
        for name in (f"{day:%B}", f"{day:%b}"):
            yield from (f"{name} {number}, {year}", f"{name} {number} {year}", f"{number} {name} {year}")


_LAYERS: Final = 3
_MOST_WORDS: Final = 20
_BETWEEN: Final = r"[\W_]{0,3}"
_ENCODINGS: Final = ("utf-8", "latin-1")
_UNICODE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})")
_JSON: Final = re.compile(r"\\([\"\\/])")


def is_still_in(text: str, needle: RecordedValue) -> bool:
    """Whether somebody would recognise the value in the text, outside of references."""
    pattern = _recognised(needle)
    return any(pattern.search(one) for part in literals_in(text) for one in _decoded(part))


@lru_cache(maxsize=16)
def _recognised(needle: RecordedValue) -> re.Pattern[str]:
    if needle.reach is MatchScope.WHOLE:
        letters = r"[^\W_]"
        is_telling = any(character.isalnum() for character in needle.literal)
        return re.compile(f"(?<!{letters}){re.escape(needle.literal)}(?!{letters})" if is_telling else "(?!)")
    told = [bounded_pattern(form, form.text) for form in needle.forms if form.reach is not MatchScope.WHOLE]
    words = re.findall(r"[^\W_]+", needle.literal)
    if 1 < len(words) <= _MOST_WORDS:  # with other marks between: `Smith, John` is also `SMITH JOHN`
        told.append(rf"(?<![^\W_]){_BETWEEN.join(words)}(?![^\W_])")
    dates = (one for one in other_date_notations(needle.literal) if not needle.is_other(one))
    told += [f"(?<![0-9]){re.escape(one)}(?![0-9])" for one in dates]
    return re.compile("|".join(told), re.IGNORECASE)


def _decoded(text: str) -> Iterator[str]:
    """The text, and all that it may be when it is read as a part of an address or as JSON, several times over."""
    seen, layer = {text}, {text}
    yield text
    for _ in range(_LAYERS):
        layer = {made for one in layer for made in _once(one)} - seen
        seen |= layer
        yield from sorted(layer)


def _once(text: str) -> Iterator[str]:
    if "%" in text or "+" in text:
        for encoding in _ENCODINGS:
            yield unquote(text, encoding)
            yield unquote_plus(text, encoding)
    if "\\" in text:
        yield _JSON.sub(r"\1", _UNICODE.sub(lambda escape: chr(int(escape[1], 16)), text))

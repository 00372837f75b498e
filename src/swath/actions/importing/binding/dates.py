"""A recorded date in the other ways in which sites write it: `03/05/2024` is `2024-03-05` and `3/5/2024`, too.

Used by residue.py to tell of them: no filter leads from one to the other for every date. Between slashes and dashes the
month comes first, between dots the day, unless it can only be the other way round.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from datetime import date, datetime
from typing import Final, NamedTuple

__all__ = ["other_writings"]

_YEAR_FIRST: Final = re.compile(r"([0-9]{4})([-/.]?)([0-9]{1,2})\2([0-9]{1,2})")
_YEAR_LAST: Final = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})")
_COMPACT_CHARS: Final = 8
_IN_WORDS: Final = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y")
_YEARS: Final = range(1800, 2200)
_MONTHS: Final = 12


class _Read(NamedTuple):
    """`day_first`: it was written so between slashes or dashes."""

    day: date
    day_first: bool = False


def other_writings(literal: str) -> tuple[str, ...]:
    """None for what is no date."""
    read = _read(literal)
    if read is None:
        return ()
    return tuple(dict.fromkeys(one for one in _writings(*read) if one != literal))


def _read(text: str) -> _Read | None:
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
            return _Read(datetime.strptime(text, form).date())  # noqa: DTZ007 a day has no time zone
        except ValueError:
            continue
    return None


def _date(year: str, month: str, day: str) -> _Read | None:
    try:
        return _Read(date(int(year), int(month), int(day))) if int(year) in _YEARS else None
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

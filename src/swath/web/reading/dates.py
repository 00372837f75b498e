"""Dates as sites write them. `Date` in models reads them with this, too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

from swath.web.reading.unreadable import Unreadable, value_in

__all__ = ["parse_date"]

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_WEEKDAY: Final = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)?"
_ZONE: Final = r"(?:z|[a-z]{3,4}|[+-][0-9]{2}:?[0-9]{2})"
_TIME: Final = rf"(?:(?:,?\s+|t)[0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:\.[0-9]+)?)?\s*(?:[ap]\.?m\.?)?\s*{_ZONE}?)?"
_DAY: Final = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_MONTH: Final = r"(?P<month>[a-z]{3,9})\.?"
_YEAR: Final = r"(?P<year>[0-9]{4}|[0-9]{2})"


def _pattern(date_part: str) -> re.Pattern[str]:
    return re.compile(_WEEKDAY + date_part + _TIME, re.IGNORECASE)


_BY_NUMBERS: Final = _pattern(rf"(?P<first>[0-9]{{1,2}})(?P<sign>[/.-])(?P<second>[0-9]{{1,2}})(?P=sign){_YEAR}")
_YEAR_FIRST: Final = _pattern(r"(?P<year>[0-9]{4})(?P<sign>[/.-])(?P<first>[0-9]{1,2})(?P=sign)(?P<second>[0-9]{1,2})")
_BY_NAME: Final = (
    _pattern(rf"{_MONTH}[\s-]+{_DAY}(?:\s*,\s*|[\s-]+){_YEAR}"),
    _pattern(rf"{_DAY}(?:\s+of)?[\s-]+{_MONTH},?[\s-]+{_YEAR}"),
)


def parse_date(text: str | None, formats: str | Sequence[str] = (), *, day_first: bool = False) -> date | None:
    """A date: `3/1/2026` with the month first, `2026-03-01`, `March 1, 2026`, `1-Mar-26`; a time behind it is dropped.

    None when there is none (`N/A`, a dash, nothing). With `formats` only these count, as strptime has them; `day_first`
    reads 3/1 as the third of January. Two digits of a year mean 1969 to 2068. Raises Unreadable for anything else.
    """
    flat = value_in(text, "date")
    if text is None or flat is None:
        return None
    try:
        found = (
            _by_formats(flat, [formats] if isinstance(formats, str) else formats) if formats else _read(flat, day_first)
        )
    except ValueError:  # the 31st of April
        found = None
    if found is None:
        raise Unreadable(text, "date")
    return found


def _by_formats(text: str, formats: Sequence[str]) -> date | None:
    for wanted in formats:
        try:
            return datetime.strptime(text, wanted).date()  # noqa: DTZ007 a date on a page has no time zone
        except ValueError:
            continue
    return None


def _read(text: str, day_first: bool) -> date | None:
    if found := _YEAR_FIRST.fullmatch(text):
        return date(int(found["year"]), int(found["first"]), int(found["second"]))
    if found := _BY_NUMBERS.fullmatch(text):
        first, second = int(found["first"]), int(found["second"])
        return date(_year(found["year"]), *((second, first) if day_first else (first, second)))
    for pattern in _BY_NAME:
        if found := pattern.fullmatch(text):
            month = _month(found["month"])
            return None if month is None else date(_year(found["year"]), month, int(found["day"]))
    return None


def _year(digits: str) -> int:
    year = int(digits)
    if len(digits) == 4:
        return year
    return year + (1900 if year >= 69 else 2000)


def _month(word: str) -> int | None:
    lower = word.lower().removesuffix("t") if word.lower() == "sept" else word.lower()
    return next((number for number, name in enumerate(_MONTHS, start=1) if name.startswith(lower)), None)

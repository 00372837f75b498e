"""Parses amounts of money and dates as sites write them; anything else raises UnreadableValue."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Final, Literal

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

__all__ = ["UnreadableValue", "clean_value", "is_missing", "parse_date", "parse_money"]

_SHOWN_CHARS: Final = 40
_LONGEST_CHARS: Final = 100
_MISSING: Final = frozenset(
    {"", "-", "--", "---", "\u2013", "\u2014", "\u2212", "n/a", "na", "none", "null", "not available"}
)


class UnreadableValue(Failed, ValueError):
    """Carries invalid_output, and the beginning of the text."""

    def __init__(self, text: str, wanted: str) -> None:
        super().__init__(Failure.of(FailureKind.INVALID_OUTPUT, f"{text[:_SHOWN_CHARS]!r} is no {wanted}"))

    def __str__(self) -> str:
        return self.failure.message


def is_missing(text: str) -> bool:
    """Whether a text is one of those with which sites say that there is no value: a dash, `N/A`, nothing at all."""
    return " ".join(text.split()).lower() in _MISSING


def clean_value(text: str | None, wanted: str) -> str | None:
    """The text in one line, None when it says that there is no value. Raises Unreadable when it is as long as a page.

    A pattern may take very long over a long text, and nothing could interrupt it.
    """
    if text is None or is_missing(text):
        return None
    if len(flat := " ".join(text.split())) > _LONGEST_CHARS:
        raise UnreadableValue(text, wanted)
    return flat


_CODES: Final = "USD|CAD|AUD|NZD|MXN|EUR|GBP|CHF|SEK|NOK|DKK|PLN|CZK|HUF|JPY|CNY|HKD|SGD|KRW|INR|ILS|TRY|BRL|ZAR"
_CURRENCY: Final = rf"(?:(?:US|CA|AU|NZ|C|A|R)?\$|[\u20a0-\u20c0\u00a3\u00a5]|zł|kr\.?|(?:{_CODES})\b)"
_MINUS: Final = "[-\u2212\u2013]"


def _amount_pattern(separators: str, point: str) -> re.Pattern[str]:
    grouped = rf"[0-9]{{1,3}}(?P<separator>[{separators}])[0-9]{{3}}(?:(?P=separator)[0-9]{{3}})*"
    return re.compile(
        rf"(?:\+|(?P<before>{_MINUS}))?\s*(?:{_CURRENCY})?\s*(?P<inside>{_MINUS})?\s*"
        rf"(?P<whole>{grouped}|[0-9]+)?(?:{point}(?P<cents>[0-9]+))?"
        rf"\s*(?P<after>{_MINUS})?\s*(?:{_CURRENCY})?"
    )


_PLAIN: Final = re.compile(r"\$?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?")
_SHORT_CHARS: Final = 30
_PATTERNS: Final = {
    ".": _amount_pattern(",'\u2019", r"\."),
    ",": _amount_pattern(".'\u2019 ", ","),
}


def parse_money(text: str | None, *, decimal: Literal[".", ","] = ".") -> Decimal | None:
    """An amount: `$1,234.50`, `-$5`, `(12.00)` for what is owed, `12.00 EUR`; with `decimal=","` also `1.234,50 €`.

    None when there is none (`N/A`, a dash, nothing). Raises Unreadable for anything else; it never guesses which sign
    separates the cents.
    """
    if text is not None and decimal == "." and len(text) < _SHORT_CHARS and _PLAIN.fullmatch(text):
        return Decimal(text.lstrip("$").replace(",", ""))  # nine of ten, at half the cost
    bare = clean_value(text, "amount of money")
    if text is None or bare is None:
        return None
    in_brackets = bare.startswith("(") and bare.endswith(")")
    found = _PATTERNS[decimal].fullmatch(bare[1:-1].strip() if in_brackets else bare)
    if found is None or not (found["whole"] or found["cents"]):
        raise UnreadableValue(text, "amount of money")
    minuses = in_brackets + sum(found[place] is not None for place in ("before", "inside", "after"))
    if minuses > 1:
        raise UnreadableValue(text, "amount of money")
    whole = (found["whole"] or "0").replace(found["separator"] or ",", "")
    amount = Decimal(f"{whole}.{found['cents']}" if found["cents"] else whole)
    return -amount if minuses else amount


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


def _date_pattern(date_part: str) -> re.Pattern[str]:
    return re.compile(_WEEKDAY + date_part + _TIME, re.IGNORECASE)


_BY_NUMBERS: Final = _date_pattern(rf"(?P<first>[0-9]{{1,2}})(?P<sign>[/.-])(?P<second>[0-9]{{1,2}})(?P=sign){_YEAR}")
_YEAR_FIRST: Final = _date_pattern(
    r"(?P<year>[0-9]{4})(?P<sign>[/.-])(?P<first>[0-9]{1,2})(?P=sign)(?P<second>[0-9]{1,2})"
)
_BY_NAME: Final = (
    _date_pattern(rf"{_MONTH}[\s-]+{_DAY}(?:\s*,\s*|[\s-]+){_YEAR}"),
    _date_pattern(rf"{_DAY}(?:\s+of)?[\s-]+{_MONTH},?[\s-]+{_YEAR}"),
)


def parse_date(text: str | None, formats: str | Sequence[str] = (), *, day_first: bool = False) -> date | None:
    """A date: `3/1/2026` with the month first, `2026-03-01`, `March 1, 2026`, `1-Mar-26`; a time behind it is dropped.

    None when there is none (`N/A`, a dash, nothing). With `formats` only these count, as strptime has them; `day_first`
    reads 3/1 as the third of January. Two digits of a year mean 1969 to 2068. Raises Unreadable for anything else.
    """
    flat = clean_value(text, "date")
    if text is None or flat is None:
        return None
    try:
        found = (
            _by_formats(flat, [formats] if isinstance(formats, str) else formats) if formats else _read(flat, day_first)
        )
    except ValueError:  # the 31st of April
        found = None
    if found is None:
        raise UnreadableValue(text, "date")
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

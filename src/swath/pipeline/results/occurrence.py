"""Whether the text of a value occurs in a page: by itself, not as a part of another word or number.

Used by evidence.py. That it occurs does not prove that the value was read there, and what a scraper has rewritten
(a date, a name in other letters) occurs nowhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from typing import Final

from swath.pipeline.results.flatten import Scalar

__all__ = ["can_occur", "occurs", "searchable"]

# None of these looks further than the next bracket, so a hostile page costs no more than its length.
_TAG: Final = re.compile(r"<[^<>]*>")
_INSIDE_WORDS: Final = re.compile(
    r"<!--[^<>]*-->|</?(?:a|b|em|font|i|mark|small|span|strong|sub|sup|u|wbr)(?:\s[^<>]*)?>", re.IGNORECASE
)
_BLANKS: Final = re.compile(r"\s+")
# Amounts are stored as text, with neither currency nor commas; what begins with a zero is an identifier.
_AMOUNT: Final = re.compile(r"(?P<minus>-?)(?P<whole>0|[1-9][0-9]{0,30})(?P<cents>(?:\.[0-9]+)?)", re.ASCII)
_NEGATIVE: Final = ("-{}", "-${}", "\u2212{}", "\u2212${}", "({})", "(${})")


def can_occur(value: Scalar) -> bool:
    """Nothing, yes and no have no text of their own."""
    return not isinstance(value, bool) and value is not None and value != ""


def searchable(text: str) -> tuple[str, ...]:
    """A page as it came, and what of it can be read: neither entities nor line breaks must hide a value."""
    return _plain(text), _plain(_TAG.sub(" ", _INSIDE_WORDS.sub("", text)))


def occurs(value: Scalar, texts: tuple[str, ...]) -> bool:
    """In any of the forms in which people write it."""
    return any(pattern.search(text) for pattern in map(_pattern, _forms(value)) for text in texts)


def _plain(text: str) -> str:
    return _BLANKS.sub(" ", html.unescape(text))


def _forms(value: Scalar) -> Iterator[str]:
    if isinstance(value, str):
        text = _BLANKS.sub(" ", value).strip()
        yield text
        amount = _AMOUNT.fullmatch(text)
        if amount is not None:
            whole, cents = amount["whole"], amount["cents"]
            yield from _signed((whole + cents, f"{int(whole):,}{cents}"), negative=amount["minus"] != "")
    elif isinstance(value, (int, float)):
        size = abs(value)
        forms = (str(size), f"{size:,}", f"{size:.2f}", f"{size:,.2f}", f"{size:g}")
        yield from _signed(forms, negative=value < 0)


def _signed(forms: Iterable[str], *, negative: bool) -> Iterator[str]:
    for form in dict.fromkeys(forms):
        yield from (how.format(form) for how in _NEGATIVE) if negative else (form,)


def _pattern(form: str) -> re.Pattern[str]:
    before = r"(?<!\w)(?<!\d[.,])" if form[:1].isalnum() else ""
    after = r"(?!\w)(?![.,]\d)" if form[-1:].isalnum() else ""
    return re.compile(before + re.escape(form) + after) if form else re.compile(r"(?!)")

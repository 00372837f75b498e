"""Whether the text of a value occurs in a page: by itself, not as a part of another word or number.

Used by evidence.py. That it occurs does not prove that the value was read there, and what a scraper has rewritten
(a date, a name in other letters) occurs nowhere.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

from swath.pipeline.results.flatten import Scalar

__all__ = ["can_occur", "occurs", "searchable"]

# None of these looks further than the next bracket, so a hostile page costs no more than its length.
_TAG: Final = re.compile(r"<[^<>]*>")
_INSIDE_WORDS: Final = re.compile(
    r"<!--[^<>]*-->|</?(?:a|b|em|font|i|mark|small|span|strong|sub|sup|u|wbr)(?:\s[^<>]*)?>", re.IGNORECASE
)
_BLANKS: Final = re.compile(r"\s+")


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
        yield _BLANKS.sub(" ", value).strip()
        return
    if isinstance(value, (int, float)):
        yield from dict.fromkeys((str(value), f"{value:,}", f"{value:.2f}", f"{value:,.2f}", f"{value:g}"))


def _pattern(form: str) -> re.Pattern[str]:
    before = r"(?<!\w)(?<!\d[.,])" if form[:1].isalnum() else ""
    after = r"(?!\w)(?![.,]\d)" if form[-1:].isalnum() else ""
    return re.compile(before + re.escape(form) + after) if form else re.compile(r"(?!)")

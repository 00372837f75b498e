"""Amounts as sites write them, as exact numbers. `Money` in models reads them with this, too."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final, Literal

from swath.web.reading.unreadable import Unreadable, value_in

__all__ = ["parse_money"]

_CODES: Final = "USD|CAD|AUD|NZD|MXN|EUR|GBP|CHF|SEK|NOK|DKK|PLN|CZK|HUF|JPY|CNY|HKD|SGD|KRW|INR|ILS|TRY|BRL|ZAR"
_CURRENCY: Final = rf"(?:(?:US|CA|AU|NZ|C|A|R)?\$|[\u20a0-\u20c0\u00a3\u00a5]|zł|kr\.?|(?:{_CODES})\b)"
_MINUS: Final = "[-\u2212\u2013]"


def _pattern(separators: str, point: str) -> re.Pattern[str]:
    grouped = rf"[0-9]{{1,3}}(?P<separator>[{separators}])[0-9]{{3}}(?:(?P=separator)[0-9]{{3}})*"
    return re.compile(
        rf"(?:\+|(?P<before>{_MINUS}))?\s*(?:{_CURRENCY})?\s*(?P<inside>{_MINUS})?\s*"
        rf"(?P<whole>{grouped}|[0-9]+)?(?:{point}(?P<cents>[0-9]+))?"
        rf"\s*(?P<after>{_MINUS})?\s*(?:{_CURRENCY})?"
    )


_PLAIN: Final = re.compile(r"\$?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?")
_SHORT_CHARS: Final = 30
_PATTERNS: Final = {
    ".": _pattern(",'\u2019", r"\."),
    ",": _pattern(".'\u2019 ", ","),
}


def parse_money(text: str | None, *, decimal: Literal[".", ","] = ".") -> Decimal | None:
    """An amount: `$1,234.50`, `-$5`, `(12.00)` for what is owed, `12.00 EUR`; with `decimal=","` also `1.234,50 €`.

    None when there is none (`N/A`, a dash, nothing). Raises Unreadable for anything else; it never guesses which sign
    separates the cents.
    """
    if text is not None and decimal == "." and len(text) < _SHORT_CHARS and _PLAIN.fullmatch(text):
        return Decimal(text.lstrip("$").replace(",", ""))  # nine of ten, at half the cost
    bare = value_in(text, "amount of money")
    if text is None or bare is None:
        return None
    in_brackets = bare.startswith("(") and bare.endswith(")")
    found = _PATTERNS[decimal].fullmatch(bare[1:-1].strip() if in_brackets else bare)
    if found is None or not (found["whole"] or found["cents"]):
        raise Unreadable(text, "amount of money")
    minuses = in_brackets + sum(found[place] is not None for place in ("before", "inside", "after"))
    if minuses > 1:
        raise Unreadable(text, "amount of money")
    whole = (found["whole"] or "0").replace(found["separator"] or ",", "")
    amount = Decimal(f"{whole}.{found['cents']}" if found["cents"] else whole)
    return -amount if minuses else amount

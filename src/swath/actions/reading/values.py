"""What the text of a page is read as: filters first, then the type that a rule names. Comes after rules.py found it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final

from swath.actions.language.filters import apply
from swath.actions.language.rules import ValueType
from swath.actions.language.template import Call
from swath.web.reading.dates import parse_date
from swath.web.reading.money import parse_money
from swath.web.reading.unreadable import Unreadable, value_in

__all__ = ["NO", "YES", "filtered", "parse_yes_no", "typed"]

YES: Final = frozenset({"yes", "y", "true", "t", "1", "on", "x", "checked"})
NO: Final = frozenset({"no", "n", "false", "f", "0", "off"})
_NUMBER: Final = re.compile(r"[+\-\u2212]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.[0-9]+)?")


def filtered(text: str, calls: Iterable[Call]) -> str:
    """Raises ValueError when a filter does not fit the text."""
    for call in calls:
        text = apply(call.name, text, call.arguments)
    return text


def typed(text: str, kind: ValueType | None) -> Any:
    """The value; None when the text says that there is none. Raises Unreadable when it is something else."""
    return (text or None) if kind is None else _READERS[kind](text)


def parse_yes_no(text: str) -> bool | None:
    """None when it says neither. Raises Unreadable."""
    word = (value_in(text, "yes or no") or "").lower()
    if not word:
        return None
    if word in YES or word in NO:
        return word in YES
    raise Unreadable(text, "yes or no")


def _integer(text: str) -> int | None:
    number = _decimal(text, "whole number")
    if number is None:
        return None
    if number != number.to_integral_value():
        raise Unreadable(text, "whole number")
    return int(number)


def _number(text: str) -> Decimal | None:
    return _decimal(text, "number")


def _decimal(text: str, wanted: str) -> Decimal | None:
    bare = value_in(text, wanted)
    if bare is None:
        return None
    if not _NUMBER.fullmatch(bare) or not any(char.isdigit() for char in bare):
        raise Unreadable(text, wanted)
    return Decimal(bare.replace(",", "").replace("\u2212", "-"))


def _text(text: str) -> str | None:
    return text or None


_READERS: Final[dict[ValueType, Callable[[str], Any]]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "money": parse_money,
    "date": parse_date,
    "yes_no": parse_yes_no,
}

"""Input, Output and Money: the typed ends of a scraper. People's documents come in here, so pydantic checks them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

__all__ = ["Input", "Money", "Output", "explain", "parse_money"]


class Input(BaseModel):
    """What a scraper needs to know of an item. Other columns are ignored; a number will do where text is wanted."""

    model_config = ConfigDict(extra="ignore", frozen=True, str_strip_whitespace=True, coerce_numbers_to_str=True)


class Output(BaseModel):
    """What a scraper finds. A field that is not declared is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_AMOUNT: Final = re.compile(
    r"(?P<sign>[-\u2212]?)\$?(?P<inner>[-\u2212]?)(?P<digits>\d{1,3}(?:,\d{3})+|\d+)?(?P<cents>\.\d+)?"
)


def parse_money(value: object) -> object:
    """An amount as sites write it: `$1,234.50`, `-$5`, `($12.00)`. What is no text is left to pydantic."""
    if not isinstance(value, str):
        return value
    text = "".join(value.split()).removeprefix("USD").removesuffix("USD")
    in_brackets = text.startswith("(") and text.endswith(")")
    found = _AMOUNT.fullmatch(text[1:-1] if in_brackets else text)
    if found is None or not (found["digits"] or found["cents"]) or (found["sign"] and found["inner"]):
        raise ValueError(f"{value[:40]!r} is no amount of money")
    amount = Decimal((found["digits"] or "0").replace(",", "") + (found["cents"] or ""))
    return -amount if in_brackets or found["sign"] or found["inner"] else amount


def _plain(amount: Decimal) -> str:
    return format(amount, "f")


Money = Annotated[Decimal, BeforeValidator(parse_money), PlainSerializer(_plain, return_type=str, when_used="json")]
"""Dollars and cents, exact; a string in JSON, because floats would change the cents."""


def explain(error: ValidationError) -> str:
    """Which fields are wrong and why, in one line, without what was given: it may be long or secret."""
    parts = []
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        where = ".".join(str(part) for part in detail["loc"])
        message = detail["msg"].removeprefix("Value error, ")
        parts.append(f"{where}: {message}" if where else message)
    return "; ".join(parts)

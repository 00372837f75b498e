"""Input and Output, the typed ends of a scraper, and the field types Money, Date and Maybe."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError

from swath.fetch.http.page.parsing.values import UnreadableValue, is_missing, parse_date, parse_money

__all__ = ["Date", "Input", "Maybe", "Money", "Output", "explain"]


class Input(BaseModel):
    """What a scraper needs to know of an item. Other columns are ignored; a number will do where text is wanted."""

    model_config = ConfigDict(extra="ignore", frozen=True, str_strip_whitespace=True, coerce_numbers_to_str=True)


class Output(BaseModel):
    """What a scraper finds. A field that is not declared is a mistake, and so is a number that JSON cannot say."""

    # Where a field may hold anything, pydantic would write null for such a number before anybody has seen it.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="constants")


def _money(value: object) -> object:
    """What is no text is left to pydantic."""
    if not isinstance(value, str):
        return value
    amount = parse_money(value)
    if amount is None:
        raise UnreadableValue(value, "amount of money")
    return amount


def _date(value: object) -> object:
    if not isinstance(value, str):
        return value
    found = parse_date(value)
    if found is None:
        raise UnreadableValue(value, "date")
    return found


def _unless_missing(value: object) -> object:
    return None if isinstance(value, str) and is_missing(value) else value


def _plain(amount: Decimal) -> str:
    return format(amount, "f")


Money = Annotated[Decimal, BeforeValidator(_money), PlainSerializer(_plain, return_type=str, when_used="json")]
"""An exact amount, as `parse_money` reads it; a string in JSON, because floats would change the cents."""

Date = Annotated[date, BeforeValidator(_date)]
"""A day, as `parse_date` reads it."""

T = TypeVar("T")
Maybe = Annotated[T | None, BeforeValidator(_unless_missing)]
"""`Maybe[Money]`, `Maybe[int]`, …: None where a site writes `N/A`, a dash or nothing."""


def explain(error: ValidationError) -> str:
    """Which fields are wrong and why, in one line, without what was given: it may be long or secret."""
    parts = []
    for detail in error.errors(include_url=False, include_input=False, include_context=False):
        where = ".".join(str(part) for part in detail["loc"])
        message = detail["msg"].removeprefix("Value error, ")
        parts.append(f"{where}: {message}" if where else message)
    return "; ".join(parts)

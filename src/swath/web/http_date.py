"""Dates in headers, as Unix seconds. Pure; for cookies that expire and for waits that a site asks for."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["unix_seconds"]

_MOST_CHARACTERS: Final = 100


def unix_seconds(text: str) -> float | None:
    """The date in any of the forms that servers write, by UTC unless it says otherwise; None when it is none."""
    try:
        date = parsedate_to_datetime(text[:_MOST_CHARACTERS])
        return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, ArithmeticError, LookupError):  # the parser promises the first alone
        return None

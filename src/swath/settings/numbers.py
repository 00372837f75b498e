"""Numbers and switches of the settings, as they were written. Used by values.py."""

from __future__ import annotations

from pathlib import Path

from swath.domain.errors import BadInput

__all__ = ["count", "price", "seconds", "switch"]


def price(given: object, name: str, folder: Path) -> float:
    """Money; may be nothing."""
    return 0.0 if str(given) == "0" else seconds(given, name, folder)


def seconds(given: object, name: str, folder: Path) -> float:
    """A length of time, or any other number above 0."""
    del folder
    try:
        value = float(given) if isinstance(given, (str, int, float)) and not isinstance(given, bool) else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise BadInput(f"{name} must be a number above 0, not {given!r}")
    return value


def count(given: object, name: str, folder: Path) -> int:
    """A whole number above 0."""
    value = seconds(given, name, folder)
    if not value.is_integer():
        raise BadInput(f"{name} must be a whole number above 0, not {given!r}")
    return int(value)


def switch(given: object, name: str, folder: Path) -> bool:
    """On or off, in the words that people use."""
    del folder
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if str(given).lower() not in words:
        raise BadInput(f"{name} must be 1 or 0, not {given!r}")
    return words[str(given).lower()]

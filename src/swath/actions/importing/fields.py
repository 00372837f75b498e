"""Fields of one step of somebody else's JSON: takes them out by type, and knows which nobody asked for.

Used by chrome.py. Errors name the step and the field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from swath.domain.errors import BadInput

__all__ = ["Fields"]


class Fields:
    """`place` names the step in errors. A field that is null counts as one that is not there."""

    def __init__(self, given: dict[str, Any], place: str) -> None:
        self.place = place
        self._left = {name: value for name, value in given.items() if value is not None}

    def text(self, name: str) -> str | None:
        """A text, if it is there."""
        value = self._left.pop(name, None)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "is not a text")
        return value

    def number(self, name: str) -> float | None:
        """A number, if it is there."""
        value = self._left.pop(name, None)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.wrong(name, "is not a number")
        return value

    def flag(self, name: str) -> bool | None:
        """True or false, if it is there."""
        value = self._left.pop(name, None)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "is neither true nor false")
        return value

    def choice(self, name: str, among: Sequence[str]) -> str | None:
        """One of some words, if it is there."""
        value = self.text(name)
        if value is not None and value not in among:
            raise self.wrong(name, f"is {value!r}, not one of {', '.join(among)}")
        return value

    def needed_text(self, name: str) -> str:
        """A text, which must be there."""
        value = self.text(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def needed_number(self, name: str) -> float:
        """A number, which must be there."""
        value = self.number(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def needed_flag(self, name: str) -> bool:
        """True or false, which must be there."""
        value = self.flag(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def anything(self, name: str) -> Any:
        """Whatever is there."""
        return self._left.pop(name, None)

    def leave(self, given: dict[str, Any]) -> None:
        """Puts in what was inside of another field, and nobody asks for."""
        self._left |= {name: value for name, value in given.items() if value is not None}

    def rest(self) -> dict[str, Any]:
        """What nobody has asked for."""
        return dict(self._left)

    def wrong(self, name: str, why: str) -> BadInput:
        """An error of that field."""
        return BadInput(f"{self.place}: {name} {why}" if self.place else f"{name} {why}")

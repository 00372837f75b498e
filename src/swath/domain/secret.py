"""Secret: a value whose `repr` and `str` show a mask and which no encoder takes. Only `reveal` returns the text."""

from __future__ import annotations

import hmac
from typing import Final, NoReturn

__all__ = ["MASK", "Secret"]

MASK: Final = "********"


class Secret:
    """One secret text. Equal to another of the same text, in a time that does not tell where they differ."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself; for the place that sends it."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._bytes(), other._bytes())

    def __hash__(self) -> int:
        return hash(self._text)

    def _bytes(self) -> bytes:
        return self._text.encode("utf-8", "surrogatepass")  # the environment may hold bytes that are no text

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not to be copied into a file or another process")

"""Target: the window or the frame that a step names: `main`, `newest`, or an address.

Made by actions/player/scope.py; stage.py looks for what fits. An address that holds data of the item is taken at its
word, for another window would be another item's record.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["MAIN", "NEWEST", "Target"]

MAIN: Final = "main"
NEWEST: Final = "newest"


class Target(NamedTuple):
    """`sure`: it holds data of the item. `query` are the pieces of its query that do; `fragment`: whether that does."""

    address: str
    sure: bool = False
    query: tuple[str, ...] = ()
    fragment: bool = False

    def is_at(self, url: str) -> bool:
        """To the letter."""
        return url == self.address

    def is_near(self, url: str) -> bool:
        """But for the query and the fragment, which differ from visit to visit; not so the item's data in them."""
        try:
            mine, wanted = urlsplit(url), urlsplit(self.address)
        except ValueError:
            return False
        if not wanted.netloc or mine[:2] != wanted[:2]:
            return False
        if not self.sure:
            return mine.path == wanted.path
        given = _pairs(mine.query)
        return (
            _decoded(mine.path) == _decoded(wanted.path)
            and all(pair in given for piece in self.query for pair in _pairs(piece))
            and (not self.fragment or _decoded(mine.fragment) == _decoded(wanted.fragment))
        )


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query, keep_blank_values=True, errors="surrogateescape")  # which keeps different bytes different


def _decoded(text: str) -> str:
    return unquote(text, errors="surrogateescape")

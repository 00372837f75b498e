"""CSS of a recording: what a selector may cost on a stored page, where nothing can stop it.

The parser goes back and forth in a chain of descendants (`a b c`): it tries every way to choose those in between,
which are soon more than atoms. reading/sight.py asks before it begins.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["CssCost", "css_cost_of"]

_TEXTS: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_PLAIN: Final = re.compile(r"\\.|\[[^\]]*\]", re.DOTALL)  # an escaped character, an attribute
_SEARCHING: Final = re.compile(r":(has|is|where|not|matches|-webkit-any|any)$", re.IGNORECASE)
_TIGHT: Final = re.compile(r"\s*([>+~,])\s*")


class CssCost(NamedTuple):
    """How many elements of a chain may be chosen freely among those `around` the next one, and among those `beside`."""

    around: int = 0
    beside: int = 0

    def steps(self, elements: int, widest: int, deepest: int) -> int:
        """At most so many on a page of so many elements, of which so many stand beside and inside each other."""
        return elements * _ways(self.around, deepest) * _ways(self.beside, widest)


def _ways(chosen: int, among: int) -> int:
    """To choose so many, or fewer, since a chain that leads nowhere is followed as far as it goes."""
    return math.comb(among, min(chosen, among // 2))


@lru_cache(maxsize=1_024)
def css_cost_of(selector: str) -> CssCost:
    """Of the dearest of its alternatives."""
    return _cost(_PLAIN.sub("x", _TEXTS.sub("", selector)))


def _cost(bare: str) -> CssCost:
    own, inner = _taken_apart(bare)
    costs = [_of_chain(chain) for chain in own.split(",")]
    around, beside = max(cost.around for cost in costs), max(cost.beside for cost in costs)
    for searches, text in inner:
        cost = _cost(text)
        around, beside = around + cost.around + searches, beside + cost.beside
    return CssCost(around, beside)


def _of_chain(chain: str) -> CssCost:
    tight = _TIGHT.sub(r"\1", chain.strip())
    return CssCost(len(tight.split()) - 1 if tight else 0, tight.count("~"))


def _taken_apart(bare: str) -> tuple[str, list[tuple[bool, str]]]:
    """What stands outside of brackets, and in those that hold selectors: whether they are searched for inside."""
    own: list[str] = []
    inner: list[tuple[bool, str]] = []
    depth = begun = 0
    for at, character in enumerate(bare):
        if character == "(":
            depth += 1
            begun = at + 1 if depth == 1 else begun
        elif character == ")" and depth:
            depth -= 1
            named = _SEARCHING.search(bare[: begun - 1]) if depth == 0 else None
            if named is not None:
                inner.append((named[1].lower() == "has", bare[begun:at]))
        elif depth == 0:
            own.append(character)
    return "".join(own), inner

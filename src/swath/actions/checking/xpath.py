"""XPath of a recording: whether it is the XPath 1.0 that browsers know, and whether it ends on a large page.

A search of the whole page for each element of the page never does, and nothing could stop it while a stored page is
read; so such expressions are refused before they meet one. How long others take depends on the page: reading/sight.py
asks what they cost before it begins.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = ["Cost", "cost_of", "objection_to_xpath"]

_MOST_SEARCHES: Final = 20  # in all
_MOST_SEARCHES_INSIDE: Final = 3  # in conditions, where they are done for each element
_DEEPEST: Final = 4

_TEXTS: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_SEARCH: Final = re.compile(
    r"//|\b(?:descendant|descendant-or-self|following|preceding|ancestor|ancestor-or-self)\s*::"
)
_TOKEN: Final = re.compile(r"''|//|::|\.\.|[^\W\d][\w.-]*|[0-9][0-9.]*|\S")
_ENDS: Final = frozenset({")", "]", "''", ".", ".."})  # of something that an operator or a path can follow
_FAR: Final = re.compile(r"\b(?:following|preceding)\s*::")
_BESIDE: Final = re.compile(r"\b(?:following|preceding)-sibling\s*::")
_UP: Final = re.compile(r"\.\.|\b(?:parent|ancestor|ancestor-or-self)\s*::")
_CALLED: Final = re.compile(r"([A-Za-z_][\w.-]*(?::[A-Za-z_][\w.-]*)?)\s*\(")
_KNOWN: Final = (
    "and or div mod boolean ceiling comment concat contains count false floor id lang last local-name name"
    " namespace-uri node normalize-space not number position processing-instruction round starts-with string"
    " string-length substring substring-after substring-before sum text translate true"
)


class Cost(NamedTuple):
    """How often each element that is looked at makes others be looked at: all of the page (`far`), those `beside` it,
    those `inside` or around it."""

    far: int = 0
    beside: int = 0
    inside: int = 0

    def steps(self, elements: int, widest: int, deepest: int) -> int:
        """At most so many on a page of so many elements, of which so many stand beside and inside each other."""
        return math.prod([elements] * (1 + self.far) + [widest] * self.beside + [deepest] * self.inside)


@lru_cache(maxsize=1_024)
def cost_of(expression: str) -> Cost:
    """Of its conditions, and of the conditions in them: each is asked for every element that the one around it sees."""
    return _cost(_TEXTS.sub("''", expression), 0)


def _cost(bare: str, depth: int) -> Cost:
    own, conditions = _taken_apart(bare)
    dearest = max((_cost(inner, depth + 1) for inner in conditions), default=Cost())
    far = len(_FAR.findall(own))
    if depth == 0:
        return dearest._replace(far=dearest.far + far)
    searches = bool(_SEARCH.search(own))
    far += _from_the_top(own) or (searches and bool(_UP.search(own)) and not _only_up(own))
    return Cost(dearest.far + far, dearest.beside + bool(_BESIDE.search(own)), dearest.inside + (searches and not far))


def _only_up(own: str) -> bool:
    """Whether what it searches are the elements around: `ancestor::div`."""
    return "//" not in own and "descendant" not in own


def _taken_apart(bare: str) -> tuple[str, list[str]]:
    """What stands outside of brackets, and in each of the outermost ones."""
    own: list[str] = []
    conditions: list[str] = []
    depth = begun = 0
    for at, character in enumerate(bare):
        if character == "[":
            begun = at + 1 if depth == 0 else begun
            depth += 1
        elif character == "]":
            depth -= 1
            if depth == 0:
                own.append("[]")
                conditions.append(bare[begun:at])
        elif depth == 0:
            own.append(character)
    return "".join(own), conditions


def objection_to_xpath(expression: str) -> str | None:
    """Why it cannot be used; None when it can."""
    bare = _TEXTS.sub("''", expression)
    return _bomb(bare) or _foreign(bare) or _syntax(expression)


def _bomb(bare: str) -> str | None:
    searches = len(_SEARCH.findall(bare))
    if searches > _MOST_SEARCHES:
        return f"searches the page {searches} times (//); at most {_MOST_SEARCHES}"
    inside, depth = _conditions(bare)
    if depth > _DEEPEST:
        return f"has conditions [] nested {depth} deep; at most {_DEEPEST}"
    if len(_SEARCH.findall(inside)) > _MOST_SEARCHES_INSIDE:
        return f"searches the page inside conditions [] more than {_MOST_SEARCHES_INSIDE} times"
    if _from_the_top(inside):
        return "begins at the top of the page for each element (/ in a condition); write .// to search inside it"
    return None


def _from_the_top(bare: str) -> int:
    """How many paths in it begin with a slash. After something whole a name is an operator, as `div` is, and so is *;
    elsewhere both are elements (XPath 1.0, 3.7)."""
    count, whole = 0, False
    for word in _TOKEN.findall(bare):
        if word in ("/", "//"):
            count += not whole
            whole = False
        elif word == "*" or word[0].isalpha() or word[0] == "_":
            whole = not whole
        else:
            whole = word in _ENDS or word[0].isdigit()
    return count


def _conditions(bare: str) -> tuple[str, int]:
    """What stands in brackets, and how deep they nest."""
    depth = deepest = 0
    inside: list[str] = []
    for character in bare:
        depth += character == "["
        if depth > 0:
            inside.append(character)
        depth -= character == "]"
        deepest = max(deepest, depth)
    return "".join(inside), deepest


def _foreign(bare: str) -> str | None:
    if "$" in bare:
        return "has a variable ($), of which browsers know none; use a template: {{ input.name }}"
    for name in _CALLED.findall(bare):
        if name not in _KNOWN.split():
            return f"calls {name}(), which browsers' XPath does not know"
    return None


def _syntax(expression: str) -> str | None:
    from lxml import etree  # noqa: PLC0415 most recordings have no XPath

    try:
        etree.XPath(expression)
    except (etree.XPathError, ValueError) as error:
        return f"is no XPath: {' '.join(str(error).split())}"
    return None

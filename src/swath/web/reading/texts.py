"""The texts of many selectors at once. To look for each id by itself is to go over the page once for each; here the
elements that have one are found in one pass, and selectors that are nothing but an id are looked up among them.

Called by WebPage.texts_of. Answers as one look-up after the other would.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from swath.web.reading.text import text_in

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["read_texts"]

_ID: Final = re.compile(r"#([A-Za-z_][A-Za-z0-9_-]*)")
_id_of: Final = attrgetter("id")
_LEAST_IDS: Final = 4  # fewer are found sooner one by one
_LARGE_BYTES: Final = 64 * 1024  # such a page may have thousands of ids, and those that are wanted among the first


def read_texts(
    tree: LexborHTMLParser, selectors: Mapping[str, str], size_bytes: int, default: str | None = None
) -> dict[str, str | None]:
    """By name, in the order given; the default where nothing matches or nothing is in it. The page has so many
    bytes."""
    ids = _ids(tuple(selectors.values())) if size_bytes <= _LARGE_BYTES else None
    known = {} if ids is None else _by_id(tree)
    # Pages without a proper doctype take the first of those that differ in case, whichever is asked for.
    folded = set(map(str.lower, known))
    alike = len(folded) < len(known)
    texts: dict[str, str | None] = {}
    for (name, selector), wanted in zip(selectors.items(), ids or (None,) * len(selectors), strict=True):
        node = None if wanted is None or alike else known.get(wanted)
        if node is None and (wanted is None or wanted.lower() in folded):
            node = tree.css_first(selector)
        texts[name] = default if node is None else text_in(node) or default
    return texts


def _by_id(tree: LexborHTMLParser) -> dict[str, LexborNode]:
    """The first element of each id. Most pages have more ids than are wanted, so no step of Python is made for each."""
    elements = tree.css("[id]")
    elements.reverse()
    known = dict(zip(map(_id_of, elements), elements, strict=True))
    known.pop(None, None)  # an attribute without a value
    return known


@lru_cache(256)  # a scraper asks for the same fields of every page
def _ids(selectors: tuple[str, ...]) -> tuple[str | None, ...] | None:
    """The id that each selector is, if it is nothing else; None for all when they are too few."""
    matches = [_ID.fullmatch(selector) for selector in selectors]
    ids = tuple(None if match is None else match[1] for match in matches)
    return ids if len(ids) - ids.count(None) >= _LEAST_IDS else None

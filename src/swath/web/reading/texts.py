"""The texts of many selectors at once. To look for each id by itself is to go over the page once for each; here the
elements that have one are found in one pass, and selectors that are nothing but an id are looked up among them.

Called by WebPage.texts_of. Answers as one look-up after the other would.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from swath.web.reading.text import text_in

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["read_texts"]

_ID: Final = re.compile(r"#([A-Za-z_][A-Za-z0-9_-]*)")
_LEAST_IDS: Final = 4  # fewer are found sooner one by one
_LARGE_BYTES: Final = 64 * 1024  # such a page may have thousands of ids, and those that are wanted among the first


def read_texts(tree: LexborHTMLParser, selectors: Mapping[str, str], size_bytes: int) -> dict[str, str | None]:
    """By name, in the order given; None where nothing matches or nothing is in it. The page has so many bytes."""
    ids = _ids(tuple(selectors.values())) if size_bytes <= _LARGE_BYTES else None
    known: dict[str, LexborNode] = {}
    for element in tree.css("[id]") if ids else ():
        known.setdefault(element.id or "", element)
    # Pages without a proper doctype take the first of those that differ in case, whichever is asked for.
    folded = set(map(str.lower, known))
    alike = len(folded) < len(known)
    texts: dict[str, str | None] = {}
    for (name, selector), wanted in zip(selectors.items(), ids or (None,) * len(selectors), strict=True):
        node = None if wanted is None or alike else known.get(wanted)
        if node is None and (wanted is None or wanted.lower() in folded):
            node = tree.css_first(selector)
        texts[name] = None if node is None else text_in(node) or None
    return texts


@lru_cache(256)  # a scraper asks for the same fields of every page
def _ids(selectors: tuple[str, ...]) -> tuple[str | None, ...] | None:
    """The id that each selector is, if it is nothing else; None for all when they are too few."""
    matches = [_ID.fullmatch(selector) for selector in selectors]
    ids = tuple(None if match is None else match[1] for match in matches)
    return ids if len(ids) - ids.count(None) >= _LEAST_IDS else None

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
_NOWHERE: Final = ("", None)
_LARGE_BYTES: Final = 64 * 1024  # such a page may have thousands of ids, and those that are wanted among the first


def read_texts(tree: LexborHTMLParser, selectors: Mapping[str, str], size_bytes: int) -> dict[str, str | None]:
    """By name, in the order given; None where nothing matches or nothing is in it. The page has so many bytes."""
    ids = _ids(tuple(selectors.values())) if size_bytes <= _LARGE_BYTES else None
    if ids is None:
        return {name: _text(tree.css_first(selector)) for name, selector in selectors.items()}
    known: dict[str, tuple[str, LexborNode]] = {}
    for element in tree.css("[id]"):
        found = element.id or ""
        known.setdefault(found.lower(), (found, element))
    texts: dict[str, str | None] = {}
    for (name, selector), wanted in zip(selectors.items(), ids, strict=True):
        if wanted is None:
            texts[name] = _text(tree.css_first(selector))
            continue
        has, node = known.get(wanted.lower(), _NOWHERE)
        if has and has != wanted:
            node = tree.css_first(selector)  # of ids that differ in case, pages without a proper doctype take the first
        texts[name] = _text(node)
    return texts


@lru_cache(256)  # a scraper asks for the same fields of every page
def _ids(selectors: tuple[str, ...]) -> tuple[str | None, ...] | None:
    """The id that each selector is, if it is nothing else; None for all when they are too few."""
    matches = [_ID.fullmatch(selector) for selector in selectors]
    ids = tuple(None if match is None else match[1] for match in matches)
    return ids if len(ids) - ids.count(None) >= _LEAST_IDS else None


def _text(node: LexborNode | None) -> str | None:
    return None if node is None else text_in(node) or None

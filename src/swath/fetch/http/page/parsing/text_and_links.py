"""Text of elements as a person sees it, of one or of many selectors at once, and links with absolute URLs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from swath.domain.errors import Failed
from swath.fetch.url import resolve

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["BREAKING", "UNSEEN", "Link", "collapsed", "lines_in", "read_links", "read_texts", "text_in"]

UNSEEN: Final = frozenset({"script", "style", "template", "noscript"})

_BLOCKS: Final = """
address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure footer
form h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol optgroup option p pre section summary table tbody td tfoot
th thead title tr ul
"""
BREAKING: Final = frozenset(_BLOCKS.split())
_BREAK: Final = "\x00"  # the parser lets no such character through, so it cannot be part of a text


def collapsed(text: str) -> str:
    """Without white space at the ends, and with one space wherever there was some."""
    return " ".join(text.split())


def text_in(node: LexborNode) -> str:
    """The text of a node in one line; scripts and styles inside it are not text."""
    first = node.first_child
    if first is None:
        return " ".join((node.text() or "").split())
    if first.is_text_node and first.next is None:
        return " ".join((first.text_content or "").split())
    return " ".join(lines_in(node))


def lines_in(node: LexborNode) -> list[str]:
    """The text of a node, line by line as `<br>` and blocks break it; empty lines are left out."""
    if node.is_text_node:
        return [text] if (text := collapsed(node.text_content or "")) else []
    pieces: list[str] = []
    around: list[LexborNode] = []  # a stack and no recursion: pages nest deeper than Python does
    at = node.first_child
    while at is not None or around:
        if at is None:
            left = around.pop()
            if left.tag in BREAKING:
                pieces.append(_BREAK)
            at = left.next
        elif at.is_text_node:
            pieces.append(at.text_content or "")
            at = at.next
        elif at.tag in UNSEEN:
            at = at.next
        else:
            if at.tag in BREAKING:
                pieces.append(_BREAK)
            around.append(at)
            at = at.first_child
    return [line for line in map(collapsed, "".join(pieces).split(_BREAK)) if line]


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


_LINKS: Final = frozenset({"a", "area"})


class Link(msgspec.Struct, frozen=True):
    """Where a link leads, and what it says."""

    text: str
    url: str


def read_links(nodes: Iterable[LexborNode], base_url: str, text: str | None = None) -> list[Link]:
    """The links that are, or stand in, these nodes, and contain the text. Scripts, mail and anchors are none."""
    seen: set[int] = set()
    found: list[Link] = []
    for node in _anchors(nodes):
        href = (node.attributes.get("href") or "").strip()
        if not href or href.startswith("#") or node.mem_id in seen:
            continue
        seen.add(node.mem_id)
        said = text_in(node) or (node.attributes.get("alt") or "").strip()
        if text is not None and text not in said:
            continue
        try:
            found.append(Link(said, resolve(href, base_url)))
        except Failed:
            continue  # javascript:, mailto:, or no address at all: a click leads nowhere that can be fetched
    return found


def _anchors(nodes: Iterable[LexborNode]) -> Iterator[LexborNode]:
    for node in nodes:
        if node.tag in _LINKS:
            yield node
        else:
            yield from node.css("a[href], area[href]")

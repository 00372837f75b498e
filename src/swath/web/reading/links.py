"""The links of a page with their absolute addresses. Used by `WebPage.links`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from swath.domain.errors import Failed
from swath.web.address import resolve
from swath.web.reading.text import text_in

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["Link", "read_links"]

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

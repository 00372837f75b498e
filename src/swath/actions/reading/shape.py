"""Shape: how large a parsed page is, for those who must know before they search it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["Shape", "shape_of"]


class Shape(NamedTuple):
    """All elements, the most of them beside each other, and the most inside each other."""

    elements: int
    widest: int
    deepest: int


def shape_of(root: LexborNode) -> Shape:
    """Level by level: pages nest deeper than Python does."""
    elements, widest, deepest = 1, 1, 1
    level = [root]
    while level:
        below: list[LexborNode] = []
        for node in level:
            inside = list(node.iter())
            widest = max(widest, len(inside))
            below += inside
        elements += len(below)
        deepest += bool(below)
        level = below
    return Shape(elements, widest, deepest)

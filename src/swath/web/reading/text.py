"""The text of a node as a person sees it: white space collapsed, words apart where the page breaks the line.

The ground of everything else that is read off a page, so the common case, a node with nothing but text in it, is short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["BREAKING", "UNSEEN", "collapsed", "lines_in", "text_in"]

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

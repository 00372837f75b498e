"""`text/…` on a stored page: the smallest elements whose text contains something, as Chrome's recorder means it.

Used by sight.py and by the marks. All of the text is laid out once, with the stretch of it that each element covers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from swath.web.reading.text import BREAKING, UNSEEN, collapsed

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["Texts"]

_SPACE: Final = re.compile(r"\s+")
_NO_TEXT: Final = UNSEEN | {"head"}
_VALUELESS: Final = frozenset({"checkbox", "radio", "image", "hidden", "password", "file"})


class Texts:
    """The text of a page, or of a part of it."""

    def __init__(self, root: LexborNode) -> None:
        self._covers: list[tuple[LexborNode, int, int, int]] = []  # node, start, end, and how many in it come before
        self._pieces: list[str] = []
        self._length = 0
        self._lay_out(root)
        self._text = "".join(self._pieces)

    def smallest(self, wanted: str) -> list[LexborNode]:
        """In the order of the page; none of them holds another."""
        wanted = collapsed(wanted)
        starts = self._starts(wanted)
        if not starts:
            return []
        found: list[LexborNode] = []
        last = -1
        for number, (node, start, end, first) in enumerate(self._covers):  # what is inside comes before what is around
            at = bisect_left(starts, start)
            if at < len(starts) and starts[at] + len(wanted) <= end and last < first:
                found.append(node)
                last = number
        return found

    def _starts(self, wanted: str) -> list[int]:
        starts: list[int] = []
        at = self._text.find(wanted) if wanted else -1
        while at >= 0:
            starts.append(at)
            at = self._text.find(wanted, at + 1)
        return starts

    def _lay_out(self, root: LexborNode) -> None:
        around: list[tuple[LexborNode, int, int]] = []
        at: LexborNode | None = root
        while at is not None or around:
            if at is None:
                node, start, first = around.pop()
                self._covers.append((node, start, self._length, first))
                if node.tag in BREAKING:
                    self._add(" ")
                at = None if node.mem_id == root.mem_id else node.next
            elif at.is_element_node and at.tag not in _NO_TEXT:
                if at.tag in BREAKING:
                    self._add(" ")
                around.append((at, self._length, len(self._covers)))
                self._add(_shown_value(at))
                at = at.first_child
            else:
                self._add((at.text_content or "") if at.is_text_node else "")
                at = at.next

    def _add(self, text: str) -> None:
        text = _SPACE.sub(" ", text)
        if text.startswith(" ") and (not self._pieces or self._pieces[-1].endswith(" ")):
            text = text[1:]
        if text:
            self._pieces.append(text)
            self._length += len(text)


def _shown_value(node: LexborNode) -> str:
    """What a person reads in a field or on a button."""
    if node.tag != "input" or (node.attributes.get("type") or "").lower() in _VALUELESS:
        return ""
    return node.attributes.get("value") or ""

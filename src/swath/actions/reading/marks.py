"""Marks on a stored page: whether it shows what says that there is no such record.

Asked by read.py when a record cannot be read. The player has looked before, on the page itself; what a style sheet
hides is not known here, so that these marks never count against a record that is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from swath.actions.language.conditions import Mark
from swath.actions.language.selector import Selectors, part_of
from swath.actions.language.template import Literal, has_references, parse
from swath.actions.reading.sight import Sight
from swath.web.reading.text import UNSEEN, collapsed, text_in

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["shown_mark"]

_HIDING: Final = re.compile(r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))", re.IGNORECASE)


def shown_mark(marks: Iterable[Mark], sight: Sight) -> str | None:
    """What the page says where the first mark is that it shows; None when it shows none."""
    for mark in marks:
        for node in _where(mark, sight):
            if not _is_hidden(node):
                return text_in(node)
    return None


def _where(mark: Mark, sight: Sight) -> list[LexborNode]:
    """References to an item's input may stand for anything: a stored page knows of none."""
    pieces = [] if mark.text is None else _pieces(mark.text)
    if mark.on is None:
        return [node for node in sight.containing(max(pieces, key=len, default="")) if _has_all(node, pieces)]
    on = _without_browser(mark.on)
    found = sight.find(on) if on else []
    return [node for node in found if not isinstance(node, str) and _has_all(node, pieces)]


def _pieces(text: str) -> list[str]:
    parts = [collapsed(part.text) for part in parse(text).parts if isinstance(part, Literal)]
    return [part for part in parts if part]


def _has_all(node: LexborNode, pieces: list[str]) -> bool:
    """Whether the text has them all, in their order."""
    text, at = text_in(node), 0
    for piece in pieces:
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return True


def _without_browser(selectors: Selectors) -> Selectors:
    """Those alternatives that mean something here."""
    return tuple(
        chain for chain in selectors if not any(part_of(text).kind == "aria" or has_references(text) for text in chain)
    )


def _is_hidden(node: LexborNode) -> bool:
    at: LexborNode | None = node
    while at is not None:
        attributes = at.attributes
        if "hidden" in attributes or _HIDING.search(attributes.get("style") or ""):
            return True
        if at.tag in UNSEEN or (at.tag == "dialog" and "open" not in attributes):
            return True
        at = at.parent
    return False

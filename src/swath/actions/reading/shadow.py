"""Shadow roots in stored HTML, which has them as `<template shadowrootmode="open">`. No parser shows what is inside a
template, so these are read under another name: as an element that holds anything without disturbing what is around it.

Before: browser/session/dom.py wrote them. After: sight.py parses the page.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["closed", "has_shadows", "is_shadow", "opened", "shadow_around", "shadow_of"]

# Of the few elements that no tag inside them can close by accident, the one that no page of our days has.
_TAG: Final = "applet"
_MARK: Final = "swath-shadow"
_STORED_TAG: Final = "template"
_STORED_MARK: Final = "shadowrootmode"
_TOKEN: Final = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<raw>script|style|textarea|title|xmp|iframe|noembed|noframes)\b[^>]*+>.*?(?=</(?P=raw)[\s/>]|\Z)"
    r"|<(?P<end>/?)(?P<name>[a-z][^\s/>]*+)(?P<rest>(?:[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+')?)*+)>",
    re.DOTALL | re.IGNORECASE,
)
_LETTER: Final = re.compile(r"</?[a-z]", re.IGNORECASE)


def has_shadows(html: bytes) -> bool:
    """Whether it is worth looking."""
    return _STORED_MARK.encode() in html


def opened(html: str) -> str:
    """The page with its shadow roots as ordinary elements."""
    return _renamed(html, (_STORED_TAG, _STORED_MARK), (_TAG, _MARK))


def closed(html: str) -> str:
    """A piece of such a page as it was stored."""
    return _renamed(html, (_TAG, _MARK), (_STORED_TAG, _STORED_MARK)) if _MARK in html else html


def is_shadow(node: LexborNode) -> bool:
    """Whether it stands for a shadow root."""
    return node.tag == _TAG and _MARK in node.attributes


def shadow_of(host: LexborNode) -> LexborNode | None:
    """The shadow root of an element, if it has one."""
    return next((child for child in host.iter() if is_shadow(child)), None)


def shadow_around(node: LexborNode) -> int | None:
    """The shadow root that an element stands in, as its `mem_id`; None in the page itself."""
    at = node.parent
    while at is not None:
        if is_shadow(at):
            return at.mem_id
        at = at.parent
    return None


def _renamed(html: str, old: tuple[str, str], new: tuple[str, str]) -> str:
    """Every element of one name that has a mark gets another name and mark; those without it stay as they are."""
    pieces: list[str] = []
    stack: list[bool] = []  # for each open element of that name, whether it was renamed
    at = 0
    while (start := html.find("<", at)) >= 0:
        token = _TOKEN.match(html, start)
        if token is None:
            if _LETTER.match(html, start):
                break  # a tag that never ends: the parser drops the rest, too
            pieces.append(html[at : start + 1])
            at = start + 1
            continue
        text = token[0]
        if (token["name"] or "").lower() == old[0]:
            if token["end"]:
                renamed = stack.pop() if stack else False
                text = f"</{new[0]}>" if renamed else text
            else:
                stack.append(re.search(rf"\s{old[1]}\s*=", token["rest"], re.IGNORECASE) is not None)
                if stack[-1]:
                    rest = re.sub(rf"(?i)(?<=\s){old[1]}(?=\s*=)", new[1], token["rest"], count=1)
                    text = f"<{new[0]}{rest}>"
        pieces += (html[at:start], text)
        at = token.end()
    return "".join([*pieces, html[at:]])

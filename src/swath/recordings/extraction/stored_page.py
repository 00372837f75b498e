"""Finds elements on a stored page by the selectors of a recording, through shadow roots, without a browser.

Stored HTML has shadow roots as `<template shadowrootmode="open">`, whose content no parser shows, so they are parsed
under another tag. `text/…` finds the smallest elements that contain a text, as Chrome's recorder means it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from selectolax.lexbor import SelectolaxError

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.fetch.http.page.page import WebPage
from swath.fetch.http.page.parsing.text_and_links import BREAKING, UNSEEN, collapsed
from swath.recordings.schema.selectors import SelectorPart, Selectors, part_of
from swath.recordings.schema.template import render_template
from swath.recordings.validation.selectors import css_cost_of, xpath_cost_of

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

    from swath.fetch.http.page.parsing.xpath import XPathTree

__all__ = [
    "PageShape",
    "SelectablePage",
    "TextIndex",
    "close_shadow_roots",
    "has_shadows",
    "is_shadow",
    "open_shadow_roots",
    "shadow_around",
    "shadow_of",
    "shape_of",
]


class PageShape(NamedTuple):
    """All elements, the most of them beside each other, and the most inside each other."""

    elements: int
    widest: int
    deepest: int


def shape_of(root: LexborNode) -> PageShape:
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
    return PageShape(elements, widest, deepest)


_SPACE: Final = re.compile(r"\s+")
_NO_TEXT: Final = UNSEEN | {"head"}
_VALUELESS: Final = frozenset({"checkbox", "radio", "image", "hidden", "password", "file"})


class TextIndex:
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


def open_shadow_roots(html: str) -> str:
    """The page with its shadow roots as ordinary elements."""
    return _renamed(html, (_STORED_TAG, _STORED_MARK), (_TAG, _MARK))


def close_shadow_roots(html: str) -> str:
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


_MOST_STEPS: Final = 200_000_000  # either parser takes some 10 ns for each, and nothing can stop it


class SelectablePage:
    """One page. What it parses it keeps, so that many rules cost little more than one."""

    def __init__(self, page: WebPage) -> None:
        self.page = page
        self._has_shadows = has_shadows(page.body)
        self._seen = _with_open_shadows(page) if self._has_shadows else page
        self._texts: TextIndex | None = None
        self._xpath_tree: XPathTree | None = None

    @cached_property
    def _shape(self) -> PageShape:
        root = self._seen.tree.root
        return PageShape(0, 0, 0) if root is None else shape_of(root)

    def find(self, selectors: Selectors, within: LexborNode | None = None) -> list[LexborNode | str]:
        """All that the first alternative finds that finds anything, in the page or inside one of its elements.

        XPath can find text, too.
        """
        for chain in selectors:
            found = self._chained([_part(text) for text in chain], within)
            if found:
                return found
        return []

    def containing(self, text: str) -> list[LexborNode]:
        """The smallest elements of the page with that text."""
        if self._texts is None:
            root = self._seen.tree.root
            if root is None:
                return []
            self._texts = TextIndex(root)
        return self._texts.smallest(text)

    def _chained(self, parts: list[SelectorPart], within: LexborNode | None) -> list[LexborNode | str]:
        found = self._part(parts[0], within)
        for part in parts[1:]:
            hosts = [one for one in found if not isinstance(one, str)]
            found = _without_duplicates(match for host in hosts for match in self._part(part, shadow_of(host) or host))
        return found

    def _part(self, part: SelectorPart, within: LexborNode | None) -> list[LexborNode | str]:
        match part.kind:
            case "css":
                return [node for node in self._css(part.value, within) if self._is_near(node, within)]
            case "pierce":
                return list(self._css(part.value, within))
            case "text":
                return list(self.containing(part.value) if within is None else TextIndex(within).smallest(part.value))
            case "xpath":
                return self._xpath(part.value, within)
        raise _unreadable(part.value, "it needs a browser")

    def _css(self, selector: str, within: LexborNode | None) -> list[LexborNode]:
        cost = css_cost_of(selector)
        if (cost.around > 1 or cost.beside > 1) and cost.steps(*self._shape) > _MOST_STEPS:
            raise _too_long(f"the selector {selector!r}", self._shape.elements)
        try:
            if within is None:
                found = self._seen.css(selector)
            else:
                found = [node for node in within.css(selector) if node.mem_id != within.mem_id]
        except SelectolaxError as error:
            raise _unreadable(selector, str(error)) from None
        return [node for node in found if not is_shadow(node)] if self._has_shadows else found

    def _xpath(self, expression: str, within: LexborNode | None) -> list[LexborNode | str]:
        from lxml import etree  # noqa: PLC0415 loaded for the recordings that need it

        from swath.fetch.http.page.parsing.xpath import XPathTree  # noqa: PLC0415 the same

        if self._xpath_tree is None:
            self._xpath_tree = XPathTree(self._seen.tree)
        tree = self._xpath_tree
        if xpath_cost_of(expression).steps(tree.elements, tree.widest, tree.deepest) > _MOST_STEPS:
            raise _too_long(f"the XPath {expression!r}", tree.elements)
        try:
            found = tree.find(expression, {}, within)
        except etree.XPathError as error:
            raise _unreadable(expression, str(error)) from None
        near = [one for one in found if isinstance(one, str) or self._is_near(one, within)]
        if within is None:
            return near
        return [one for one in near if isinstance(one, str) or _is_inside(one, within)]

    def _is_near(self, node: LexborNode, within: LexborNode | None) -> bool:
        """Whether no shadow root is between them: neither CSS nor XPath looks into one."""
        if not self._has_shadows:
            return True
        if within is None:
            return shadow_around(node) is None
        return shadow_around(node) == (within.mem_id if is_shadow(within) else shadow_around(within))


def _too_long(what: str, elements: int) -> Failed:
    return Failed(Failure.of(FailureKind.TOO_LARGE, f"{what} would take too long on a page of {elements:,} elements"))


def _part(text: str) -> SelectorPart:
    kind, value = part_of(text)
    return SelectorPart(kind, render_template(value, {}))  # no input stands in it, but perhaps braces in quotes


def _with_open_shadows(page: WebPage) -> WebPage:
    body = open_shadow_roots(page.text).encode("utf-8", "replace")
    return WebPage(msgspec.structs.replace(page.page, body=body, charset="utf-8"))


def _without_duplicates(found: Iterable[LexborNode | str]) -> list[LexborNode | str]:
    return list({one if isinstance(one, str) else one.mem_id: one for one in found}.values())


def _is_inside(node: LexborNode, within: LexborNode) -> bool:
    """Or the element itself, which XPath can name: `xpath/.`."""
    at: LexborNode | None = node
    while at is not None:
        if at.mem_id == within.mem_id:
            return True
        at = at.parent
    return False


def _unreadable(selector: str, why: str) -> Failed:
    message = f"the selector {selector!r} cannot be used on a stored page: {why}"
    return Failed(Failure.of(FailureKind.INTERNAL, message))

"""Sight: a stored page as the selectors of a recording see it, through shadow roots, without a browser.

Before: a page was stored by the player. After: rules.py reads values out of what is found here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
from selectolax.lexbor import SelectolaxError

from swath.actions.checking.css import css_cost_of
from swath.actions.checking.xpath import cost_of
from swath.actions.language.selector import Part, Selectors, part_of
from swath.actions.language.template import render
from swath.actions.reading.shadow import has_shadows, is_shadow, opened, shadow_around, shadow_of
from swath.actions.reading.shape import Shape, shape_of
from swath.actions.reading.texts import Texts
from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.web.page import WebPage

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

    from swath.web.reading.xpath import XPathTree

__all__ = ["Sight"]

_MOST_STEPS: Final = 200_000_000  # either parser takes some 10 ns for each, and nothing can stop it


class Sight:
    """One page. What it parses it keeps, so that many rules cost little more than one."""

    def __init__(self, page: WebPage) -> None:
        self.page = page
        self._has_shadows = has_shadows(page.body)
        self._seen = _with_open_shadows(page) if self._has_shadows else page
        self._texts: Texts | None = None
        self._xpath_tree: XPathTree | None = None

    @cached_property
    def _shape(self) -> Shape:
        root = self._seen.tree.root
        return Shape(0, 0, 0) if root is None else shape_of(root)

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
            self._texts = Texts(root)
        return self._texts.smallest(text)

    def _chained(self, parts: list[Part], within: LexborNode | None) -> list[LexborNode | str]:
        found = self._part(parts[0], within)
        for part in parts[1:]:
            hosts = [one for one in found if not isinstance(one, str)]
            found = _once(match for host in hosts for match in self._part(part, shadow_of(host) or host))
        return found

    def _part(self, part: Part, within: LexborNode | None) -> list[LexborNode | str]:
        match part.kind:
            case "css":
                return [node for node in self._css(part.value, within) if self._is_near(node, within)]
            case "pierce":
                return list(self._css(part.value, within))
            case "text":
                return list(self.containing(part.value) if within is None else Texts(within).smallest(part.value))
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

        from swath.web.reading.xpath import XPathTree  # noqa: PLC0415 the same

        if self._xpath_tree is None:
            self._xpath_tree = XPathTree(self._seen.tree)
        tree = self._xpath_tree
        if cost_of(expression).steps(tree.elements, tree.widest, tree.deepest) > _MOST_STEPS:
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


def _part(text: str) -> Part:
    kind, value = part_of(text)
    return Part(kind, render(value, {}))  # no input stands in it, but perhaps braces in quotes


def _with_open_shadows(page: WebPage) -> WebPage:
    body = opened(page.text).encode("utf-8", "replace")
    return WebPage(msgspec.structs.replace(page.page, body=body, charset="utf-8"))


def _once(found: Iterable[LexborNode | str]) -> list[LexborNode | str]:
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

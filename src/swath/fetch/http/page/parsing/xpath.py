"""XPath over a parsed page. Copies the tree to lxml, so XPath and CSS see the same nodes.

Loads lxml, so import it late.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

from lxml import etree

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["XPathTree"]

_MOST_ELEMENTS: Final = 200_000
_DEEPEST: Final = 500  # browsers stop there, too
_NAME: Final = re.compile(r"[^\W\d][\w.-]*")
_NO_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class XPathTree:
    """One page. Raises Failed too_large when it has too many elements or nests too deep to be searched this way."""

    def __init__(self, tree: LexborHTMLParser) -> None:
        self._nodes: dict[etree._Element, LexborNode] = {}
        self._copies: dict[int, etree._Element] = {}
        self.deepest = 1
        """How many elements stand inside each other."""
        root = tree.root
        if root is None:
            raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "the page is empty"))
        self._root = self._copied(root)

    def find(
        self, expression: str, variables: dict[str, str | float], within: LexborNode | None = None
    ) -> list[LexborNode | str]:
        """Elements as our nodes, anything else as text. The value of a `$name` cannot change the meaning.

        Paths that begin without a slash begin at `within`, or at the top.
        """
        start = self._root if within is None else self._copy_of(within)
        # Plain strings: the clever ones of lxml hold the whole tree.
        found: Any = etree.XPath(expression, smart_strings=False)(start, **variables)
        results = found if isinstance(found, list) else [found]
        return [self._nodes[one] if etree.iselement(one) else _as_text(one) for one in results]

    @property
    def elements(self) -> int:
        """How many there are: what a search costs grows with them."""
        return len(self._nodes)

    @functools.cached_property
    def widest(self) -> int:
        """How many elements stand beside each other."""
        return max(map(len, self._nodes))

    def _copy_of(self, node: LexborNode) -> etree._Element:
        if not self._copies:
            self._copies = {one.mem_id: copy for copy, one in self._nodes.items()}
        return self._copies[node.mem_id]

    def _copied(self, root: LexborNode) -> etree._Element:
        top = self._element(root, None)
        around = [top]
        at, left = root.first_child, [root]
        while left:
            if at is None:
                at = left.pop().next
                around.pop()
                continue
            if at.is_text_node:
                _append_text(around[-1], at.text_content or "")
            elif at.is_element_node:
                copy = self._element(at, around[-1])
                if len(around) >= _DEEPEST:
                    raise _too_large(f"nests deeper than {_DEEPEST} elements")
                around.append(copy)
                left.append(at)
                self.deepest = max(self.deepest, len(around))
                at = at.first_child
                continue
            at = at.next
        return top

    def _element(self, node: LexborNode, parent: etree._Element | None) -> etree._Element:
        if len(self._nodes) >= _MOST_ELEMENTS:
            raise _too_large(f"has more than {_MOST_ELEMENTS:,} elements")
        tag = node.tag or ""
        tag = tag if _NAME.fullmatch(tag) else re.sub(r"[^\w.-]", "_", f"_{tag}")
        copy = etree.Element(tag) if parent is None else etree.SubElement(parent, tag)
        for name, value in node.attributes.items():
            if _NAME.fullmatch(name):  # @click and the like have no place in XML, and so no XPath
                copy.set(name, _NO_XML.sub("", value or ""))
        self._nodes[copy] = node
        return copy


def _append_text(element: etree._Element, text: str) -> None:
    text = _NO_XML.sub("", text)
    if len(element):
        last = element[-1]
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text


def _as_text(value: object) -> str:
    """Numbers and truth values as XPath's own string() writes them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _too_large(what: str) -> Failed:
    return Failed(Failure.of(FailureKind.TOO_LARGE, f"the page {what}, which is too much for XPath"))

"""WebPage: a fetched or stored page as authors handle it. Parsed once, on first use; fetch and extract share the tree.

Made by the session for every answer, or from a stored Page; `extract` reads it, `form` sends it on.
"""

from __future__ import annotations

from typing import Any, overload
from urllib.parse import urljoin

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.page import Page
from swath.web.address import resolve, shown
from swath.web.form import Form, FormPlace, FormSender

__all__ = ["DEFAULT_NAME", "WebPage"]

DEFAULT_NAME = "html"


class WebPage:
    """One page. Selectors are CSS; `page` is the stored form of it."""

    __slots__ = ("_sender", "_text", "_tree", "page")

    def __init__(self, page: Page, sender: FormSender[WebPage] | None = None) -> None:
        self.page = page
        self._sender = sender
        self._text: str | None = None
        self._tree: LexborHTMLParser | None = None

    def __repr__(self) -> str:
        return f"<WebPage {self.page.name!r} {self.page.status} {self.page.url}>"

    @property
    def name(self) -> str:
        """Under which it is stored."""
        return self.page.name

    @property
    def url(self) -> str:
        """After redirects."""
        return self.page.url

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.page.status

    @property
    def body(self) -> bytes:
        """As it came."""
        return self.page.body

    @property
    def text(self) -> str:
        """The body as text, tags and all."""
        if self._text is None:
            self._text = self.page.text
        return self._text

    @property
    def tree(self) -> LexborHTMLParser:
        """The parsed page."""
        if self._tree is None:
            # The parser takes UTF-8 bytes as they are, which saves decoding and encoding them once.
            self._tree = LexborHTMLParser(self.page.body if self.page.charset == "utf-8" else self.text)
        return self._tree

    @property
    def base_url(self) -> str:
        """What relative links on the page refer to."""
        for base in self.tree.tags("base"):
            if href := base.attributes.get("href"):
                return urljoin(self.page.url, href)
        return self.page.url

    def link(self, href: str) -> str:
        """The absolute address of a link on the page."""
        return resolve(href, self.base_url)

    def css(self, selector: str) -> list[LexborNode]:
        """All nodes that match."""
        return self.tree.css(selector)

    def css_first(self, selector: str) -> LexborNode | None:
        """The first node that matches."""
        return self.tree.css_first(selector)

    @overload
    def text_of(self, selector: str) -> str | None: ...
    @overload
    def text_of(self, selector: str, default: str) -> str: ...
    def text_of(self, selector: str, default: str | None = None) -> str | None:
        """The text of the first match, white space collapsed; the default when there is none or it is empty."""
        node = self.tree.css_first(selector)
        if node is None:
            return default
        return " ".join(node.text(separator=" ").split()) or default

    def json(self) -> Any:
        """The body as JSON. Raises Failed layout_changed when it is none."""
        try:
            return msgspec.json.decode(self.page.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._changed(f"is no JSON: {error}") from None

    def expect(self, selector: str, text: str | None = None) -> WebPage:
        """Makes sure that this is the right page: something matches and, if given, contains the text.

        Raises Failed layout_changed, so that a strange page never passes for an empty record.
        """
        nodes = self.tree.css(selector)
        if not nodes:
            raise self._changed(f"has no {selector}")
        if text is not None and not any(text in " ".join(node.text(separator=" ").split()) for node in nodes):
            raise self._changed(f"has no {selector} with {text!r}")
        return self

    def form(self, selector: str = "form") -> Form[WebPage]:
        """A form of the page, ready to be filled. Raises Failed layout_changed when there is none."""
        node = self.tree.css_first(selector)
        if node is None or node.tag != "form":
            raise self._changed(f"has no form {selector}")
        return Form(FormPlace(self.tree, self.page.url, self.base_url, self.page.charset), node, self._sender)

    def named(self, name: str) -> WebPage:
        """The same page under another name, sharing what was parsed."""
        if name == self.page.name:
            return self
        other = WebPage(msgspec.structs.replace(self.page, name=name), self._sender)
        other._text, other._tree = self._text, self._tree
        return other

    def _changed(self, what: str) -> Failed:
        return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, f"the page {shown(self.page.url)} {what}"))

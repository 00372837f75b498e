"""WebPage: a fetched or stored page with selectors, tables, links and forms. Parsed once, on first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.result import Page
from swath.fetch.http.page.form import Form, FormContext, FormSender, FormSubmission, read_post_back
from swath.fetch.http.page.parsing.parse_cost import parse_refusal
from swath.fetch.http.page.parsing.tables_and_pairs import Pairs, read_pairs, read_table
from swath.fetch.http.page.parsing.text_and_links import Link, lines_in, read_links, read_texts, text_in
from swath.fetch.url import redacted, resolve

if TYPE_CHECKING:
    from swath.fetch.http.page.parsing.xpath import XPathTree

__all__ = ["DEFAULT_NAME", "WebPage"]

DEFAULT_NAME = "html"
_MOST_FORMS = 100


class WebPage:
    """One page. Selectors are CSS; `page` is the stored form of it."""

    __slots__ = ("_sender", "_text", "_tree", "_xpath", "page")

    def __init__(self, page: Page, sender: FormSender[WebPage] | None = None) -> None:
        self.page = page
        self._sender = sender
        self._text: str | None = None
        self._tree: LexborHTMLParser | None = None
        self._xpath: XPathTree | None = None

    def __repr__(self) -> str:
        return f"<WebPage {self.page.name!r} {self.page.status} {redacted(self.page.url)}>"

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
        """The parsed page. Raises Failed too_large when parsing it would cost too much time or memory."""
        if self._tree is None:
            # The parser takes UTF-8 bytes as they are, which saves decoding and encoding them once.
            html = self.page.body if self.page.charset == "utf-8" else self.text.encode("utf-8", "replace")
            if (why := parse_refusal(html)) is not None:
                raise Failed(Failure.of(FailureKind.TOO_LARGE, f"the page {redacted(self.page.url)} {why}"))
            self._tree = LexborHTMLParser(html)
        return self._tree

    @property
    def base_url(self) -> str:
        """What relative links on the page refer to."""
        for base in self.tree.tags("base"):
            if href := base.attributes.get("href"):
                try:
                    return resolve(href, self.page.url)
                except Failed:
                    break  # a base that is no web address is none
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

    def select_one(self, selector: str) -> LexborNode:
        """The first node that matches. Raises Failed layout_changed when there is none."""
        node = self.tree.css_first(selector)
        if node is None:
            raise self._changed(f"has no {selector}")
        return node

    def xpath(self, expression: str, /, **variables: str | float) -> list[LexborNode | str]:
        """What XPath finds: elements as nodes like those of `css`, anything else as text. `$name` is a variable."""
        if self._xpath is None:
            from swath.fetch.http.page.parsing.xpath import XPathTree  # noqa: PLC0415 loads lxml, which few scrapers need

            self._xpath = XPathTree(self.tree)
        return self._xpath.find(expression, variables)

    @overload
    def text_of(self, selector: str) -> str | None: ...
    @overload
    def text_of(self, selector: str, default: str) -> str: ...
    def text_of(self, selector: str, default: str | None = None) -> str | None:
        """The text of the first match, white space collapsed; the default when there is none or it is empty."""
        node = self.tree.css_first(selector)
        return default if node is None else text_in(node) or default

    @overload
    def texts_of(self, selectors: Mapping[str, str]) -> dict[str, str | None]: ...
    @overload
    def texts_of(self, selectors: Mapping[str, str], default: str) -> dict[str, str]: ...
    def texts_of(self, selectors: Mapping[str, str], default: str | None = None) -> Mapping[str, str | None]:
        """What `text_of` says of each selector, by the name of its field: a record. Quicker where fields have ids."""
        return read_texts(self.tree, selectors, len(self.page.body), default)

    def lines_of(self, selector: str) -> list[str]:
        """The text of the first match, line by line as `<br>` and blocks break it; none when nothing matches."""
        node = self.tree.css_first(selector)
        return [] if node is None else lines_in(node)

    def table(self, selector: str = "table", *, header: Sequence[str] | None = None) -> list[dict[str, str]]:
        """The rows of a table by the names of its columns; raises Failed layout_changed without one."""
        node = self.select_one(selector)
        table = node if node.tag == "table" else node.css_first("table")
        if table is None:
            raise self._changed(f"has no table {selector}")
        return read_table(table, header)

    def pairs(self, selector: str) -> Pairs:
        """The labelled values in all that matches. Raises Failed layout_changed when nothing does."""
        nodes = self.tree.css(selector)
        if not nodes:
            raise self._changed(f"has no {selector}")
        return Pairs(read_pairs(nodes), self.page.url)

    def links(self, selector: str = "a", text: str | None = None) -> list[Link]:
        """The links that match or stand in what matches; only those with the text, if it is given."""
        return read_links(self.tree.css(selector), self.base_url, text)

    def link_at(self, selector: str = "a", text: str | None = None) -> str:
        """The address of the first such link. Raises Failed layout_changed when there is none."""
        found = self.links(selector, text)
        if not found:
            raise self._changed(f"has no link {selector}" + (f" with {text!r}" if text is not None else ""))
        return found[0].url

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
        if text is not None and not any(text in text_in(node) for node in nodes):
            raise self._changed(f"has no {selector} with {text!r}")
        return self

    def form(self, selector: str = "form") -> Form[WebPage]:
        """A form of the page, ready to be filled. Raises Failed layout_changed when there is none."""
        node = self.tree.css_first(selector)
        if node is None or node.tag != "form":
            raise self._changed(f"has no form {selector}")
        return self._form_at(node)

    async def post_back(self, target: str, argument: str = "", *, name: str | None = None) -> WebPage:
        """Does `__doPostBack(target, argument)` with the WebForms form of the page, all its fields included."""
        return await self._web_form().post_back(target, argument, name=name)

    async def click(self, selector: str, *, name: str | None = None) -> WebPage:
        """Follows a link, presses a button, or does the post-back on an element. What only a browser can do fails."""
        return await self._click(self.select_one(selector), selector, name)

    async def accept(
        self, selector: str, button: str | None = None, *, fill: Mapping[str, object] | None = None
    ) -> WebPage:
        """Gets past a disclaimer: the page behind it, or this page if it has none.

        What matches is, or holds, a form to fill and send; or a link or button to click. Raises Failed navigation when
        the same question comes back.
        """
        node = self.tree.css_first(selector)
        if node is None:
            return self
        form = node if node.tag == "form" else node.css_first("form")
        if form is None:
            behind = await self._click(node, selector, None)
        else:
            behind = await self._form_at(form).fill(fill).submit(button)
        if behind.css_first(selector) is not None:
            message = f"the page {redacted(behind.url)} asks for {selector} again"
            raise Failed(Failure.of(FailureKind.NAVIGATION, message))
        return behind

    def named(self, name: str) -> WebPage:
        """The same page under another name, sharing what was parsed."""
        if name == self.page.name:
            return self
        other = WebPage(msgspec.structs.replace(self.page, name=name), self._sender)
        other._text, other._tree, other._xpath = self._text, self._tree, self._xpath
        return other

    async def _click(self, node: LexborNode, selector: str, name: str | None) -> WebPage:
        event = read_post_back(node)
        if event is not None and not event.by_button:
            return await self._web_form().send_event(event, name=name)
        for form in map(self._form_at, self.tree.css("form")[:_MOST_FORMS]):
            if form.has_button(node):
                return await form.press(node, event, name=name)
        href = (node.attributes.get("href") or "").strip()
        if node.tag != "a" or not href or href[:11].lower() == "javascript:":
            raise self._changed(f"has nothing at {selector} that can be clicked without a browser")
        if self._sender is None:
            message = "a link on a stored page cannot be followed; only fetch has the network"
            raise Failed(Failure.of(FailureKind.INTERNAL, message))
        return await self._sender.send_form(FormSubmission(self.link(href), self.page.url), name)

    def _web_form(self) -> Form[WebPage]:
        forms = [self._form_at(node) for node in self.tree.css("form")[:_MOST_FORMS]]
        if not forms:
            raise self._changed("has no form to post back")
        return next((form for form in forms if form.is_web_form), forms[0])

    def _form_at(self, node: LexborNode) -> Form[WebPage]:
        return Form(FormContext(self.tree, self.page.url, self.base_url, self.page.charset), node, self._sender)

    def _changed(self, what: str) -> Failed:
        return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, f"the page {redacted(self.page.url)} {what}"))

"""Reading pages by plain functions: for a page or a node of one, in scrapers and in their tests.

What is missing raises Failed layout_changed, so that a strange page never passes for an empty record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, overload

from pydantic import BaseModel

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.page import Page
from swath.web.address import shown
from swath.web.charset import charset_of
from swath.web.page import DEFAULT_NAME, WebPage
from swath.web.reading.text import text_in

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = ["assert_fields_present", "assert_html_contains", "extract_text", "parse_html", "select_one"]


def parse_html(html: str | bytes, url: str = "about:blank") -> WebPage:
    """A page out of HTML that was not fetched as one: a piece of a JSON answer, or a file in a test."""
    body = html.encode("utf-8", "replace") if isinstance(html, str) else html
    charset = "utf-8" if isinstance(html, str) else charset_of(None, html)
    return WebPage(Page(name=DEFAULT_NAME, url=url, status=200, body=body, charset=charset))


def select_one(where: WebPage | LexborNode, selector: str) -> LexborNode:
    """The first node that matches. Raises Failed layout_changed when there is none; `css_first` gives None then."""
    if isinstance(where, WebPage):
        return where.select_one(selector)
    found = where.css_first(selector)
    if found is None:
        raise _changed(f"there is no {selector} in <{where.tag}>")
    return found


@overload
def extract_text(where: WebPage | LexborNode, selector: str | None = None) -> str | None: ...
@overload
def extract_text(where: WebPage | LexborNode, selector: str | None = None, *, default: str) -> str: ...
def extract_text(where: WebPage | LexborNode, selector: str | None = None, *, default: str | None = None) -> str | None:
    """The text of a page or node, or of the first match in it, in one line; the default when there is none."""
    if isinstance(where, WebPage):
        node = where.tree.body if selector is None else where.css_first(selector)
    else:
        node = where if selector is None else where.css_first(selector)
    return default if node is None else text_in(node) or default


def assert_html_contains(page: WebPage, *wanted: str) -> None:
    """Makes sure that each text is on the page, in its HTML or in what a person reads. Raises Failed layout_changed."""
    lacking = [text for text in wanted if text not in page.text]
    if lacking:
        seen = extract_text(page, default="")
        lacking = [text for text in lacking if text not in seen]
    if lacking:
        raise _changed(f"the page {shown(page.url)} does not contain {', '.join(map(repr, lacking))}")


def assert_fields_present(record: Mapping[str, object] | BaseModel, *names: str) -> None:
    """Makes sure that these fields of a record, or all if none is named, have a value. Raises Failed layout_changed."""
    fields = record.__dict__ if isinstance(record, BaseModel) else record
    lacking = [name for name in names or fields if _is_empty(fields.get(name))]
    if lacking or not fields:
        raise _changed(f"the record has no {', '.join(lacking) or 'fields'}")


def _is_empty(value: object) -> bool:
    """Zero and False are values."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, (list, tuple, dict)) and not value)


def _changed(message: str) -> Failed:
    return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, message))

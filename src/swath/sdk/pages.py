"""Pages: what `extract` gets, just fetched or read from storage; and functions that read a page or node.

What is missing raises Failed layout_changed, so that an unexpected page never passes for an empty record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, overload

from pydantic import BaseModel

from swath.domain.errors import Failed
from swath.domain.failure import Failure, FailureKind
from swath.domain.result import Page
from swath.fetch.http.header_values import charset_of
from swath.fetch.http.page.page import DEFAULT_NAME, WebPage
from swath.fetch.http.page.parsing.text_and_links import text_in
from swath.fetch.url import redacted

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

__all__ = [
    "FetchedPages",
    "Pages",
    "assert_fields_present",
    "assert_html_contains",
    "extract_text",
    "named_pages",
    "parse_html",
    "select_one",
]

FetchedPages = WebPage | Mapping[str, WebPage] | Iterable[WebPage] | None


class Pages(Mapping[str, WebPage]):
    """The pages of one item by name; a missing name raises Failed, since the record cannot be read without it."""

    __slots__ = ("_pages",)

    def __init__(self, pages: Mapping[str, WebPage]) -> None:
        self._pages = pages

    @classmethod
    def stored(cls, pages: Iterable[Page]) -> Pages:
        """From what storage kept; forms on them can be read, but not sent."""
        return cls({page.name: WebPage(page) for page in pages})

    @property
    def main(self) -> WebPage:
        """The page of a scraper that has one: `html`, or the only one there is."""
        if DEFAULT_NAME not in self._pages and len(self._pages) == 1:
            return next(iter(self._pages.values()))
        return self[DEFAULT_NAME]

    def __getitem__(self, name: str) -> WebPage:
        try:
            return self._pages[name]
        except KeyError:
            known = ", ".join(self._pages) or "none"
            message = f"there is no page {name!r} to extract from; there is {known}"
            raise Failed(Failure.of(FailureKind.INTERNAL, message)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._pages

    def __iter__(self) -> Iterator[str]:
        return iter(self._pages)

    def __len__(self) -> int:
        return len(self._pages)


def named_pages(fetched: FetchedPages) -> list[tuple[str, WebPage]]:
    """The names under which the pages that `fetch` returned are stored.

    One page keeps the name it was fetched under; in a list, those without a name of their own are numbered from the
    second: html, html-2, …
    """
    if fetched is None:
        return []
    if isinstance(fetched, WebPage):
        return [(fetched.name, fetched)]
    if isinstance(fetched, Mapping):
        return list(fetched.items())
    named: list[tuple[str, WebPage]] = []
    for page in fetched:
        own = getattr(page, "name", DEFAULT_NAME)  # what is no page is refused when it is kept
        count = sum(1 for name, _ in named if name == own or str(name).startswith(f"{own}-"))
        named.append((own if not count else f"{own}-{count + 1}", page))
    return named


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
        raise _layout_changed(f"there is no {selector} in <{where.tag}>")
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
        raise _layout_changed(f"the page {redacted(page.url)} does not contain {', '.join(map(repr, lacking))}")


def assert_fields_present(record: Mapping[str, object] | BaseModel, *names: str) -> None:
    """Makes sure that these fields of a record, or all if none is named, have a value. Raises Failed layout_changed."""
    fields = record.__dict__ if isinstance(record, BaseModel) else record
    lacking = [name for name in names or fields if _is_empty(fields.get(name))]
    if lacking or not fields:
        raise _layout_changed(f"the record has no {', '.join(lacking) or 'fields'}")


def _is_empty(value: object) -> bool:
    """Zero and False are values."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, (list, tuple, dict)) and not value)


def _layout_changed(message: str) -> Failed:
    return Failed(Failure.of(FailureKind.LAYOUT_CHANGED, message))

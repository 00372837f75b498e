"""What an attempt has produced so far: pages by name, downloads, and the requests and bytes they took.

Base of the HTTP and the browser session. Checks that pages and names given by scrapers can be stored.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeGuard

from swath.domain.result import Download, Exchange, Page
from swath.domain.storage_keys import REFUSED_PAGE
from swath.fetch.http.page.page import DEFAULT_NAME, WebPage

__all__ = ["AttemptOutput", "check_name", "check_page"]

_LATEST: Final = 253_402_300_800.0  # the year 10000: nothing that writes dates goes beyond
_PAGE_FIELDS: Final = {
    "url": str,
    "status": int,
    "body": bytes,
    "content_type": str,
    "charset": str,
    "fetched_at": float,
}


def check_page(page: object) -> None:
    """Raises TypeError or ValueError for what cannot be stored as a page: authors make pages themselves, too."""
    if not isinstance(page, WebPage):
        raise TypeError(f"pages must be WebPage, not {type(page).__name__}")
    check_name(page.name, "page")
    if _is_well_formed(page.page):
        return
    for what, kind in _PAGE_FIELDS.items():
        value = getattr(page.page, what)
        fits = _is_text(value) if kind is str else isinstance(value, (kind, int) if kind is float else kind)
        if not fits or isinstance(value, bool):
            raise TypeError(f"the {what} of a page must be {kind.__name__}, not {type(value).__name__}")
        if kind is float and not 0 <= value < _LATEST:
            raise ValueError(f"the {what} of a page must be Unix seconds, not {value:g}")
        if kind is str:
            value.encode()  # half of a surrogate pair raises UnicodeEncodeError, which is a ValueError
    exchange: object = page.page.exchange
    if exchange is not None and not isinstance(exchange, Exchange):
        raise TypeError(f"the exchange of a page must be Exchange, not {type(exchange).__name__}")


def _is_well_formed(page: Page) -> bool:
    """As the pages are that a session makes, so that no field of theirs need be looked at by itself."""
    return (
        type(page.url) is type(page.content_type) is type(page.charset) is str
        and page.url.isascii()
        and page.content_type.isascii()
        and page.charset.isascii()
        and type(page.status) is int
        and type(page.body) is bytes
        and type(page.fetched_at) is float
        and 0.0 <= page.fetched_at < _LATEST
        and (page.exchange is None or type(page.exchange) is Exchange)
    )


def check_name(name: object, what: str) -> None:
    """Names become names of files; told before anything is sent, with the author's line in the trace."""
    if not _is_text(name):
        raise TypeError(f"{what} names must be text, not {type(name).__name__}")
    if not name:
        raise ValueError(f"{what} names must not be empty")
    if what == "page" and name.casefold() == REFUSED_PAGE:
        raise ValueError(f"{name!r} is the name of the answer that made an item fail; choose another for the page")
    name.encode()


def _is_text(value: object) -> TypeGuard[str]:
    """Other kinds of str, such as the nodes of some parsers, cannot be written as JSON; members of an enum can."""
    return type(value) is str or (isinstance(value, str) and isinstance(value, Enum))


class AttemptOutput:
    """Begins empty."""

    __slots__ = ("bytes", "downloads", "pages", "refused", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.bytes = 0
        self.refused: Page | None = None  # what came last and was no page: a wall, an outage
        self.pages: dict[str, WebPage] = {}
        self.downloads: list[Download] = []

    @property
    def kept(self) -> dict[str, Page]:
        """The pages to be stored, by name, in the order in which they were kept."""
        return {name: page.page for name, page in self.pages.items()}

    def keep(self, page: WebPage, name: str = DEFAULT_NAME) -> WebPage:
        """Stores a page under a name, in the place of one that was kept under it before."""
        check_page(page)
        if name is not page.name:
            check_name(name, "page")
        kept = self.pages[name] = page.named(name)
        return kept

    def _keep_download(self, download: Download) -> None:
        """In the place of one of that name."""
        self.downloads = [kept for kept in self.downloads if kept.name != download.name]
        self.downloads.append(download)

"""Whether what authors hand to the session can be stored: pages that they made themselves, and names of files.

Asked by the session before it keeps or sends anything; after it nobody looks again.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeGuard

from swath.domain.keys import REFUSED_PAGE
from swath.domain.page import Exchange, Page
from swath.web.page import WebPage

__all__ = ["check_name", "check_page"]

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
    if _is_ordinary(page.page):
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


def _is_ordinary(page: Page) -> bool:
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

"""Collected: what one attempt has brought back so far: pages by name, files, and what they cost on the way.

The part that sessions over HTTP (web/session.py) and in a browser (browser/session) share. Scrapers add to it; the
worker stores it when the attempt is over.
"""

from __future__ import annotations

from swath.domain.page import Page
from swath.domain.result import Download
from swath.web.page import DEFAULT_NAME, WebPage
from swath.web.page_check import check_name, check_page

__all__ = ["Collected"]


class Collected:
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

"""HttpScraper: the class that authors subclass when pages come over plain HTTP: the cheapest kind, the usual one."""

from __future__ import annotations

from typing import Any, ClassVar

from swath.kit.pages import Fetched
from swath.kit.scraper import Scraper, ScraperKind
from swath.web.session import WebSession

__all__ = ["HttpScraper"]


class HttpScraper(Scraper):
    """See Scraper. `fetch` gets a session of its own for each attempt, with cookies of its own."""

    kind: ClassVar[ScraperKind] = "http"

    async def fetch(self, item: Any, web: WebSession, /) -> Fetched:
        """Gets the pages of an item: one, several by name, or a list. They are stored, and handed to `extract`."""
        del item, web
        raise NotImplementedError(f"{type(self).__name__} has no fetch")

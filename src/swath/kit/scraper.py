"""Scraper: what all kinds of scrapers have in common. `fetch` walks the site, `extract` reads the pages it brought.

Authors subclass one of its kinds: http_scraper.py, browser_scraper.py, action_scraper.py. The worker calls
`parse_input`, then `collect`; pipeline/extract calls `extract` and checks what it returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Literal
from urllib.parse import urljoin

from pydantic import ValidationError

from swath.domain.errors import Failed, LeaseLost, NotFound, SiteHeld, SwathError
from swath.domain.failure import Failure, FailureKind
from swath.kit import models
from swath.kit.author_errors import author_failure
from swath.kit.pages import Fetched, Pages, named_pages
from swath.web.collected import Collected
from swath.web.page import WebPage

__all__ = ["Scraper", "ScraperKind"]

ScraperKind = Literal["http", "browser", "recording"]


class Scraper:
    """One instance serves all items at once, so it keeps nothing between them.

    `@scraper(…)` fills in id, name, version, description and sites. Raise NotFound to say that there is no such record.
    """

    kind: ClassVar[ScraperKind] = "http"
    needs_browser: ClassVar[bool] = False
    id: ClassVar[str] = ""
    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    description: ClassVar[str] = ""
    sites: ClassVar[tuple[str, ...]] = ()
    base_url: ClassVar[str | None] = None

    Input: ClassVar[type[models.Input]] = models.Input
    Output: ClassVar[type[models.Output]] = models.Output

    async def fetch(self, item: Any, session: Any, /) -> Fetched:
        """Gets the pages of an item: one, several by name, or a list. They are stored, and handed to `extract`."""
        raise NotImplementedError(f"{type(self).__name__} has no fetch")

    def extract(self, pages: Pages) -> Any:
        """Reads the record: an Output, a dict of its fields, or a list of these.

        Must follow from the pages alone: it is run again over the stored ones. Without it only pages are collected.
        """
        raise NotImplementedError(f"{type(self).__name__} has no extract")

    def validate_result(self, record: Any) -> None:
        """A last look at a record that fits the output model; raise ValueError to refuse it."""

    def start_url(self, item: Any) -> str | None:
        """Where an item begins: its `url`, if its input has one, else `base_url`. Override it when neither is true.

        Asked before anything is fetched, to find out whose site it is and whether robots.txt lets us in.
        """
        url = str(getattr(item, "url", None) or "").strip()
        if not url or self.base_url is None or "://" in url:
            return url or self.base_url
        return urljoin(self.base_url, url)

    @property
    def has_extract(self) -> bool:
        """Whether there are records at all, or pages only."""
        return type(self).extract is not Scraper.extract

    def parse_input(self, raw: dict[str, Any]) -> models.Input:
        """The checked input. Raises Failed invalid_input, naming the fields."""
        try:
            return self.Input.model_validate(raw)
        except ValidationError as error:
            raise Failed(Failure.of(FailureKind.INVALID_INPUT, models.explain(error))) from None

    async def collect(self, item: models.Input, session: Collected) -> Pages:
        """Fetches, and leaves every page that is to be stored with the session, under its name.

        Raises what `fetch` means to raise; any other exception becomes Failed internal, with the author's line.
        """
        try:
            fetched = await self.fetch(item, session)
            if not isinstance(fetched, WebPage) and isinstance(fetched, Iterator):
                fetched = list(fetched)  # a generator is the author's code too
        except SwathError:
            raise
        except Exception as error:
            raise _meant(error) or Failed(self.blame(error)) from error
        try:
            for name, page in named_pages(fetched):
                _keep(session, name, page)
        except (TypeError, ValueError) as error:  # no line of the author's is at hand: fetch has returned
            message = f"what fetch returned cannot be stored: {error}"
            raise Failed(Failure.of(FailureKind.INTERNAL, message)) from error
        return Pages(session.pages)

    def blame(self, error: Exception) -> Failure:
        """The failure for an exception that the author did not mean to raise."""
        return author_failure(error, inspect.getsourcefile(type(self)))


def _meant(error: Exception) -> SwathError | None:
    """What a group of tasks was stopped by, if nothing but what `fetch` may raise; the gravest of it."""
    if not isinstance(error, ExceptionGroup):
        return None
    leaves = [_meant(one) if isinstance(one, ExceptionGroup) else one for one in error.exceptions]
    meant = [leaf for leaf in leaves if isinstance(leaf, _GRAVEST)]
    if len(meant) < len(leaves):
        return None  # there is a mistake of the author's among them
    return min(meant, key=lambda leaf: _GRAVEST.index(type(leaf)) if type(leaf) in _GRAVEST else 0)


_GRAVEST: Final = (LeaseLost, SiteHeld, Failed, NotFound)


def _keep(session: Collected, name: str, page: WebPage) -> None:
    before = session.pages.get(name)
    if before is not None:
        if before is page:
            return  # fetch has kept it already, and it was looked over then
        if before.page is not getattr(page, "page", before.page):
            raise ValueError(f"two pages are named {name!r}; give one of them another name")
    session.keep(page, name)
    # A page that was fetched under one name and is returned under another is stored once, under the latter.
    if len(session.pages) > 1:
        for other in [key for key, one in session.pages.items() if one is page and key != name]:
            del session.pages[other]

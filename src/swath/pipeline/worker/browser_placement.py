"""The browsers as a worker sees them, and which ready item starts next in which session.

They are made when the first item needs one, so that work over HTTP never loads a browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.fetch.browser.request import BrowserRequest, SessionOptions
from swath.fetch.http.messages import RequestGate
from swath.fetch.sites.policies import SiteDirectory
from swath.sdk.scraper import BrowserScraper, Scraper

if TYPE_CHECKING:
    from swath.fetch.browser.tab.session import BrowserSession

__all__ = ["BrowserPlace", "BrowserPlacement", "WorkerBrowsers", "visit_of"]

_MAX_ITEMS_CONSIDERED: Final = 32  # ready items, from the first on, when one is chosen for a session


class WorkerBrowsers(Protocol):
    """Those of one worker process."""

    @property
    def free(self) -> int:
        """How many more items may start now."""
        ...

    def pick(self, sites: Sequence[str]) -> tuple[int, int] | None:
        """Which of the ready items starts next, by its place in the row of their sites, and the ticket to the seat that
        is reserved for it. None: no seat is free."""
        ...

    def give_back(self, ticket: int) -> None:
        """The item did not start, or has ended: what has not been used of the ticket is void."""
        ...

    def visit(self, ticket: int, visit: BrowserRequest) -> AbstractAsyncContextManager[BrowserSession]:
        """A context with a page of its own; the seat is free again when all of it is closed."""
        ...


class ReadyItem(Protocol):
    """An item that could start."""

    item: LeasedItem


class BrowserPlace(msgspec.Struct, frozen=True):
    """Where an item runs: on a seat of the browsers."""

    ticket: int
    site: str


class BrowserPlacement:
    """For the items of one job. Without browsers the first ready item is the next."""

    def __init__(self, scraper: Scraper, directory: SiteDirectory, browsers: WorkerBrowsers | None) -> None:
        self._scraper = scraper
        self._directory = directory
        self._browsers = browsers

    def choose(self, ready: Sequence[ReadyItem]) -> tuple[int, BrowserPlace | None] | None:
        """The next item, by its place in the row, and where it runs. None: there is no room for it now."""
        if self._browsers is None:
            return 0, None
        sites = [self._site(work) for work in islice(ready, _MAX_ITEMS_CONSIDERED)]
        picked = self._browsers.pick(sites)
        if picked is None:
            return None
        index, ticket = picked
        return index, BrowserPlace(ticket, sites[index])

    def leave(self, place: BrowserPlace | None) -> None:
        """The item did not start there, or has ended."""
        if place is not None and self._browsers is not None:
            self._browsers.give_back(place.ticket)

    def _site(self, work: ReadyItem) -> str:
        """Of the address where the item begins. Its attempt will say what is wrong with one that has none."""
        try:
            url = self._scraper.start_url(self._scraper.parse_input(work.item.input))
            return "" if url is None else self._directory.of(url).name
        except Exception:  # noqa: BLE001 start_url is the author's
            return ""


def visit_of(place: BrowserPlace, scraper: Scraper, job: Job, gate: RequestGate) -> BrowserRequest:
    """What the browsers have to know of an attempt."""
    wishes = scraper if isinstance(scraper, BrowserScraper) else BrowserScraper
    return BrowserRequest(
        site=place.site,
        owner=job.job_id,
        keeps=wishes.keep_session,
        mobile=wishes.mobile,
        proxy=job.policy.proxy,
        options=SessionOptions(
            timeouts=job.policy.timeouts,
            base_url=scraper.base_url,
            block=tuple(wishes.block),
            screenshot=wishes.screenshot,
        ),
        gate=gate,
    )

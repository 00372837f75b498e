"""The scraper that meets the hostile site in a browser: opens an address, waits for what comes late, and reads.

browsing.py hands this file to a worker.
"""

from __future__ import annotations

from harness.fakes.hostile_site.scripts import LATE
from swath import BrowserScraper, BrowserSession, Input, WebPage, scraper

__all__ = ["HostileBrowser"]


class Address(Input):
    """Where to go. `waits` until what comes late is there."""

    url: str
    waits: bool = True


@scraper("hostile-browser", version="1", description="Opens a page of the hostile site and reads it.")
class HostileBrowser(BrowserScraper):
    """As a scraper author would write it."""

    Input = Address

    async def fetch(self, item: Address, browser: BrowserSession) -> WebPage:
        await browser.goto(item.url)
        if item.waits:
            await browser.wait_for(LATE, state="attached")
        page = await browser.page()
        page.css_first("h1")
        return page

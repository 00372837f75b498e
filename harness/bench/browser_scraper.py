"""The scraper of `make bench-browser`: one page in a browser, fifteen fields of what its script has rendered.

browser_contestants.py copies this file beside `order.json`, for `swath run ./browser_scraper.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from swath import BrowserScraper, BrowserSession, Input, Output, Pages, WebPage, scraper

__all__ = ["BenchBrowser"]

_ORDER: dict[str, Any] = json.loads((Path(__file__).parent / "order.json").read_text(encoding="utf-8"))
_URL: str = _ORDER["url"]
_FIELDS: dict[str, str] = _ORDER["fields"]


class ParcelInput(Input):
    """Which parcel."""

    parcel_id: str


class Parcel(Output):
    """Its fields as the page shows them, which is how the peer stores them too."""

    parcel_id: str
    owner: str
    mailing_address: str
    situs_address: str
    legal_description: str
    subdivision: str
    tax_area: str
    property_class: str
    acreage: str
    last_sale_date: str
    last_sale_price: str
    total_value: str
    assessed_value: str
    total_due: str
    status: str


@scraper("bench-browser", version="1", description="One rendered page of the benchmark's site, fifteen fields.")
class BenchBrowser(BrowserScraper):
    """As a scraper author would write it."""

    Input = ParcelInput
    Output = Parcel
    keep_session = bool(_ORDER["keeps"])

    async def fetch(self, item: ParcelInput, browser: BrowserSession) -> WebPage:
        await browser.goto(_URL + item.parcel_id)
        return await browser.page()

    def extract(self, pages: Pages) -> dict[str, str]:
        page = pages.main
        return {name: page.text_of(selector, "") for name, selector in _FIELDS.items()}

"""The scraper of the benchmark: one page, fifteen fields. contestants.py copies this file beside `order.json`, for
`swath run ./bench_scraper.py`. Without an address the page comes from memory, so that no site takes a core.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from swath import HttpScraper, Input, Output, Page, Pages, WebPage, WebSession, scraper

__all__ = ["Bench"]

_HERE = Path(__file__).parent
_ORDER: dict[str, Any] = json.loads((_HERE / "order.json").read_text(encoding="utf-8"))
_URL: str = _ORDER["url"]
_FIELDS: dict[str, str] = _ORDER["fields"]


@cache
def _page(number: int) -> bytes:
    return (_HERE / f"page-{number}.html").read_bytes()


class ParcelInput(Input):
    """Which parcel."""

    parcel_id: str


class Parcel(Output):
    """Its fields as the page shows them, which is how the peers store them too."""

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


@scraper("bench", version="1", description="One page of the benchmark's site, fifteen fields.")
class Bench(HttpScraper):
    """As a scraper author would write it."""

    Input = ParcelInput
    Output = Parcel

    async def fetch(self, item: ParcelInput, web: WebSession) -> WebPage:
        if _URL.startswith("http"):
            return await web.get(_URL + item.parcel_id)
        body = _page(crc32(item.parcel_id.encode()) % _ORDER["memory_pages"])
        return WebPage(Page(name="html", url="memory:bench", status=200, body=body))

    def extract(self, pages: Pages) -> dict[str, str]:
        return pages.main.texts_of(_FIELDS, "")

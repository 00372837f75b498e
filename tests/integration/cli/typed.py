"""A scraper that is particular about its input, and one that waits until it may go on."""

TYPED = """
import asyncio
from pathlib import Path

from pydantic import Field

from swath import HttpScraper, Input, NotFound, Page, WebPage, scraper


class Parcel(Input):
    parcel_id: str = Field(pattern=r"^[0-9]{3,8}$")


@scraper("typed", version="3", description="Particular.")
class Typed(HttpScraper):
    Input = Parcel

    async def fetch(self, item, web):
        if item.parcel_id == "404":
            raise NotFound("no such parcel")
        return WebPage(Page(name="html", url="mock:typed", status=200, body=b"<h1>ok</h1>"))


class Gated(Input):
    gate: str
    n: int


@scraper("gated", version="1", description="Waits for a file.")
class Waits(HttpScraper):
    Input = Gated

    async def fetch(self, item, web):
        while not Path(item.gate).exists():
            await asyncio.sleep(0.01)
        return WebPage(Page(name="html", url="mock:gated", status=200, body=b"<h1>ok</h1>"))
"""

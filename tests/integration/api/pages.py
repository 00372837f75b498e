"""A scraper for scrapes on demand that needs no network, and the API served on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from swath.entrypoints.api.app import make_app
from swath.entrypoints.api.server import ApiServer, bind_socket, url_of_socket
from tests.integration.api.running import Api, running
from tests.support.bounds import HANGING_SECONDS

PAGES = '''
"""Pages that are made up by their addresses."""

import asyncio
from pathlib import Path

from pydantic import Field

from swath import Failed, Failure, FailureKind, HttpScraper, Input, NotFound, Output, Page, WebPage, scraper
from tests.support.bounds import HANGING_SECONDS


class Address(Input):
    url: str
    gate: str | None = None
    depth: int = Field(default=1, ge=1, le=3)


class Title(Output):
    title: str
    depth: int


@scraper("page", version="1", description="Makes up a page.")
class Pages(HttpScraper):
    Input = Address
    Output = Title

    async def fetch(self, item, web):
        while item.gate is not None and not Path(item.gate).exists():
            await asyncio.sleep(0.005)
        if item.url.endswith("/missing"):
            raise NotFound("there is no such page")
        if item.url.endswith("/broken"):
            raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "it looks different"))
        body = f"<h1>{item.url}</h1><p>{item.depth}</p>".encode()
        return WebPage(Page(name="html", url=item.url, status=200, body=body))

    def extract(self, pages):
        page = pages.main
        return {"title": page.text_of("h1"), "depth": int(page.text_of("p"))}


@scraper("fetched", version="1", description="Gets a page, and does not say where it begins.")
class Fetched(HttpScraper):
    Input = Address

    def start_url(self, item):
        return None

    async def fetch(self, item, web):
        return await web.get(item.url)
'''


@asynccontextmanager
async def with_pages(folder: Path, *, work: bool = True, **settings: Any) -> AsyncIterator[Api]:
    """The API with these scrapers."""
    scrapers = folder / "scrapers"
    scrapers.mkdir(parents=True, exist_ok=True)
    (scrapers / "page.py").write_text(PAGES.partition('@scraper("fetched"')[0])
    rest = PAGES.partition("class Title")[0] + '\n\n@scraper("fetched"' + PAGES.partition('@scraper("fetched"')[2]
    (scrapers / "fetched.py").write_text(rest)
    async with running(folder, work=work, **settings) as api:
        yield api


@asynccontextmanager
async def served(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the same controller over a real socket, where answers come piece by piece."""
    bound = bind_socket("127.0.0.1", 0)
    per_address = api.controller.settings.connections_per_address
    listener = ApiServer(make_app(api.controller), bound, 1.0, per_address)
    await listener.start()
    try:
        async with httpx.AsyncClient(base_url=url_of_socket(bound), timeout=HANGING_SECONDS) as client:
            yield client
    finally:
        api.controller.hub.end_streams()
        listener.stop()
        await listener.ended()
        bound.close()

"""The scraper of a chaos job in browsers. job.py copies this file beside the job's items, with `site.json`.

As chaos_scraper.py, from which its fields are; but each page is opened in a browser, which may die at any time.
"""

from __future__ import annotations

import json
import os
import time
from functools import cache
from pathlib import Path

from harness.chaos.browser.pages import path_of
from harness.chaos.expected import Fate, fate
from swath import (
    BrowserScraper,
    BrowserSession,
    Failed,
    Failure,
    FailureKind,
    Input,
    NotFound,
    Output,
    Pages,
    WebPage,
    scraper,
)

__all__ = ["Chaos"]

_HERE = Path(__file__).parent
_failed_here: set[str] = set()


@cache
def _site() -> str:
    return str(json.loads((_HERE / "site.json").read_text(encoding="utf-8"))["url"])


@cache
def _log() -> int:
    return os.open(_HERE / "attempts.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


class Named(Input):
    """An item is a name."""

    name: str


class Read(Output):
    """What the page says."""

    name: str
    digest: str
    size: int


@scraper("chaos", version="1", description="Reads what scripts have drawn, and fails as it is told to.")
class Chaos(BrowserScraper):
    """Acts out the fate of each item. Pictures would be stored with those that fail, and nobody foretells them."""

    Input = Named
    Output = Read
    screenshot = "never"

    async def fetch(self, item: Named, browser: BrowserSession) -> WebPage:
        os.write(_log(), f"{item.name}\t{os.getpid()}\t{time.time():.6f}\n".encode())
        await browser.goto(_site() + path_of(item.name), wait="h1")
        match fate(item.name):
            case Fate.NOT_FOUND:
                raise NotFound
            case Fate.BROKEN:
                raise Failed(Failure.of(FailureKind.LAYOUT_CHANGED, "broken, as foretold"))
            case Fate.HOPELESS:
                raise Failed(Failure.of(FailureKind.SERVER_ERROR, "hopeless, as foretold"))
            case Fate.FLAKY if item.name not in _failed_here:
                _failed_here.add(item.name)
                raise Failed(Failure.of(FailureKind.CONNECT, "once in every process"))
        return await browser.page()

    def extract(self, pages: Pages) -> Read:
        body = pages.main
        digest, filler = body.text_of("#digest", ""), body.text_of("pre", "")
        return Read(name=body.text_of("h1", ""), digest=digest, size=len(filler))

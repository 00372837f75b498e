"""The scraper of a chaos job on AWS. job.py copies this file beside the job's items.

Asks the demo county for every attempt, under its site policy, and then acts out the fate of the item: what the page
must be follows from the item alone. Writes one line per attempt, so that wasted ones can be counted.
"""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from urllib.parse import quote

from harness.chaos.expected import Fate, fate, page
from swath import (
    Failed,
    Failure,
    FailureKind,
    HttpScraper,
    Input,
    NotFound,
    Output,
    Page,
    Pages,
    WebPage,
    WebSession,
    scraper,
)
from swath.scrapers.demo_site import demo_url

__all__ = ["CountyChaos"]

_failed_here: set[str] = set()


@cache
def _log() -> int:
    log = Path(__file__).with_name("attempts.log")
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _note(name: str) -> None:
    """One write of one line: lines of several processes never mix."""
    os.write(_log(), f"{name}\t{os.getpid()}\t{time.time():.6f}\n".encode())


class Named(Input):
    """An item is a name."""

    name: str


class Read(Output):
    """What the page says."""

    name: str
    digest: str
    size: int


@scraper(
    "chaos-county",
    version="1",
    description="Asks the demo county for each item, and fails as it is told to.",
    sites=["demo.local"],
)
class CountyChaos(HttpScraper):
    """Acts out the fate of each item after one real request."""

    Input = Named
    Output = Read

    async def fetch(self, item: Named, web: WebSession) -> WebPage:
        _note(item.name)
        echoed = await web.get(f"{demo_url()}/echo?worker={os.getpid()}&name={quote(item.name, safe='')}")
        if echoed.json()["query"]["name"] != item.name:
            raise Failed(Failure.of(FailureKind.ACCESS_POLICY, "the answer belongs to another item"))
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
        return WebPage(Page(name="html", url="chaos:item", status=200, body=page(item.name)))

    def extract(self, pages: Pages) -> Read:
        body = pages.main
        digest, filler = body.text_of("#digest", ""), body.text_of("pre", "")
        return Read(name=body.text_of("h1", ""), digest=digest, size=len(filler))

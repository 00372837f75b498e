"""The scraper of a chaos job. job.py copies this file beside the job's items, for `swath run ./chaos_scraper.py`, and
puts `chaos.json` next to it. Needs no network; writes one line per attempt, so that wasted ones can be counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

from harness.chaos.expected import Fate, fate, page, wait_factor
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

__all__ = ["Chaos"]

_HERE = Path(__file__).parent
_failed_here: set[str] = set()


@cache
def _paces() -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((_HERE / "chaos.json").read_text(encoding="utf-8"))
    return settings


def _seconds(name: str) -> float:
    slow = _paces().get("slow", {}).get(name)
    return float(_paces()["mean_seconds"]) * wait_factor(name) if slow is None else float(slow)


@cache
def _log() -> int:
    return os.open(_HERE / "attempts.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


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


@scraper("chaos", version="1", description="Makes pages out of nothing, and fails as it is told to.")
class Chaos(HttpScraper):
    """Acts out the fate of each item."""

    Input = Named
    Output = Read

    async def fetch(self, item: Named, web: WebSession) -> WebPage:
        gate: Any = web._gate  # noqa: SLF001 the next line stands for a request that is not sent, so the item has begun
        gate._before_request()  # noqa: SLF001 see above
        _note(item.name)
        await asyncio.sleep(_seconds(item.name))
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

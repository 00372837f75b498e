# ruff: noqa: INP001 a script for another environment, and no package
"""Scrapy on the benchmark's pages: `python scrapy_run.py LOOP WORK ORDER`, run by the interpreter of .venv-peers.

LOOP is `default` or `uvloop`. WORK is `scrape`, or `load` to put the requests into the queue on disk and stop there.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response, TextResponse


class Parcels(Spider):
    """One page an item, fields by CSS, as the tutorial of Scrapy has it."""

    name = "parcels"
    order: dict[str, Any]
    folder: Path

    def requests(self) -> list[Request]:
        with (self.folder / "items.csv").open(encoding="utf-8", newline="") as file:
            return [Request(self.order["url"] + row["parcel_id"]) for row in csv.DictReader(file)]

    async def start(self) -> AsyncIterator[Any]:
        for request in self.requests():
            yield request

    def parse(self, response: Response) -> Any:
        assert isinstance(response, TextResponse)  # noqa: S101 for the type checker
        yield {
            name: (response.css(f"{selector}::text").get() or "").strip()
            for name, selector in self.order["fields"].items()
        }


class Loading(Parcels):
    """Puts everything into the scheduler, which keeps it on disk, and fetches nothing."""

    async def start(self) -> AsyncIterator[Any]:
        engine = self.crawler.engine
        assert engine is not None  # noqa: S101 for the type checker
        slot = engine._slot  # noqa: SLF001 what comes by the public way is fetched at once
        assert slot is not None  # noqa: S101 the same
        queued = sum(slot.scheduler.enqueue_request(request) for request in self.requests())
        (self.folder / "loaded.txt").write_text(str(queued), encoding="ascii")
        engine.downloader.total_concurrency = 0  # nothing leaves before the spider is closed
        await engine.close_spider_async(reason="loaded")
        return
        yield  # makes it the generator that a spider must have


def settings(order: dict[str, Any], folder: Path, loop: str) -> dict[str, Any]:
    """What differs from the defaults. JOBDIR is what its documentation says of pausing and resuming crawls."""
    return {
        "JOBDIR": str(folder / "job"),
        "FEEDS": {str(folder / "records.jsonl"): {"format": "jsonlines"}},
        "CONCURRENT_REQUESTS": order["concurrency"],
        "CONCURRENT_REQUESTS_PER_DOMAIN": order["concurrency"],
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop" if loop == "uvloop" else None,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "WARNING",
    }


def main(loop: str, work: str, order_file: Path) -> None:
    """Runs the order in its folder."""
    order = json.loads(order_file.read_text(encoding="utf-8"))
    process = CrawlerProcess(settings(order, order_file.parent, loop))
    process.crawl(Loading if work == "load" else Parcels, order=order, folder=order_file.parent)
    process.start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

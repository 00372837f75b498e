# ruff: noqa: INP001 a script for another environment, and no package
"""Crawlee on the benchmark's pages: `python crawlee_run.py WORK ORDER`, run by the interpreter of .venv-peers.

WORK is `scrape`, or `load` to put the requests into its queue and stop there. It is
run in the folder of the order, where its default storage makes files.
"""

from __future__ import annotations

import asyncio
import csv
import json
import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storages import RequestQueue


def urls(order: dict[str, Any], folder: Path) -> list[str]:
    """Of all items."""
    with (folder / "items.csv").open(encoding="utf-8", newline="") as file:
        return [order["url"] + row["parcel_id"] for row in csv.DictReader(file)]


async def scrape(order: dict[str, Any], folder: Path) -> None:
    """One page an item, fields by CSS, one push_data each, as in its own guide."""
    at_once = order["concurrency"]
    crawler = ParselCrawler(
        # The least as well as the most, or it would slow down because the machine is busy: with this benchmark.
        concurrency_settings=ConcurrencySettings(
            min_concurrency=at_once, max_concurrency=at_once, desired_concurrency=at_once
        ),
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        css = context.selector.css
        record = {name: (css(f"{selector}::text").get() or "").strip() for name, selector in order["fields"].items()}
        await context.push_data(record)

    await crawler.run(urls(order, folder))


async def load(order: dict[str, Any], folder: Path) -> None:
    """All at once, in its own batches; the pause between them is left out."""
    queue = await RequestQueue.open()
    await queue.add_requests(
        urls(order, folder),
        wait_time_between_batches=timedelta(0),
        wait_for_all_requests_to_be_added=True,
    )
    metadata = await queue.get_metadata()
    (folder / "loaded.txt").write_text(str(metadata.total_request_count), encoding="ascii")


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    order_path = Path(sys.argv[2])
    work = {"scrape": scrape, "load": load}[sys.argv[1]]
    asyncio.run(work(json.loads(order_path.read_text(encoding="utf-8")), order_path.parent))

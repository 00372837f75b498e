# ruff: noqa: INP001 a script for another environment, and no package
"""Crawlee's PlaywrightCrawler in `make bench-browser`: `python crawlee_browser_run.py PAGES CHROMIUM ORDER`.

Run by the interpreter of .venv-peers. PAGES is `default` (pages of one context) or `incognito` (a context for each).
It is run in the folder of the order, where its default storage makes files.
"""

from __future__ import annotations

import asyncio
import csv
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

from crawlee import ConcurrencySettings
from crawlee.crawlers import PlaywrightCrawler, PlaywrightCrawlingContext

READ = """fields => Object.fromEntries(Object.entries(fields).map(
    ([name, selector]) => [name, (document.querySelector(selector)?.textContent ?? "").trim()]))"""


def urls(order: dict[str, Any], folder: Path) -> list[str]:
    """Of all items."""
    with (folder / "items.csv").open(encoding="utf-8", newline="") as file:
        return [order["url"] + row["parcel_id"] for row in csv.DictReader(file)]


async def scrape(order: dict[str, Any], folder: Path, *, incognito: bool, chromium: str) -> None:
    """One page an item, all fields in one call into the page, one push_data each."""
    at_once = order["concurrency"]
    crawler = PlaywrightCrawler(
        # The least as well as the most, or it would slow down because the machine is busy: with this benchmark.
        concurrency_settings=ConcurrencySettings(
            min_concurrency=at_once, max_concurrency=at_once, desired_concurrency=at_once
        ),
        # Its own choice is a sandbox, which Chromium refuses to root.
        browser_launch_options={"executable_path": chromium, "chromium_sandbox": os.geteuid() != 0},
        use_incognito_pages=incognito,
        headless=True,
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: PlaywrightCrawlingContext) -> None:
        await context.push_data(await context.page.evaluate(READ, order["fields"]))

    await crawler.run(urls(order, folder))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    order_path = Path(sys.argv[3])
    asyncio.run(
        scrape(
            json.loads(order_path.read_text(encoding="utf-8")),
            order_path.parent,
            incognito={"default": False, "incognito": True}[sys.argv[1]],
            chromium=sys.argv[2],
        )
    )

"""The site of `make chaos-browser`: `python -m harness.chaos.browser.site N` serves the pages of N items.

As the benchmark's site, whose process and connections it uses.
"""

from __future__ import annotations

import asyncio
import sys

from harness.bench.site import Shelf, Site, serve
from harness.chaos import expected
from harness.chaos.browser.pages import path_of, sent
from swath.demo.county.http import SiteResponse
from swath.demo.county.server import fastest_loop

__all__ = ["ChaosSite"]


class ChaosSite(Site):
    """The running site, in a process of its own."""

    module = "harness.chaos.browser.site"


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        pages = {path_of(item_id): SiteResponse(200, sent(item_id)) for item_id in expected.item_ids(int(sys.argv[1]))}
        runner.run(serve(Shelf(pages)))

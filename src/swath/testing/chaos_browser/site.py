"""The site of `make chaos-browser`: `python -m swath.testing.chaos_browser.site N` serves the pages of N items.

As the benchmark's site, whose process and connections it uses.
"""

from __future__ import annotations

import asyncio
import sys

from swath.testing.bench.site import Shelf, Site, serve
from swath.testing.chaos import truth
from swath.testing.chaos_browser.pages import path_of, sent
from swath.testing.demo_county.messages import Response
from swath.testing.demo_county.server import fastest_loop

__all__ = ["ChaosSite"]


class ChaosSite(Site):
    """The running site, in a process of its own."""

    module = "swath.testing.chaos_browser.site"


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        pages = {path_of(item_id): Response(200, sent(item_id)) for item_id in truth.item_ids(int(sys.argv[1]))}
        runner.run(serve(Shelf(pages)))

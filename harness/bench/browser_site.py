"""The site of `make bench-browser`: `python -m harness.bench.browser_site N`, pages and what they need.

As site.py, whose process and connections it uses. Style, script and images may be kept by who keeps a cache.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from harness.bench.browser_pages import IMAGES, SCRIPT, STYLE, image, rendered_body_of
from harness.bench.pages import item_ids
from harness.bench.site import PATH, Shelf, Site, serve
from swath.demo.county.http import SiteRequest, SiteResponse
from swath.demo.county.server import fastest_loop

__all__ = ["BrowserSite"]

_FRESH: Final = b"Cache-Control: private, no-store"
_KEPT: Final = b"Cache-Control: public, max-age=3600"


class _Kept(SiteResponse):
    """Asked for once by a browser that keeps it."""

    def encoded(self, request: SiteRequest) -> bytes:
        return super().encoded(request).replace(_FRESH, _KEPT, 1)


class BrowserSite(Site):
    """The running site, in a process of its own."""

    module = "harness.bench.browser_site"


def _answers(items: int) -> dict[str, SiteResponse]:
    pages: dict[str, SiteResponse] = {
        PATH + item_id: SiteResponse(200, rendered_body_of(item_id)) for item_id in item_ids(items)
    }
    pictures = {path: _Kept(200, image(number), b"image/png") for number, path in enumerate(IMAGES)}
    return (
        pages
        | pictures
        | {
            "/static/app.js": _Kept(200, SCRIPT, b"text/javascript; charset=utf-8"),
            "/static/style.css": _Kept(200, STYLE, b"text/css; charset=utf-8"),
        }
    )


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop) as runner:
        runner.run(serve(Shelf(_answers(int(sys.argv[1])))))

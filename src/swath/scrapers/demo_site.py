"""Where the demo site is: `SWATH_DEMO_URL`, asked for when an item is fetched, so one process may serve many tests."""

from __future__ import annotations

import os

__all__ = ["demo_url"]


def demo_url() -> str:
    """Its address, without a slash at the end."""
    url = os.environ.get("SWATH_DEMO_URL")  # noqa: TID251 the address of a site is the scraper's business, no setting of Swath
    return (url or "http://127.0.0.1:8010").rstrip("/")

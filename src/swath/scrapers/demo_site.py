"""The URL of the demo site, `SWATH_DEMO_URL`. Read for each item, so that one process can serve many tests."""

from __future__ import annotations

import os

__all__ = ["demo_url"]


def demo_url() -> str:
    """Its address, without a slash at the end."""
    url = os.environ.get("SWATH_DEMO_URL")  # noqa: TID251 the address of a site is the scraper's business, no setting of Swath
    return (url or "http://127.0.0.1:8010").rstrip("/")

"""The scrapers that come with Swath, as a table: listed without being imported, imported by name when asked for.

A test compares every row with the class it names.
"""

from __future__ import annotations

from typing import Final

import msgspec

from swath.kit.declare import ScraperInfo
from swath.kit.scraper import ScraperKind

__all__ = ["DEMO_SCRAPERS", "SHIPPED", "Shipped"]


class Shipped(msgspec.Struct, frozen=True):
    """One row: what is listed, and where the class is (`module:Class`)."""

    info: ScraperInfo
    target: str


def _row(target: str, scraper_id: str, name: str, description: str, *sites: str, kind: ScraperKind = "http") -> Shipped:
    info = ScraperInfo(
        id=scraper_id, name=name, version="1", description=description, sites=sites, origin="shipped", kind=kind
    )
    return Shipped(info, target)


SHIPPED: Final[tuple[Shipped, ...]] = (
    _row(
        "swath.scrapers.demo_county:DemoCounty",
        "demo-county",
        "Demo county treasurer",
        "Parcels of the demo site: disclaimer, search, detail in two layouts, and the bill if asked for.",
        "demo.local",
    ),
    _row(
        "swath.scrapers.demo_county_browser:DemoCountyBrowser",
        "demo-county-browser",
        "Demo county treasurer, in a browser",
        "Parcels of the demo site as scripts show them: dialog, search, rows on scrolling, bill if asked for.",
        "demo.local",
        kind="browser",
    ),
    _row(
        "swath.scrapers.demo_county_recording:DemoCountyRecording",
        "demo-county-recording",
        "Demo county treasurer, by a recording",
        "Parcels of the demo site by recorded steps: dialog, search, rows on scrolling, bill if asked for.",
        "demo.local",
        kind="recording",
    ),
    _row(
        "swath.scrapers.example_fail:ExampleFail",
        "example-fail",
        "Example: always fails",
        "Fails every item as a broken server would, without a network; shows retries, failures and circuits.",
    ),
    _row(
        "swath.scrapers.example_http:ExampleHttp",
        "example-http",
        "Example: echo over HTTP",
        "Sends its input to the echo of the demo site and reads it back from the answer.",
        "demo.local",
    ),
    _row(
        "swath.scrapers.example_mock:ExampleMock",
        "example-mock",
        "Example: no network",
        "Makes a small page of any input and reads it back; nothing is fetched.",
    ),
)

DEMO_SCRAPERS: Final = frozenset(row.info.id for row in SHIPPED if "demo.local" in row.info.sites)
"""Those that read the demo site."""

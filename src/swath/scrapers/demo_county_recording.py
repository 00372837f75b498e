"""`demo-county-recording`: a parcel of the demo site by the recording in demo_county_recording.yaml."""

from __future__ import annotations

from swath import ActionScraper, scraper
from swath.scrapers.demo_site import demo_url

__all__ = ["DemoCountyRecording"]


@scraper(
    "demo-county-recording",
    name="Demo county treasurer, by a recording",
    version="1",
    description="Parcels of the demo site by recorded steps: dialog, search, rows on scrolling, bill if asked for.",
    sites=["demo.local"],
)
class DemoCountyRecording(ActionScraper):
    """The scraper of `swath run demo-county-recording`."""

    recording = "demo_county_recording.yaml"

    def site_url(self) -> str:
        return demo_url()

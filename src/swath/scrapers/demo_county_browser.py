"""`demo-county-browser`: a parcel of the demo site in a browser: agree in a dialog, search, scroll, read.

The same record as `demo-county`, from a page that scripts draw.
"""

from __future__ import annotations

from typing import Any, Final

from swath import BrowserScraper, BrowserSession, NotFound, Pages, WebPage, scraper
from swath.scrapers.demo_county import LABELS, Parcel, ParcelInput, check_amounts
from swath.scrapers.demo_site import demo_url

__all__ = ["DemoCountyBrowser"]

_DETAILS: Final = "#parcelDetail, #taxDue1, dl.facts"


@scraper(
    "demo-county-browser",
    name="Demo county treasurer, in a browser",
    version="1",
    description="Parcels of the demo site as scripts show them: dialog, search, rows on scrolling, bill if asked for.",
    sites=["demo.local"],
)
class DemoCountyBrowser(BrowserScraper):
    """The scraper of `swath run demo-county-browser`."""

    Input = ParcelInput
    Output = Parcel
    keep_session = True
    block = ("image", "font", "media")

    def start_url(self, item: ParcelInput) -> str:  # noqa: ARG002 every parcel is found on the same page
        return f"{demo_url()}/app/"

    async def fetch(self, item: ParcelInput, browser: BrowserSession) -> WebPage:
        await browser.goto(f"{demo_url()}/app/", wait="#lookup[data-ready]")
        if await browser.count("#terms[open]"):
            await browser.click("#btnAgree")
            await browser.wait_for("#terms[open]", state="detached")
        await browser.submit("#lookup", {"parcel": item.parcel_id})
        await browser.wait_for("#parcelNumber, #divError")
        page = await browser.page("html")  # the county's word that there is no such parcel is worth keeping too
        _check_found(page)
        await browser.scroll_to_end()
        await browser.wait_for("text=No earlier years.", state="attached")
        if item.bill:
            name = f"bill-{item.parcel_id}.pdf"
            await browser.download(name, click="#lnkBill", content_type="application/pdf")
        return (await browser.page("html")).expect("#parcelNumber", item.parcel_id)

    def extract(self, pages: Pages) -> dict[str, Any]:
        page = pages.main
        _check_found(page)
        return {"parcel_id": page.text_of("#parcelNumber"), **page.pairs(_DETAILS).fields(LABELS)}

    def validate_result(self, record: Parcel) -> None:
        check_amounts(record)


def _check_found(page: WebPage) -> None:
    error = page.text_of("#divError", "")
    if "No records found" in error:
        raise NotFound(error)
    page.expect("h1", "Parcel detail")

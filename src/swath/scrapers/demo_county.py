"""`demo-county`: a parcel of the demo site over HTTP: accept the disclaimer, search by post-back, read the detail."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from pydantic import Field

from swath import Date, HttpScraper, Input, Maybe, Money, NotFound, Output, Pages, WebPage, WebSession, scraper
from swath.scrapers.demo_site import demo_url

__all__ = ["LABELS", "DemoCounty", "Parcel", "ParcelInput", "check_amounts"]


class ParcelInput(Input):
    """Which parcel, and whether its tax bill is wanted as PDF."""

    parcel_id: str = Field(pattern=r"^\d{3}-\d{2}-\d{3}$")
    bill: bool = False


class Parcel(Output):
    """What the county knows about a parcel; amounts in dollars."""

    parcel_id: str
    owner: str
    mailing_address: str
    situs_address: str
    legal_description: str
    subdivision: str
    tax_area: str
    property_class: str
    acreage: Decimal
    year_built: Maybe[int]
    last_sale_date: Maybe[Date]
    last_sale_price: Maybe[Money]
    tax_year: int
    land_value: Money
    improvement_value: Money
    total_value: Money
    assessed_value: Money
    first_half_due: Money
    second_half_due: Money
    total_due: Money
    paid: Money
    balance_due: Money
    status: str


# The labels in the one layout and in the other.
LABELS: Final = {
    "owner": ("Owner", "Owner of record"),
    "mailing_address": ("Mailing address", "Mail to"),
    "situs_address": ("Property address", "Situs"),
    "legal_description": ("Legal description", "Legal"),
    "subdivision": ("Subdivision", "Subdivision name"),
    "tax_area": ("Tax area code", "Area code"),
    "property_class": ("Property class", "Legal class"),
    "acreage": ("Lot size (acres)", "Acres"),
    "year_built": ("Year built", "Construction year"),
    "last_sale_date": ("Last sale date", "Sold on"),
    "last_sale_price": ("Last sale price", "Sold for"),
    "tax_year": ("Tax year", "Year"),
    "land_value": ("Land value", "Land"),
    "improvement_value": ("Improvement value", "Improvements"),
    "total_value": ("Total value", "Full cash value"),
    "assessed_value": ("Assessed value", "Net assessed"),
    "first_half_due": ("First half due", "1st half"),
    "second_half_due": ("Second half due", "2nd half"),
    "total_due": ("Total due", "Tax for the year"),
    "paid": ("Paid", "Received"),
    "balance_due": ("Balance due", "Still due"),
    "status": ("Status", "Standing"),
}
_DETAILS: Final = "#parcelDetail, #taxDue1, dl.facts, #taxDue2"


@scraper(
    "demo-county",
    name="Demo county treasurer",
    version="1",
    description="Parcels of the demo site: disclaimer, search, detail in two layouts, and the bill if asked for.",
    sites=["demo.local"],
)
class DemoCounty(HttpScraper):
    """The scraper of `make demo`."""

    Input = ParcelInput
    Output = Parcel

    def start_url(self, item: ParcelInput) -> str:  # noqa: ARG002 every parcel is found by the same form
        return f"{demo_url()}/search"

    async def fetch(self, item: ParcelInput, web: WebSession) -> WebPage:
        search = await web.get(f"{demo_url()}/search")
        search = await search.accept("#disclaimer", "btnAgree")
        detail = await search.form("#lookup").fill(parcel=item.parcel_id).submit("btnSearch")
        web.keep(detail)  # the county's word that there is no such parcel is worth keeping too
        _check_found(detail)
        detail.expect("#parcelNumber", item.parcel_id)
        if item.bill:
            url = detail.link_at("#lnkBill")
            await web.download(url, f"bill-{item.parcel_id}.pdf", content_type="application/pdf")
        return detail

    def extract(self, pages: Pages) -> dict[str, Any]:
        page = pages.main
        _check_found(page)
        return {"parcel_id": page.text_of("#parcelNumber"), **page.pairs(_DETAILS).fields(LABELS)}

    def validate_result(self, record: Parcel) -> None:
        check_amounts(record)


def check_amounts(record: Parcel) -> None:
    """Raises ValueError when they do not add up."""
    if record.first_half_due + record.second_half_due != record.total_due:
        raise ValueError("the halves do not add up to total_due")
    if record.total_due - record.paid != record.balance_due:
        raise ValueError("total_due less paid is not balance_due")


def _check_found(page: WebPage) -> None:
    error = page.text_of("#divError", "")
    if "No records found" in error:
        raise NotFound(error)
    page.expect("h1", "Parcel detail")

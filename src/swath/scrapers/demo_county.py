"""`demo-county`: a parcel of the demo site, got as on many county sites: agree, search by post-back, read the detail.

The detail page comes in two layouts, with other labels and element ids; both give the same record.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from swath import HttpScraper, Input, Money, NotFound, Output, Pages, WebPage, WebSession, scraper
from swath.scrapers.demo_site import demo_url

__all__ = ["DemoCounty"]


def _unless_missing(text: object) -> object:
    return None if text == "N/A" else text


def _us_date(text: object) -> object:
    if not isinstance(text, str) or text.count("/") != 2:
        return text
    month, day, year = map(int, text.split("/"))
    return date(year, month, day)


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
    year_built: Annotated[int | None, BeforeValidator(_unless_missing)]
    last_sale_date: Annotated[date | None, BeforeValidator(_us_date), BeforeValidator(_unless_missing)]
    last_sale_price: Annotated[Money | None, BeforeValidator(_unless_missing)]
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


# Label in the one layout, element id in the other.
_FIELDS: Final = {
    "owner": ("Owner", "lblOwner"),
    "mailing_address": ("Mailing address", "lblMailTo"),
    "situs_address": ("Property address", "lblSitus"),
    "legal_description": ("Legal description", "lblLegal"),
    "subdivision": ("Subdivision", "lblSubdivision"),
    "tax_area": ("Tax area code", "lblAreaCode"),
    "property_class": ("Property class", "lblClass"),
    "acreage": ("Lot size (acres)", "lblAcres"),
    "year_built": ("Year built", "lblBuilt"),
    "last_sale_date": ("Last sale date", "lblSaleDate"),
    "last_sale_price": ("Last sale price", "lblSalePrice"),
    "tax_year": ("Tax year", "lblTaxYear"),
    "land_value": ("Land value", "lblLand"),
    "improvement_value": ("Improvement value", "lblImprovements"),
    "total_value": ("Total value", "lblFullCash"),
    "assessed_value": ("Assessed value", "lblAssessed"),
    "first_half_due": ("First half due", "lblHalf1"),
    "second_half_due": ("Second half due", "lblHalf2"),
    "total_due": ("Total due", "lblGrandTotal"),
    "paid": ("Paid", "lblReceived"),
    "balance_due": ("Balance due", "lblStillDue"),
    "status": ("Status", "lblStanding"),
}
_BY_LABEL: Final = {label: field for field, (label, _) in _FIELDS.items()}
_BY_ID: Final = {element_id: field for field, (_, element_id) in _FIELDS.items()}


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

    async def fetch(self, item: ParcelInput, web: WebSession) -> WebPage:
        search = await web.get(f"{demo_url()}/search")
        if search.css_first("form#disclaimer") is not None:
            search = await search.form("#disclaimer").submit("btnAgree")
        detail = await search.form("#lookup").fill(parcel=item.parcel_id).submit("btnSearch")
        web.keep(detail)  # the county's word that there is no such parcel is worth keeping too
        _check_found(detail)
        detail.expect("#parcelNumber", item.parcel_id)
        if item.bill:
            link = detail.expect("#lnkBill").css_first("#lnkBill")
            href = (link.attributes.get("href") if link is not None else None) or ""
            await web.download(detail.link(href), f"bill-{item.parcel_id}.pdf", content_type="application/pdf")
        return detail

    def extract(self, pages: Pages) -> dict[str, Any]:
        page = pages.main
        _check_found(page)
        values = _table(page) if page.css_first("#taxDue1") is not None else _list(page)
        return {"parcel_id": page.text_of("#parcelNumber", ""), **dict(values)}

    def validate_result(self, record: Parcel) -> None:
        if record.first_half_due + record.second_half_due != record.total_due:
            raise ValueError("the halves do not add up to total_due")
        if record.total_due - record.paid != record.balance_due:
            raise ValueError("total_due less paid is not balance_due")


def _check_found(page: WebPage) -> None:
    error = page.text_of("#divError", "")
    if "No records found" in error:
        raise NotFound(error)
    page.expect("h1", "Parcel detail")


def _table(page: WebPage) -> Iterator[tuple[str, str]]:
    for row in page.css("#parcelDetail tr, #taxDue1 tr"):
        label, value = row.css_first("th"), row.css_first("td")
        if label is not None and value is not None and label.text(strip=True) in _BY_LABEL:
            yield _BY_LABEL[label.text(strip=True)], value.text().strip()


def _list(page: WebPage) -> Iterator[tuple[str, str]]:
    for node in page.css("dl.facts dd, #taxDue2 span.amount"):
        field = _BY_ID.get(node.id or "")
        if field is not None:
            yield field, node.text().strip()

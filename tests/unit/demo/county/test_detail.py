from datetime import datetime
from decimal import Decimal

import pytest
from selectolax.lexbor import LexborHTMLParser, LexborNode

from swath.demo.county import Parcel, exists, parcel
from swath.demo.county.parcel_pages import page
from tests.unit.demo.county.client import Client

pytestmark = pytest.mark.req("K5")

NUMBERS = [number for number in (f"300-21-{item:03d}" for item in range(300)) if exists(number)]

# Label in the table layout, element id in the list layout, field of the truth.
FIELDS = [
    ("Owner", "lblOwner", "owner"),
    ("Mailing address", "lblMailTo", "mailing_address"),
    ("Property address", "lblSitus", "situs_address"),
    ("Legal description", "lblLegal", "legal_description"),
    ("Subdivision", "lblSubdivision", "subdivision"),
    ("Tax area code", "lblAreaCode", "tax_area"),
    ("Property class", "lblClass", "property_class"),
    ("Lot size (acres)", "lblAcres", "acreage"),
    ("Year built", "lblBuilt", "year_built"),
    ("Last sale date", "lblSaleDate", "last_sale_date"),
    ("Last sale price", "lblSalePrice", "last_sale_price"),
    ("Tax year", "lblTaxYear", "tax_year"),
    ("Land value", "lblLand", "land_value"),
    ("Improvement value", "lblImprovements", "improvement_value"),
    ("Total value", "lblFullCash", "total_value"),
    ("Assessed value", "lblAssessed", "assessed_value"),
    ("First half due", "lblHalf1", "first_half_due"),
    ("Second half due", "lblHalf2", "second_half_due"),
    ("Total due", "lblGrandTotal", "total_due"),
    ("Paid", "lblReceived", "paid"),
    ("Balance due", "lblStillDue", "balance_due"),
    ("Status", "lblStanding", "status"),
]


def read(tree: LexborHTMLParser) -> dict[str, str]:
    """Read a detail page of either layout as a scraper would, from the page alone."""
    if tree.css_first("#parcelDetail") is None:
        return {field: _text(tree.css_first(f"#{element_id}")) for _, element_id, field in FIELDS}
    labels = {
        _text(row.css_first("th")): _text(row.css_first("td")) for row in tree.css("#parcelDetail tr, #taxDue1 tr")
    }
    return {field: labels[label] for label, _, field in FIELDS}


def typed(text: str, like: object) -> object:
    """Turn a text of the page into a value of the kind that the truth has there."""
    if text == "N/A":
        return None
    if isinstance(like, str):
        return text
    if isinstance(like, Decimal | int):
        return Decimal(text.lstrip("$").replace(",", ""))
    return datetime.strptime(text, "%m/%d/%Y").date()  # noqa: DTZ007 a day has no time zone


def _text(node: LexborNode | None) -> str:
    assert node is not None
    return node.text().replace("\N{NO-BREAK SPACE}", " ").strip()


@pytest.mark.parametrize("layout", ["table", "list"])
def test_both_layouts_show_the_truth(layout: str) -> None:
    truths = [truth for truth in map(parcel, NUMBERS) if truth.layout == layout]
    assert len(truths) > 100
    for truth in truths:
        texts = read(LexborHTMLParser(page(truth).body))
        assert len(texts) > 15
        for field, text in texts.items():
            expected = getattr(truth, field)
            assert typed(text, expected) == expected, (truth.parcel_id, field)


def test_the_layouts_share_no_element_by_which_values_are_found() -> None:
    by_layout = {parcel(number).layout: LexborHTMLParser(page(parcel(number)).body) for number in NUMBERS}
    assert by_layout["table"].css("#taxDue2, #lblOwner") == []
    assert by_layout["list"].css("#taxDue1, #parcelDetail") == []


def test_the_tax_history_shows_the_truth() -> None:
    truth = parcel(NUMBERS[0])
    rows = LexborHTMLParser(page(truth).body).css("#gvTaxYears tr.gridviewRow")
    shown = [[_text(cell) for cell in row.css("td")][:5] for row in rows]
    expected = [
        [str(line.year), f"${line.assessed_value:,}", f"${line.tax:,.2f}", f"${line.paid:,.2f}", line.status]
        for line in truth.history
    ]
    assert shown == expected


def test_names_with_special_characters_survive() -> None:
    def owner(truth: Parcel) -> str:
        return read(LexborHTMLParser(page(truth).body))["owner"]

    numbers = [f"{book:03d}-10-100" for book in range(600)]
    odd = [truth for truth in map(parcel, filter(exists, numbers)) if set(truth.owner) & set("&'ÑÜÉ")]
    assert len(odd) > 20
    assert [owner(truth) for truth in odd] == [truth.owner for truth in odd]


def test_a_page_is_as_large_as_real_ones() -> None:
    sizes = [len(page(parcel(number)).body) for number in NUMBERS]
    assert min(sizes) >= 8_000
    assert max(sizes) <= 12_000


async def test_the_served_page_is_the_rendered_one(agreed: Client) -> None:
    for number in NUMBERS[:5]:
        assert (await agreed.get(f"/parcel/{number}")).body == page(parcel(number)).body

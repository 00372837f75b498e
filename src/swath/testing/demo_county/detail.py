"""The detail page of a parcel, in the two layouts that scrapers must cope with.

`table` is a label/value table; `list` is a definition list and a list of labelled spans, with other labels and element
ids. Both are rendered to templates at import, so that a page costs one formatting of its values.
"""

from html import escape
from typing import NamedTuple

from swath.testing.demo_county.messages import Response
from swath.testing.demo_county.pages import SHELL_END, SHELL_START
from swath.testing.demo_county.parcels import Layout, Parcel, TaxYear


class _Field(NamedTuple):
    name: str
    table_label: str
    list_label: str
    list_id: str


_FACTS = (
    _Field("owner", "Owner", "Owner of record", "lblOwner"),
    _Field("mailing_address", "Mailing address", "Mail to", "lblMailTo"),
    _Field("situs_address", "Property address", "Situs", "lblSitus"),
    _Field("legal_description", "Legal description", "Legal", "lblLegal"),
    _Field("subdivision", "Subdivision", "Subdivision name", "lblSubdivision"),
    _Field("tax_area", "Tax area code", "Area code", "lblAreaCode"),
    _Field("property_class", "Property class", "Legal class", "lblClass"),
    _Field("acreage", "Lot size (acres)", "Acres", "lblAcres"),
    _Field("year_built", "Year built", "Construction year", "lblBuilt"),
    _Field("last_sale_date", "Last sale date", "Sold on", "lblSaleDate"),
    _Field("last_sale_price", "Last sale price", "Sold for", "lblSalePrice"),
)
_MONEY = (
    _Field("tax_year", "Tax year", "Year", "lblTaxYear"),
    _Field("land_value", "Land value", "Land", "lblLand"),
    _Field("improvement_value", "Improvement value", "Improvements", "lblImprovements"),
    _Field("total_value", "Total value", "Full cash value", "lblFullCash"),
    _Field("assessed_value", "Assessed value", "Net assessed", "lblAssessed"),
    _Field("first_half_due", "First half due", "1st half", "lblHalf1"),
    _Field("second_half_due", "Second half due", "2nd half", "lblHalf2"),
    _Field("total_due", "Total due", "Tax for the year", "lblGrandTotal"),
    _Field("paid", "Paid", "Received", "lblReceived"),
    _Field("balance_due", "Balance due", "Still due", "lblStillDue"),
    _Field("status", "Status", "Standing", "lblStanding"),
)

# What people wrote; numbers, dates and codes need no escaping.
_FREE_TEXT = ("owner", "mailing_address", "situs_address", "legal_description", "subdivision", "property_class")

_HISTORY_ROW = (
    '<tr class="gridviewRow"><td>%d</td><td>$%s</td><td>$%s</td><td>$%s</td><td>%s</td>'
    '<td><a href="/parcel/%s?year=%d" title="Click to view tax details">Details</a></td></tr>\n'
)
_BODY_START = """\
<h1>Parcel detail</h1>
<p class="parcel-num">Parcel <strong id="parcelNumber">%(parcel_id)s</strong> |
<a id="lnkBill" href="/parcel/%(parcel_id)s/bill.pdf">Tax bill (PDF)</a> | <a href="/search">New search</a></p>
"""
_BODY_END = """\
<h2>Tax history</h2>
<table id="gvTaxYears">
<thead><tr><th>Year</th><th>Assessed</th><th>Tax</th><th>Paid</th><th>Status</th><th></th></tr></thead>
<tbody>
%(history)s</tbody>
</table>
<p>Payments are shown within two business days after they were received. Amounts of prior years do not include interest
and fees; ask for a payoff statement before you pay a delinquent year.</p>
<h2>Ways to pay</h2>
<ul>
<li><a href="/payments?parcel=%(parcel_id)s">Online</a> from a checking account without charge, or by card for a fee of
2.2 percent that goes to the card processor and not to the county.</li>
<li>By mail: make the check payable to the Demo County Treasurer, write the parcel number on it, and include the stub of
the half that you pay. The postmark counts as the date of payment.</li>
<li>In person at the court house, at any branch of the First Bank of San Perdido, or in the drop box at the north
entrance, which is emptied at five in the afternoon.</li>
<li>Through your mortgage company, if it collects the taxes with your monthly payment.</li>
</ul>
"""


def _table(element_id: str, fields: tuple[_Field, ...]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{field.table_label}</th><td class="value">%({field.name})s</td></tr>\n'
        for field in fields
    )
    return f'<table id="{element_id}">\n{rows}</table>\n'


def _definitions(fields: tuple[_Field, ...]) -> str:
    rows = "".join(
        f'<dt>{field.list_label}:</dt>\n<dd id="{field.list_id}">\n    %({field.name})s\n</dd>\n' for field in fields
    )
    return f'<dl class="facts">\n{rows}</dl>\n'


def _labelled_spans(fields: tuple[_Field, ...]) -> str:
    rows = "".join(
        f'<li><span class="label">{field.list_label}</span>\n    '
        f'<span id="{field.list_id}" class="amount">&nbsp;%({field.name})s</span></li>\n'
        for field in fields
    )
    return f'<ul id="taxDue2" class="taxDue">\n{rows}</ul>\n'


def _template(content: str) -> str:
    shell_start = SHELL_START.replace("%", "%%").replace("@TITLE@", "Parcel %(parcel_id)s")
    return shell_start + _BODY_START + content + _BODY_END + SHELL_END.replace("%", "%%")


_TEMPLATES: dict[Layout, str] = {
    "table": _template(
        f"<h2>Property</h2>\n{_table('parcelDetail', _FACTS)}<h2>Taxes</h2>\n{_table('taxDue1', _MONEY)}"
    ),
    "list": _template(f"<h2>About this parcel</h2>\n{_definitions(_FACTS)}<h2>Amounts</h2>\n{_labelled_spans(_MONEY)}"),
}


def labelled(layout: Layout) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return names and labels of the facts and of the amounts, as a layout calls them."""
    facts, money = (
        [(field.name, field.table_label if layout == "table" else field.list_label) for field in fields]
        for fields in (_FACTS, _MONEY)
    )
    return facts, money


def shown(parcel: Parcel) -> dict[str, str]:
    """Return the text of every field as the pages and the bill show it, not yet escaped."""
    sale_date = parcel.last_sale_date
    return {
        "parcel_id": parcel.parcel_id,
        "owner": parcel.owner,
        "mailing_address": parcel.mailing_address,
        "situs_address": parcel.situs_address,
        "legal_description": parcel.legal_description,
        "subdivision": parcel.subdivision,
        "tax_area": parcel.tax_area,
        "property_class": parcel.property_class,
        "acreage": f"{parcel.acreage}",
        "year_built": "N/A" if parcel.year_built is None else str(parcel.year_built),
        "last_sale_date": "N/A" if sale_date is None else f"{sale_date:%m/%d/%Y}",
        "last_sale_price": "N/A" if parcel.last_sale_price is None else f"${parcel.last_sale_price:,}",
        "tax_year": str(parcel.tax_year),
        "land_value": f"${parcel.land_value:,}",
        "improvement_value": f"${parcel.improvement_value:,}",
        "total_value": f"${parcel.total_value:,}",
        "assessed_value": f"${parcel.assessed_value:,}",
        "first_half_due": f"${parcel.first_half_due:,}",
        "second_half_due": f"${parcel.second_half_due:,}",
        "total_due": f"${parcel.total_due:,}",
        "paid": f"${parcel.paid:,}",
        "balance_due": f"${parcel.balance_due:,}",
        "status": parcel.status,
    }


def page(parcel: Parcel) -> Response:
    values = shown(parcel)
    for name in _FREE_TEXT:
        values[name] = escape(values[name])
    values["history"] = "".join(_history_row(parcel.parcel_id, year) for year in parcel.history)
    return Response(200, (_TEMPLATES[parcel.layout] % values).encode())


def _history_row(parcel_id: str, line: TaxYear) -> str:
    tax = f"{line.tax:,}"
    paid = tax if line.paid is line.tax else f"{line.paid:,}"  # formatting decimals is a fifth of the page's cost
    return _HISTORY_ROW % (line.year, f"{line.assessed_value:,}", tax, paid, line.status, parcel_id, line.year)

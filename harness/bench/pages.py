"""The pages that everybody fetches, the fields that everybody reads, and the truth that everybody is held to.

A page is the demo county's detail page of a parcel, made as long as such pages are by a table of recorded documents.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import Final

from harness.bench.site_load import existing_parcels
from swath.demo.county.parcel_pages import displayed_fields, page
from swath.demo.county.parcels import parcel

__all__ = ["FIELDS", "body_of", "item_ids", "truth_of"]

FIELDS: Final = {
    "parcel_id": "#parcelNumber",
    "owner": "#lblOwner",
    "mailing_address": "#lblMailTo",
    "situs_address": "#lblSitus",
    "legal_description": "#lblLegal",
    "subdivision": "#lblSubdivision",
    "tax_area": "#lblAreaCode",
    "property_class": "#lblClass",
    "acreage": "#lblAcres",
    "last_sale_date": "#lblSaleDate",
    "last_sale_price": "#lblSalePrice",
    "total_value": "#lblFullCash",
    "assessed_value": "#lblAssessed",
    "total_due": "#lblGrandTotal",
    "status": "#lblStanding",
}
DOCUMENTS: Final = 28
_ROW: Final = (
    '<tr class="gridviewRow"><td><a href="/recorder/%s">%s</a></td><td>%s</td><td>%d pages</td><td>certified</td></tr>'
)
_KINDS: Final = ("WARRANTY DEED", "DEED OF TRUST", "RELEASE", "QUIT CLAIM DEED", "AFFIDAVIT OF VALUE")
_BEFORE: Final = b"<h2>Ways to pay</h2>"


def item_ids(items: int) -> list[str]:
    """The first so many parcels that exist."""
    return list(islice(existing_parcels(), items))


def truth_of(parcel_id: str) -> dict[str, str]:
    """What a record must say, as the page shows it."""
    values = displayed_fields(parcel(parcel_id))
    return {name: values[name] for name in FIELDS}


def body_of(parcel_id: str) -> bytes:
    """The page, about 12 KB. Always in the layout in which every field has an id: peers select by it."""
    county = page(replace(parcel(parcel_id), layout="list")).body
    before, mark, after = county.partition(_BEFORE)
    return b"".join((before, _documents(parcel_id), mark, after))


def _documents(parcel_id: str) -> bytes:
    drawn = blake2b(parcel_id.encode(), digest_size=DOCUMENTS, person=b"bench-documents").digest()
    rows = []
    for number, draw in enumerate(drawn):
        name = f"{1998 + number}-{draw * 3911:07d}"
        rows.append(_ROW % (name, name, _KINDS[draw % len(_KINDS)], draw % 40 + 1))
    listed = "\n".join(rows)
    return f'<h2>Recorded documents</h2>\n<table id="gvDocuments"><tbody>\n{listed}\n</tbody></table>\n'.encode()

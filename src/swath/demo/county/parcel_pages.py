"""The pages of one parcel: its detail page in two layouts, its tax bill as PDF, and the script-driven version under
`/app/`.

The layouts differ in labels and element ids, as real sites do. The PDF is the same bytes every time.
"""

import json
from hashlib import blake2b
from html import escape
from typing import NamedTuple

from swath.demo.county import pages
from swath.demo.county.http import JSON, PDF, SiteResponse
from swath.demo.county.pages import SHELL_END, SHELL_START
from swath.demo.county.parcels import Layout, Parcel, TaxYear


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


def labelled_fields(layout: Layout) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return names and labels of the facts and of the amounts, as a layout calls them."""
    facts, money = (
        [(field.name, field.table_label if layout == "table" else field.list_label) for field in fields]
        for fields in (_FACTS, _MONEY)
    )
    return facts, money


def displayed_fields(parcel: Parcel) -> dict[str, str]:
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


def page(parcel: Parcel) -> SiteResponse:
    values = displayed_fields(parcel)
    for name in _FREE_TEXT:
        values[name] = escape(values[name])
    values["history"] = "".join(_history_row(parcel.parcel_id, year) for year in parcel.history)
    return SiteResponse(200, (_TEMPLATES[parcel.layout] % values).encode())


def _history_row(parcel_id: str, line: TaxYear) -> str:
    tax = f"{line.tax:,}"
    paid = tax if line.paid is line.tax else f"{line.paid:,}"  # formatting decimals is a fifth of the page's cost
    return _HISTORY_ROW % (line.year, f"{line.assessed_value:,}", tax, paid, line.status, parcel_id, line.year)


_LINES = (
    *(("Parcel", "parcel_id"), ("Owner", "owner"), ("Mail to", "mailing_address"), ("Property", "situs_address")),
    *(("Legal description", "legal_description"), ("Class", "property_class"), ("Tax area", "tax_area")),
    *(("Assessed value", "assessed_value"), ("First half", "first_half_due"), ("Second half", "second_half_due")),
    *(("Total", "total_due"), ("Received", "paid"), ("Balance due", "balance_due"), ("Status", "status")),
)
_RESOURCES = b"<< /Font << /F1 5 0 R /F2 6 0 R >> >>"


def pdf(parcel: Parcel) -> SiteResponse:
    name = f'Content-Disposition: inline; filename="bill-{parcel.parcel_id}.pdf"\r\n'
    return SiteResponse(200, document(parcel), PDF, name.encode())


def document(parcel: Parcel) -> bytes:
    content = _content(parcel)
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources %b >>" % _RESOURCES,
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
        b"<< /Title (%b) /Producer (Demo County) /CreationDate (D:%d0901080000Z) >>"
        % (_text(f"Tax bill {parcel.parcel_id}"), parcel.tax_year),
    )
    return _file(objects, identity=blake2b(content, digest_size=16).hexdigest().encode())


def _content(parcel: Parcel) -> bytes:
    """Return the page's drawing: a heading, a rule, and one line per value."""
    values = displayed_fields(parcel)
    drawing = [
        b"BT /F2 18 Tf 54 730 Td (Demo County Treasurer) Tj ET",
        b"BT /F1 12 Tf 54 708 Td (%b) Tj ET" % _text(f"Property tax bill {parcel.tax_year}"),
        b"0.5 w 54 698 m 558 698 l S",
    ]
    for number, (label, field) in enumerate(_LINES):
        height = 672 - 22 * number
        drawing.append(b"BT /F2 10 Tf 54 %d Td (%b) Tj ET" % (height, _text(label)))
        drawing.append(b"BT /F1 10 Tf 190 %d Td (%b) Tj ET" % (height, _text(values[field])))
    return b"\n".join(drawing)


def _file(objects: tuple[bytes, ...], identity: bytes) -> bytes:
    """Number the objects from 1 (the first is the catalogue, the last the document's information) and index them."""
    parts = [b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"]
    offset = len(parts[0])
    index = [b"0000000000 65535 f \n"]
    for number, body in enumerate(objects, start=1):
        part = b"%d 0 obj\n%b\nendobj\n" % (number, body)
        index.append(b"%010d 00000 n \n" % offset)
        offset += len(part)
        parts.append(part)
    size = len(index)
    parts.append(b"xref\n0 %d\n%b" % (size, b"".join(index)))
    parts.append(
        b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R /ID [<%b> <%b>] >>\n" % (size, size - 1, identity, identity)
    )
    parts.append(b"startxref\n%d\n%%%%EOF\n" % offset)
    return b"".join(parts)


def _text(text: str) -> bytes:
    """Return a PDF string's inside: the font's encoding, with the three special characters escaped."""
    return text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


YEARS_AT_ONCE = 3
DRAW_MS = 120
"""How long the page takes over an answer before it shows it."""

_CONTENT = """\
<dialog id="terms"><h1>Disclaimer</h1>
<p>The information on this site is provided as a public service. You must agree before you go on.</p>
<button id="btnAgree" type="button">I agree</button></dialog>
<h1 id="title">Parcel search</h1>
<form id="lookup"><p><label for="parcel">Parcel number</label>
<input type="text" id="parcel" name="parcel" maxlength="12" placeholder="123-45-678"></p>
<p><button id="btnSearch">Search</button></p></form>
<div id="result" aria-live="polite"></div>
<script>
const $ = id => document.getElementById(id);
const make = (tag, text, attributes) => Object.assign(document.createElement(tag), {textContent: text}, attributes);
const rest = ms => new Promise(done => setTimeout(done, ms));
let shown = null;

async function ask(path, options) {
  const answer = await fetch(path, options);
  if (answer.status === 403) { $("terms").showModal(); return null; }
  return answer.json();
}

function table(id, rows) {
  const made = make("table", "", {id});
  for (const [label, value] of rows) {
    const row = made.insertRow();
    row.append(make("th", label, {scope: "row"}));
    row.append(make("td", value, {className: "value"}));
  }
  return made;
}

function list(rows) {
  const made = make("dl", "", {className: "facts"});
  for (const [label, value] of rows) made.append(make("dt", label + ":"), make("dd", value));
  return made;
}

async function older() {
  const body = $("gvTaxYears").tBodies[0];
  const told = await ask(`/app/years?parcel=${shown}&from=${body.rows.length}`);
  for (const year of told ? told.years : []) {
    const row = body.insertRow();
    row.className = "gridviewRow";
    for (const cell of year) row.insertCell().textContent = cell;
  }
  return told && told.more;
}

async function draw(parcel) {
  const result = $("result");
  await rest(@DRAW_MS@);
  shown = parcel.parcel_id;
  $("title").textContent = "Parcel detail";
  const number = make("p", "Parcel ");
  number.append(make("strong", parcel.parcel_id, {id: "parcelNumber"}), " | ");
  number.append(make("a", "Tax bill (PDF)", {id: "lnkBill", href: parcel.bill, download: ""}));
  const history = make("table", "", {id: "gvTaxYears"});
  const head = history.createTHead().insertRow();
  for (const name of ["Year", "Assessed", "Tax", "Paid", "Status"]) head.append(make("th", name));
  history.append(document.createElement("tbody"));
  const drawn = parcel.layout === "table" ? [table("parcelDetail", parcel.facts), table("taxDue1", parcel.taxes)]
                                          : [list(parcel.facts), list(parcel.taxes)];
  const end = make("p", "", {id: "end"});
  end.style.minHeight = "900px";
  result.replaceChildren(number, ...drawn, history, end);
  new IntersectionObserver(async (seen, observer) => {
    if (!seen.some(one => one.isIntersecting)) return;
    observer.unobserve(end);
    if (await older()) observer.observe(end);
    else end.textContent = "No earlier years.";
  }).observe(end);
}

$("btnAgree").onclick = async () => { await fetch("/app/agree", {method: "POST"}); $("terms").close(); };
$("lookup").onsubmit = async event => {
  event.preventDefault();
  const told = await ask(`/app/parcel?parcel=${encodeURIComponent($("parcel").value.trim())}`);
  if (told && told.error) $("result").replaceChildren(make("div", told.error, {id: "divError", className: "error"}));
  else if (told) await draw(told);
};
ask("/app/parcel").finally(() => { $("lookup").dataset.ready = "yes"; });
</script>
"""
SHELL = pages.page("Parcel search", _CONTENT.replace("@DRAW_MS@", str(DRAW_MS)))
NOT_AGREED = SiteResponse(403, b'{"error": "agree to the disclaimer first"}', JSON)


def parcel(found: Parcel) -> SiteResponse:
    """Return a parcel as the page's script wants it: labels and values in its layout."""
    values = displayed_fields(found)
    facts, taxes = labelled_fields(found.layout)
    return _json(
        {
            "parcel_id": found.parcel_id,
            "layout": found.layout,
            "facts": [[label, values[name]] for name, label in facts],
            "taxes": [[label, values[name]] for name, label in taxes],
            "bill": f"/parcel/{found.parcel_id}/bill.pdf",
        }
    )


def no_records(parcel_id: str) -> SiteResponse:
    return _json({"error": f"No records found for parcel {parcel_id}."})


def wrong_format() -> SiteResponse:
    return _json({"error": "A parcel number has the form 123-45-678: book, map and item."})


def years(found: Parcel, start: int) -> SiteResponse:
    """Return some tax years, from one on."""
    rows = [
        [str(line.year), f"${line.assessed_value:,}", f"${line.tax:,}", f"${line.paid:,}", line.status]
        for line in found.history[start : start + YEARS_AT_ONCE]
    ]
    return _json({"years": rows, "more": start + YEARS_AT_ONCE < len(found.history)})


def _json(value: object) -> SiteResponse:
    return SiteResponse(200, json.dumps(value).encode(), JSON)

"""The demo county as scripts show it, under `/app/`: one page, and JSON behind it. Without a browser there is nothing.

A dialog asks for consent, the search asks `/app/parcel`, its answer is drawn after a moment, and older tax years come
when one scrolls to them. `routes` chooses; what is drawn has the labels and ids of `detail`, in both layouts.
"""

import json

from swath.testing.demo_county import detail, pages
from swath.testing.demo_county.messages import JSON, Response
from swath.testing.demo_county.parcels import Parcel

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
NOT_AGREED = Response(403, b'{"error": "agree to the disclaimer first"}', JSON)


def parcel(found: Parcel) -> Response:
    """Return a parcel as the page's script wants it: labels and values in its layout."""
    values = detail.shown(found)
    facts, taxes = detail.labelled(found.layout)
    return _json(
        {
            "parcel_id": found.parcel_id,
            "layout": found.layout,
            "facts": [[label, values[name]] for name, label in facts],
            "taxes": [[label, values[name]] for name, label in taxes],
            "bill": f"/parcel/{found.parcel_id}/bill.pdf",
        }
    )


def no_records(parcel_id: str) -> Response:
    return _json({"error": f"No records found for parcel {parcel_id}."})


def wrong_format() -> Response:
    return _json({"error": "A parcel number has the form 123-45-678: book, map and item."})


def years(found: Parcel, start: int) -> Response:
    """Return some tax years, from one on."""
    rows = [
        [str(line.year), f"${line.assessed_value:,}", f"${line.tax:,}", f"${line.paid:,}", line.status]
        for line in found.history[start : start + YEARS_AT_ONCE]
    ]
    return _json({"years": rows, "more": start + YEARS_AT_ONCE < len(found.history)})


def _json(value: object) -> Response:
    return Response(200, json.dumps(value).encode(), JSON)

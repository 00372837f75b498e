"""Receipts of the demo county: a table over several pages, and a calendar in which its first day is picked.

Both are built as real sites build them: the last page has no "Next", and the calendar opens on the present month and
goes back one month at a click.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from html import escape

from swath.testing.demo_county.messages import Response
from swath.testing.demo_county.pages import page, refused

ROWS_PER_PAGE = 10
_NEWEST = date(2025, 10, 30)
_COUNT = 60
_DAYS_BETWEEN = 9

_CALENDAR = """\
<form id="period" action="/receipts">
<p><label for="since">Received since</label> <input id="since" name="since" readonly value="@SINCE@">
<button id="show">Show</button></p>
<div id="calendar" hidden>
<p><button type="button" id="earlier" aria-label="Earlier month">&lsaquo;</button> <b id="month"></b>
<button type="button" id="later" aria-label="Later month">&rsaquo;</button></p>
<p id="days"></p>
</div>
</form>
<script>
let year = 2025, month = 10;  // counted from 0: November
const two = number => String(number).padStart(2, "0"), at = id => document.getElementById(id);
function draw() {
  const name = new Date(year, month, 1).toLocaleString("en-US", {month: "long"});
  at("month").textContent = `${name} ${year}`;
  at("days").replaceChildren(...Array.from({length: new Date(year, month + 1, 0).getDate()}, (_, day) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = day + 1;
    button.dataset.date = `${year}-${two(month + 1)}-${two(day + 1)}`;
    return button;
  }));
}
function turn(months) {
  month += months;
  if (month < 0) { month = 11; year -= 1; }
  if (month > 11) { month = 0; year += 1; }
  draw();
}
at("since").onclick = () => { at("calendar").hidden = false; };
at("earlier").onclick = () => turn(-1);
at("later").onclick = () => turn(1);
at("days").onclick = event => {
  if (!event.target.dataset.date) return;
  at("since").value = event.target.dataset.date;
  at("calendar").hidden = true;
};
draw();
</script>
"""


def receipts_since(since: date) -> list[tuple[str, str, str]]:
    """Day, parcel and amount of each, the newest first."""
    days = [_NEWEST - timedelta(days=_DAYS_BETWEEN * number) for number in range(_COUNT)]
    return [
        (day.isoformat(), f"501-22-{number * 7 % 1000:03}", f"{1200 + number * 17}.50")
        for number, day in enumerate(days)
        if day >= since
    ]


def receipts(fields: Mapping[str, str]) -> Response:
    """Return one page of them, or only the form before a day was picked."""
    since, at = fields.get("since", ""), fields.get("page", "1")
    form = _CALENDAR.replace("@SINCE@", escape(since))
    if not since:
        return page("Receipts", f"<h1>Receipts</h1>\n{form}")
    try:
        rows, first = receipts_since(date.fromisoformat(since)), (int(at) - 1) * ROWS_PER_PAGE
    except ValueError:
        return refused(400)
    table = "\n".join(
        f"<tr><td>{day}</td><td>{parcel}</td><td>{due}</td></tr>" for day, parcel, due in _part(rows, first)
    )
    return page("Receipts", f"<h1>Receipts</h1>\n{form}{_table(table)}{_next(since, int(at), len(rows))}")


def _part(rows: list[tuple[str, str, str]], first: int) -> list[tuple[str, str, str]]:
    return rows[max(first, 0) : max(first, 0) + ROWS_PER_PAGE]


def _table(rows: str) -> str:
    return f'<table id="receipts">\n<tr><th>Received</th><th>Parcel</th><th>Amount</th></tr>\n{rows}\n</table>\n'


def _next(since: str, at: int, count: int) -> str:
    """Return the foot of a page; on the last one nothing leads on."""
    last = max(1, -(-count // ROWS_PER_PAGE))
    link = f' <a id="next" href="/receipts?since={escape(since)}&amp;page={at + 1}">Next</a>' if at < last else ""
    return f'<p>Page <span id="page">{at}</span> of {last}{link}</p>\n'

"""The pages of the demo county around its parcels: shell, disclaimer, search form, receipts and error pages.

Everything that can be rendered once is rendered at import.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from html import escape

from swath.demo.county import http
from swath.demo.county.http import SiteResponse
from swath.demo.county.parcels import TAX_YEAR

SEARCH_BUTTON = "ctl00$cphMain$btnSearch"
YEAR_SELECT = "ctl00$cphMain$ddlYear"
YEARS = tuple(str(TAX_YEAR - back) for back in range(3))
AGREE_BUTTON = "btnAgree"
TERMS_VERSION = "2026-07"

_STYLE = """\
body{margin:0;font:15px/1.5 "Segoe UI",Arial,sans-serif;color:#222;background:#f4f4f1}
a{color:#1d4f7c}.skip{position:absolute;left:-999em}
#banner{background:#1d3c5c;color:#fff;padding:14px 28px}#banner a{color:#fff;text-decoration:none;font-size:22px}
#menu{background:#e3e0d8;border-bottom:1px solid #c9c4b6;padding:0 28px}#menu ul{margin:0;padding:0;list-style:none}
#menu li{display:inline-block;margin-right:22px;padding:9px 0}
#main{max-width:980px;margin:22px auto;background:#fff;border:1px solid #d8d4c8;padding:20px 28px}
h1{font-size:24px;margin:0 0 12px}h2{font-size:18px;margin:24px 0 8px;border-bottom:1px solid #d8d4c8}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:4px 10px;border-bottom:1px solid #eee}
th{width:32%;font-weight:600;background:#faf9f6}.money,.gridviewRow td+td{text-align:right}
dl{display:grid;grid-template-columns:32% auto;margin:0}dt{font-weight:600;padding:4px 10px}
dd{margin:0;padding:4px 10px}
ul.taxDue{list-style:none;padding:0}ul.taxDue li{display:flex;justify-content:space-between;padding:4px 10px}
.error{border:1px solid #b3261e;background:#fdecea;color:#7a1710;padding:10px 14px;margin:0 0 14px}
#foot{max-width:980px;margin:0 auto 30px;color:#666;font-size:13px;padding:0 28px}.columns{display:flex;gap:40px}"""

_SCRIPT = """\
function __doPostBack(eventTarget, eventArgument) {
  var form = document.forms[0];
  if (!form.onsubmit || form.onsubmit() != false) {
    form.__EVENTTARGET.value = eventTarget;
    form.__EVENTARGUMENT.value = eventArgument;
    form.submit();
  }
}"""

_MENU = (
    *(("/", "Home"), ("/search", "Parcel search"), ("/payments", "Pay taxes"), ("/dates", "Important dates")),
    *(
        ("/rates", "Tax rates"),
        ("/liens", "Tax liens"),
        ("/forms", "Forms"),
        ("/faq", "Questions"),
        ("/contact", "Contact"),
    ),
)
_MENU_ITEMS = "\n".join(f'    <li><a href="{target}">{text}</a></li>' for target, text in _MENU)

SHELL_START = f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>@TITLE@ - Demo County Treasurer</title>
<style>
{_STYLE}
</style>
<script>
{_SCRIPT}
</script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<div id="banner"><a href="/">Demo County Treasurer</a><div>Property tax information, open day and night</div></div>
<div id="menu" role="navigation">
  <ul>
{_MENU_ITEMS}
  </ul>
</div>
<div id="main">
"""
SHELL_END = """\
</div>
<div id="foot">
  <div class="columns">
    <div><strong>Office of the Treasurer</strong><br>301 W Court House Square<br>San Perdido, NV 89901<br>
    Monday to Friday, 8 to 5, except for county holidays</div>
    <div><strong>Telephone</strong><br>(775) 555-0100<br>Hearing impaired: (775) 555-0101<br>
    <a href="/contact">Write to us</a></div>
    <div><strong>Related offices</strong><br><a href="/assessor">Assessor</a><br><a href="/recorder">Recorder</a><br>
    <a href="/elections">Elections</a></div>
  </div>
  <p>The first half of the taxes is due on October 1 and delinquent after November 1; the second half is due on March 1
  and delinquent after May 1. Interest accrues at the rate of 16 percent per year, prorated monthly as of the first day
  of the month. If a due date falls on a Saturday, a Sunday or a holiday, the next business day counts.</p>
  <p>This county does not exist, and neither do its people and parcels. The information shown is made up for testing and
  carries no warranty of any kind. <a href="/privacy">Privacy</a> | <a href="/accessibility">Accessibility</a> |
  <a href="/terms">Terms of use</a></p>
</div>
</body>
</html>
"""


def page(title: str, content: str, *, status: int = 200, extra_headers: bytes = b"") -> SiteResponse:
    """Return a page of the site; `content` is HTML."""
    start = SHELL_START.replace("@TITLE@", escape(title))
    return SiteResponse(status, (start + content + SHELL_END).encode(), extra_headers=extra_headers)


def disclaimer(next_path: str) -> SiteResponse:
    content = f"""\
<h1>Disclaimer</h1>
<p>The information on this site is provided as a public service. The county makes no warranty, express or implied, as to
its accuracy, and assumes no liability for decisions made on its ground. You must agree before you go on.</p>
<form id="disclaimer" method="post" action="/disclaimer">
<input type="hidden" name="next" value="{escape(next_path)}">
<input type="hidden" name="terms_version" value="{TERMS_VERSION}">
<input type="submit" id="{AGREE_BUTTON}" name="{AGREE_BUTTON}" value="I agree">
</form>
"""
    return page("Disclaimer", content)


def search(session: str, notice: str = "", parcel_id: str = "") -> SiteResponse:
    """Return the search form of this session; `notice` is HTML that is shown above it."""
    hidden = "\n".join(
        f'<input type="hidden" name="{name}" id="{name}" value="{value}">'
        for name, value in http.hidden_fields(session).items()
    )
    options = "".join(f'<option value="{year}">{year}</option>' for year in YEARS[1:])
    content = f"""\
<h1>Parcel search</h1>
{notice}<form id="lookup" method="post" action="/search">
{hidden}
<p><label for="parcel">Parcel number</label>
<input type="text" id="parcel" name="parcel" maxlength="12" placeholder="123-45-678" value="{escape(parcel_id)}"></p>
<p><label for="ddlYear">Tax year</label>
<select id="ddlYear" name="{YEAR_SELECT}"><option value="{YEARS[0]}" selected>{YEARS[0]}</option>{options}</select></p>
<p><input type="submit" id="btnSearch" name="{SEARCH_BUTTON}" value="Search"></p>
</form>
"""
    return page("Parcel search", content)


def no_records(session: str, parcel_id: str) -> SiteResponse:
    notice = f'<div id="divError" class="error">No records found for parcel {escape(parcel_id)}.</div>\n'
    return search(session, notice, parcel_id)


def wrong_format(session: str, text: str) -> SiteResponse:
    notice = '<div id="divFormat" class="error">A parcel number has the form 123-45-678: book, map and item.</div>\n'
    return search(session, notice, text[:40])


def _application_error(headline: str, description: str) -> SiteResponse:
    body = f"""\
<!DOCTYPE html>
<html><head><title>{headline}</title>
<style>body{{font-family:Verdana;font-size:.7em}}h1{{font-size:18pt;color:red}}h2{{font-size:14pt;color:maroon}}</style>
</head><body bgcolor="white">
<h1>Server Error in '/' Application.<hr width="100%" size="1" color="silver"></h1>
<h2><i>{headline}</i></h2>
<b>Description: </b>{description}<br><br>
<b>Version Information:</b>&nbsp;Demo County 1.0
</body></html>
"""
    return SiteResponse(500, body.encode())


VIEW_STATE_FAILED = _application_error(
    "Validation of viewstate MAC failed. If this application is hosted by a Web Farm or cluster, ensure that "
    "&lt;machineKey&gt; configuration specifies the same validationKey and validation algorithm.",
    "The hidden fields of the form are missing, altered, or of another session.",
)
EVENT_REFUSED = _application_error(
    "Invalid postback or callback argument.",
    "For security purposes, this feature verifies that a value posted by a control was offered by that control.",
)
RUNTIME_ERROR = _application_error(
    "Runtime Error", "An application error occurred on the server. The current custom error settings hide its details."
)
NOT_FOUND = page("Page not found", "<h1>Page not found</h1>\n<p>There is no such page on this site.</p>\n", status=404)
BLOCKED = page(
    "Access denied",
    "<h1>Access denied</h1>\n<p>You have been blocked. Our systems have detected unusual traffic from your network. "
    "Incident number 0.5d3c1002.</p>\n",
    status=403,
)
MAINTENANCE = page(
    "Down for maintenance",
    "<h1>Down for maintenance</h1>\n<p>The site is temporarily unavailable due to scheduled maintenance. "
    "Please come back later.</p>\n",
    status=503,
)


def too_many_requests(retry_after_seconds: int) -> SiteResponse:
    content = "<h1>Too many requests</h1>\n<p>Please slow down.</p>\n"
    return page("Too many requests", content, status=429, extra_headers=b"Retry-After: %d\r\n" % retry_after_seconds)


def method_not_allowed(allowed: str) -> SiteResponse:
    content = "<h1>Method not allowed</h1>\n"
    return page("Method not allowed", content, status=405, extra_headers=f"Allow: {allowed}\r\n".encode())


def refused(status: int) -> SiteResponse:
    """Return the short answer to a request that could not be read to its end."""
    return SiteResponse(status, f"<html><body><h1>Bad request ({status})</h1></body></html>\n".encode())


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


def receipts(fields: Mapping[str, str]) -> SiteResponse:
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

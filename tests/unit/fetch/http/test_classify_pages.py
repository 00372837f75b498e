"""Good pages with odd words stay pages."""

import pytest

from swath.demo.county import pages, parcel_pages, parcels
from swath.domain.site_policy import SitePolicy
from swath.fetch.http.blocks.classify import PAGE, classify
from swath.fetch.http.messages import Response

pytestmark = pytest.mark.req("K7", "H2")

ROWS = "".join(f"<tr><th>Field {n}</th><td>Value {n}</td></tr>" for n in range(9))
PROSE = "The county board met on Tuesday and heard a report on what visitors of public records meet with. " * 12


ODD = {
    "owner": (
        f"<title>ACCESS DENIED LLC - Parcel 1</title><table><tr><th>Owner<td>ACCESS DENIED LLC</td></tr>{ROWS}</table>"
    ),
    "article": (
        f"<title>How captchas work</title><h1>How captchas work</h1><p>{PROSE} "
        f"Please verify you are human, they say. {PROSE}"
    ),
    "headline": f"<h1>Too many requests: what the clerk says</h1><p>{PROSE}",
    "notice": f"<h1>Legal notice</h1><p>{PROSE} The road will be closed for maintenance in May.",
    "banner": (
        "<h1>Parcel search</h1>"
        "<div class='notice'>Scheduled maintenance: this site will be unavailable on Saturday.</div><form>"
        "<input name=parcel><input type=submit></form>"
    ),
    "login link": (
        "<div id=top><a href='/login'>Log in</a> <a href='/signup'>Sign up</a></div><h1>Parcel 1</h1>"
        f"<table>{ROWS}</table>"
    ),
    "login form on top": (
        "<form><input name=u><input type=password name=p><button>Log in</button></form><h1>Parcel 1</h1>"
        f"<table>{ROWS}</table>"
    ),
    "captcha in a form": (
        "<h1>Search</h1><form><input name=parcel><div class='g-recaptcha' data-sitekey=x></div>"
        "<p>Please verify that you are human, not a robot.</form>"
        "<script src='https://www.google.com/recaptcha/api.js'></script>"
    ),
    "hidden dialog": (
        "<h1>Search</h1><form><input name=parcel></form><div class='modal' id=timeout><h3>Session expired"
        "</h3><p>Your session has expired. Please log in again.</p></div>"
    ),
    "hidden error": (
        "<h1>Search</h1><form><input name=parcel></form><div style='display: none'>An error has occurred</div>"
    ),
    "denied permit": (
        "<h1>Permit 12</h1><table><tr><th>Status<td>DENIED</td></tr><tr><th>Reason"
        f"<td>Access to the lot was denied</td></tr>{ROWS}</table>"
    ),
    "cloudflare watches": (
        "<title>Parcel 1</title><script src='/cdn-cgi/challenge-platform/scripts/jsd/main.js'></script>"
        "<h1>Parcel 1</h1><p>Owner: A. Smith"
    ),
    "drawing": "<svg viewBox='0 0 9 9'><path d='M 1,3 A 2,2 0,0,1 5,3 z'/></svg>",
    "imperva watches": (
        "<title>Parcel 1</title><script src='/_Incapsula_Resource?SWJIYLWA=7'></script><h1>Parcel 1</h1>"
        f"<table>{ROWS}</table>"
    ),
    "application": (
        "<html><body><noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div>"
        "<script src=/a.js></script>"
    ),
    "questions": f"<h1>Questions</h1><p>{PROSE}<h2>Why does it say that my session has expired?</h2><p>{PROSE}",
    "announcement": "<h1>News</h1><p>The office will be closed for maintenance on May 3.</p>",
    "quotation": f"<h1>Minutes</h1><p>{PROSE[:600]} It said \u201cYour session has expired, please log in again\u201d.",
    "no records": "<h1>Parcel search</h1><p>No records found.</p><form><input name=parcel></form>",
}


def verdict(text: str, content_type: str = "text/html") -> object:
    headers = (("content-type", content_type),)
    answer = Response(url="https://site.example/parcel/1", status=200, headers=headers, body=text.encode())
    return classify(answer, SitePolicy(), 0.0)


@pytest.mark.parametrize("odd", ODD)
def test_a_good_page_with_odd_words_is_a_page(odd: str) -> None:
    assert verdict(ODD[odd]) is PAGE


@pytest.mark.parametrize(
    ("text", "content_type"),
    [
        ('{"owner": "ACCESS DENIED LLC", "status": "blocked"}', "application/json"),
        ('{"remark": "Your session has expired", "rows": []}', "application/json"),
        ('{"errors": [], "message": "ok", "rows": []}', "application/json"),
        ("owner,status\nACCESS DENIED LLC,session expired\n", "text/csv"),
        ("Access denied", "application/pdf"),
    ],
)
def test_data_is_no_wall(text: str, content_type: str) -> None:
    assert verdict(text, content_type) is PAGE


@pytest.mark.parametrize("number", range(40))
def test_the_pages_of_the_demo_county_are_pages(number: int) -> None:
    name = f"100-10-{number:03}"
    answer = parcel_pages.page(parcels.parcel(name)) if parcels.exists(name) else pages.no_records("session", name)
    assert verdict(bytes(answer.body).decode()) is PAGE


def test_forms_and_empty_searches_of_the_demo_county_are_pages() -> None:
    for answer in (pages.disclaimer("/x"), pages.no_records("s", "1"), pages.wrong_format("s", "1")):
        assert verdict(bytes(answer.body).decode()) is PAGE

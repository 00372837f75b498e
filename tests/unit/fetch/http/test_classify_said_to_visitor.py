"""Short pages: records that use the words of walls are pages, and walls that say little are none."""

import pytest

from swath.domain.failure import FailureKind
from swath.domain.site_policy import SitePolicy
from swath.fetch.http.blocks.classify import classify
from swath.fetch.http.blocks.visible_text import addresses_visitor
from swath.fetch.http.messages import Response

pytestmark = pytest.mark.req("K7", "H2")

K = FailureKind

RECORDS = {
    "owner in bold": (
        "<title>Parcel 12</title><table><tr><td>Owner</td><td><b>Access Denied Security LLC</b></td></tr></table>"
    ),
    "owner in divs": (
        "<title>Parcel 12</title><div class='field-label'>Owner</div><div>Access Denied Security LLC</div>"
    ),
    "trout": ("<title>Lake 12</title><h1>Cedar Lake</h1><p>Trout. Daily limit: 5. Season: May to October.</p>"),
    "pool": (
        "<title>Parks</title><h1>Cedar Pool</h1><p>The pool will be closed. The water slide is out of service.</p>"
    ),
    "police": (
        "<title>Report 12</title><h1>Report 12</h1><p>Incident number 77. Officer saw suspicious "
        "activity behind the store.</p>"
    ),
    "chinese article": (
        "<title>\u65b0\u95fb</title><p>"
        + "\u53bf\u653f\u5e9c\u5468\u4e8c\u53ec\u5f00\u4f1a\u8bae\u8ba8\u8bba\u516c\u5171\u8bb0\u5f55\u3002" * 30
        + "\u8bbf\u95ee\u88ab\u62d2\u7edd</p>"
    ),
    "owner in a cell": (
        "<html><head><title>Parcel 12</title></head><body><h1>Parcel 12</h1><table><tr><td>Owner<"
        "/td><td>Access Denied Security LLC</td></tr><tr><td>Acres</td><td>1.2</td></tr></table><"
        "/body></html>"
    ),
    "owner in a list": (
        "<title>Parcel 12</title><h1>Parcel 12</h1><dl><dt>Owner</dt><dd>Access Denied Security LLC</dd></dl>"
    ),
    "owner in spans": (
        "<title>Parcel 12</title><h2>Parcel 12</h2><div><span class=label>Owner</span> <span>Acce"
        "ss Denied Security LLC</span></div>"
    ),
    "owner only": ("<title>Parcel 12</title><div><b>Owner:</b> Access Denied, Inc.</div>"),
    "court text": (
        "<title>Case 12</title><h1>Case 12</h1><p>The defendant has been banned from the premises of the store.</p>"
    ),
    "docket": (
        "<title>Docket 12</title><h1>Docket 12</h1><ul><li>01/02/2024 Motion filed</li><li>02/03/"
        "2024 Request denied</li><li>03/04/2024 Appeal denied</li></ul>"
    ),
    "docket rows": (
        "<title>Docket 12</title><h1>Docket</h1><table><tr><td>02/03/2024</td><td>Request denied<"
        "/td></tr><tr><td>03/04/2024</td><td>Permission denied</td></tr></table>"
    ),
    "bill": ("<title>HB 12</title><h1>House Bill 12</h1><p>Status: died in committee. The session has ended.</p>"),
    "business": (
        "<title>Main Street Diner</title><h1>Main Street Diner</h1><p>This business is temporaril"
        "y closed.</p><p>12 Main Street</p>"
    ),
    "bridge": ("<title>Bridge 12</title><h1>Cedar River Bridge</h1><p>Bridge is currently closed for maintenance.</p>"),
    "bridge 2": (
        "<title>Bridge 12</title><h1>Cedar River Bridge</h1><p>Built in 1931. The bridge is close"
        "d due to emergency maintenance until May.</p>"
    ),
    "book": ("<title>Catalogue</title><h1>Not a Robot</h1><p>By A. Smith. Fiction, 212 pages. Copies: 3.</p>"),
    "book 2": (
        "<title>Catalogue: Not a Robot</title><h2>Not a Robot</h2><p>By A. Smith. Fiction, 212 pages. On the shelf.</p>"
    ),
    "book 3": (
        "<title>Library</title><table><tr><th>Title</th><td>I'm Not a Robot</td></tr><tr><th>Auth"
        "or</th><td>A. Smith</td></tr></table>"
    ),
    "result and login": (
        "<title>Results</title><h1>Search results</h1><p>1 record: Smith, A., 12 Main Street.</p>"
        "<p>Please log in to save searches.</p>"
    ),
    "person": ("<title>Roster</title><h1>Inmate 12</h1><p>Visits: his wife was blocked from visiting on May 3.</p>"),
}

WALLS = {
    "portuguese": (
        (
            "<title>Acesso negado</title><h1>Acesso negado</h1><p>Voc\xea n\xe3o tem permiss\xe3o para acessar"
            " esta p\xe1gina.</p>"
        ),
        K.BLOCKED,
    ),
    "portuguese text": (
        ("<title>Portal</title><div><p>Voc\xea n\xe3o tem permiss\xe3o para acessar este servidor.</p></div>"),
        K.BLOCKED,
    ),
    "chinese": (
        (
            "<title>\u8bbf\u95ee\u88ab\u62d2\u7edd</title><h1>\u8bbf\u95ee\u88ab\u62d2\u7edd</h1><p>\u60a8\u7684\u8bf7\u6c42\u5df2\u88ab\u62e6\u622a\u3002</p>"
        ),
        K.BLOCKED,
    ),
    "chinese text": (
        (
            "<title>403</title><div>\u5f88\u62b1\u6b49\uff0c\u8bbf\u95ee\u88ab\u62d2\u7edd\uff0c\u8bf7\u8054\u7cfb\u7ba1\u7406\u5458</div>"
        ),
        K.BLOCKED,
    ),
    "image captcha": (
        (
            "<html><body><form action=/go method=post><img src='/captcha.php?id=1'><input name=captch"
            "a_code><input type=submit></form></body></html>"
        ),
        K.CAPTCHA,
    ),
    "meta refresh": (
        ("<html><head><meta http-equiv='refresh' content='0;url=/sorry/index?continue=x'></head><body></body></html>"),
        K.CAPTCHA,
    ),
    "meta refresh 2": (
        ('<html><head><meta http-equiv="refresh" content="0; url=/challenge?r=1"></head><body></body></html>'),
        K.CAPTCHA,
    ),
    "cloudflare": (
        (
            '<html><head><title></title></head><body><script src="/cdn-cgi/challenge-platform/h/b/orc'
            'hestrate/chl_page/v1?ray=1"></script></body></html>'
        ),
        K.CAPTCHA,
    ),
    "cloudflare 2": (
        (
            "<html><body><script>(function(){var a=document.createElement('script');a.src='/cdn-cgi/c"
            "hallenge-platform/h/g/orchestrate/managed/v1';document.head.appendChild(a)})();</script>"
            "</body></html>"
        ),
        K.CAPTCHA,
    ),
    "frame div": (
        (
            "<title>County</title><div class=header>Cedar County</div><div>Access to the records has "
            "been blocked by the server</div>"
        ),
        K.BLOCKED,
    ),
    "frame td": (
        ("<title>County</title><table><tr><td>Cedar County</td><td>Your access has been blocked</td></tr></table>"),
        K.BLOCKED,
    ),
    "alarm": (
        ("<title>County</title><table><tr><td>Error</td><td>Access denied</td></tr></table>"),
        K.BLOCKED,
    ),
    "alarm b": (
        ("<title>County</title><p><b>Warning:</b> access denied</p>"),
        K.BLOCKED,
    ),
    "unavail": (
        ("<title>County</title><h1>County</h1><p>The service is temporarily unavailable.</p>"),
        K.SERVER_ERROR,
    ),
    "offline": (
        ("<title>County</title><h1>County</h1><p>The system is offline for scheduled maintenance.</p>"),
        K.MAINTENANCE,
    ),
    "bare": (
        ("<title>County</title><h1>County</h1><p>Down for maintenance.</p>"),
        K.MAINTENANCE,
    ),
    "limit": (
        ("<title>County</title><h1>County</h1><p>You have reached your daily limit.</p>"),
        K.RATE_LIMITED,
    ),
    "you": (
        ("<title>Portal</title><p>Your access to this site has been blocked.</p>"),
        K.BLOCKED,
    ),
    "banned": (
        ("<title>Portal</title><p>This IP has been banned.</p>"),
        K.BLOCKED,
    ),
    "closed": (
        ("<title>Portal</title><p>This site is temporarily closed. Please come back later.</p>"),
        K.MAINTENANCE,
    ),
    "closed m": (
        ("<title>Portal</title><p>The system is currently closed for maintenance.</p>"),
        K.MAINTENANCE,
    ),
    "denied": (
        ("<title>County</title><p>Access denied.</p>"),
        K.BLOCKED,
    ),
    "denied cell": (
        ("<title>County</title><table><tr><td>Access denied</td></tr></table>"),
        K.BLOCKED,
    ),
    "denied layout": (
        ("<table><tr><td><img src=x></td><td>Access denied</td></tr></table>"),
        K.BLOCKED,
    ),
    "session": (
        ("<title>County</title><h1>County</h1><p>The session has ended. Please start again.</p>"),
        K.SESSION_EXPIRED,
    ),
    "session2": (
        ("<title>County</title><h1>County</h1><p>The session has timed out.</p>"),
        K.SESSION_EXPIRED,
    ),
    "robot": (
        ("<title>County</title><p>Please confirm you are not a robot</p>"),
        K.CAPTCHA,
    ),
    "login": (
        ("<title>County</title><h1>County</h1><p>Please log in to view this record.</p>"),
        K.SESSION_EXPIRED,
    ),
    "login2": (
        ("<title>County</title><h1>County</h1><p>You must log in.</p>"),
        K.SESSION_EXPIRED,
    ),
}


def kind_of(text: str) -> FailureKind | None:
    headers = (("content-type", "text/html; charset=utf-8"),)
    answer = Response(url="https://site.example/parcel/1", status=200, headers=headers, body=text.encode())
    failure = classify(answer, SitePolicy(), 0.0).failure
    return None if failure is None else failure.kind


@pytest.mark.parametrize("record", RECORDS)
def test_a_short_record_with_the_words_of_a_wall_is_a_page(record: str) -> None:
    assert kind_of(RECORDS[record]) is None


@pytest.mark.parametrize("wall", WALLS)
def test_a_wall_is_known_by_how_it_speaks_however_little_it_says(wall: str) -> None:
    text, kind = WALLS[wall]
    assert kind_of(text) is kind


def test_a_page_that_leads_on_later_or_holds_something_is_no_wall() -> None:
    later = "<meta http-equiv=refresh content='1200;url=/timeout'><h1>Parcel 12</h1><p>Owner: A. Smith</p>"
    assert kind_of(later) is None
    application = (
        "<div id=root></div><script src=/a.js></script><script src=/cdn-cgi/challenge-platform/scripts/jsd/main.js>"
    )
    assert kind_of(f"<html><body>{application}</script></body></html>") is None
    form = "<form><img src=/captcha.png><input name=captcha><input name=parcel><input type=submit></form>"
    assert kind_of(f"<h1>Parcel search</h1>{form}") is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("<p>", ".</p>", True),
        ("<td>", "</td>", False),
        ("<p>the lot ", " in may</p>", False),
        ("<p>your account ", "</p>", True),
        ("<th>remark</th><td>the site ", "</td>", False),
        ("<th>error</th><td>the site ", "</td>", True),
        ("<dt>remark<dd>the site ", "", False),
        ("<b>remark:</b> the site ", "", False),
        ("<p>please wait</p><p>the lot ", "</p>", False),
    ],
)
def test_words_count_where_the_page_speaks_to_its_visitor(before: str, after: str, said: bool) -> None:
    assert addresses_visitor("was blocked", f"<html><body>{before}was blocked{after}") is said


def test_words_that_are_found_nowhere_in_the_markup_count() -> None:
    assert addresses_visitor("was blocked", "<p>the lot was <b>blocked</b></p>")

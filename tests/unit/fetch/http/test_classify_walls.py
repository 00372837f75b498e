"""What is no page though it may come with status 200: walls, outages, expired sessions."""

import pytest

from swath.demo.county import http, pages
from swath.domain.failure import FailureKind
from swath.domain.site_policy import SitePolicy
from swath.fetch.http.blocks.classify import classify
from swath.fetch.http.messages import Response

pytestmark = pytest.mark.req("K7", "H2")

K = FailureKind
MENU = "".join(f'<tr><td><a href="/{n}">Menu item {n}</a></td></tr>' for n in range(80))
FRAME = (
    "<html><head><title>Cedar County Treasurer</title></head><body><table><tr><td><table>" + MENU + "</table></td>"
    "<td>@MAIN@</td></tr></table><div id='footer'>"
    + "Cedar County, 12 Main Street, open from 8 to 5. " * 20
    + "</div></body></html>"
)


def kind_of(
    text: str, status: int = 200, *, content_type: str = "text/html", url: str = "https://site.example/parcel/1"
) -> FailureKind | None:
    answer = Response(url=url, status=status, headers=(("content-type", content_type),), body=text.encode())
    failure = classify(answer, SitePolicy(), 0.0).failure
    return None if failure is None else failure.kind


@pytest.mark.parametrize("status", [200, 202, 403, 503])
@pytest.mark.parametrize(
    "text",
    [
        "<title>Just a moment...</title><script>window._cf_chl_opt={cType:'managed'}</script>",
        "<html><body><script>var dd={'host':'geo.captcha-delivery.com'}</script></body></html>",
        "<title>Access to this page has been denied</title><div id='px-captcha'></div><p>Press &amp; Hold to confirm",
        "<script>window.gokuProps={}</script><script src='https://x.token.awswaf.com/challenge.js'></script>",
        "<h1>Security check</h1><p>Please verify that you are human.<div class='h-captcha'></div>",
        "<title>Robot Check</title><form><img src='/c.jpg'><input name='captcha'><p>Type the characters you see</form>",
        "<html><body><form action='/go'><div class='g-recaptcha'></div><button>Go</button></form></body>",
        "<html><body><script>document.cookie='k=1';location.reload();</script></body></html>",
    ],
)
def test_a_challenge_is_a_captcha_whatever_its_status(text: str, status: int) -> None:
    assert kind_of(text, status) == K.CAPTCHA


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "<title>Access Denied</title><h1>Access Denied</h1>You don't have permission to access Reference #18",
            K.BLOCKED,
        ),
        ("<title>Request Rejected</title>The requested URL was rejected. Your support ID is: 123", K.BLOCKED),
        ("<html><body>Request unsuccessful. Incapsula incident ID: 877000-1</body></html>", K.BLOCKED),
        ("<title>Sucuri WebSite Firewall - Access Denied</title><h1>Access Denied</h1>", K.BLOCKED),
        ("<p>Our systems have detected unusual traffic from your computer network.", K.BLOCKED),
        ("<h1>Not available</h1><p>This content is not available in your country.", K.BLOCKED),
        ("<title>Too Many Requests</title><p>Please slow down.", K.RATE_LIMITED),
        ("<title>Oops</title><h1>Sorry</h1><p>There were too many requests today.", K.RATE_LIMITED),
        ("<p>You have exceeded the maximum number of searches for today.", K.RATE_LIMITED),
        ("<h1>Error 1015</h1><h2>You are being rate limited</h2><title>Access denied</title>", K.RATE_LIMITED),
        ("<p>Your session has expired. Please start a new search.", K.SESSION_EXPIRED),
        ("<title>Login</title><form><input name=user><input type=password name=pw></form>", K.SESSION_EXPIRED),
        ("<html><body><form><input name=user><input type=password name=pw></form>", K.SESSION_EXPIRED),
        ("<h1>Sign in to continue</h1><form><input name=u><input type='password'></form>", K.SESSION_EXPIRED),
        ("<?xml version='1.0'?><response><session-expired/></response>", K.SESSION_EXPIRED),
        ("<h1>We'll be back soon</h1><p>The site is down for scheduled maintenance.", K.MAINTENANCE),
        ("<title>Under maintenance</title>", K.MAINTENANCE),
        ("<h1>Server Error in '/' Application.</h1>" + "<pre>at System.Web.UI.Page() " * 300, K.SERVER_ERROR),
        ("<title>502 Bad Gateway</title><h1>502 Bad Gateway</h1><hr><center>nginx</center>", K.SERVER_ERROR),
        ("<h1>Whitelabel Error Page</h1>This application has no explicit mapping for /error", K.SERVER_ERROR),
        ("<b>Fatal error</b>: Uncaught PDOException: SQLSTATE[HY000] [2002] in /var/www/db.php", K.SERVER_ERROR),
        ('<pre>Traceback (most recent call last):\n File "x", line 1', K.SERVER_ERROR),
        ("<title>404 Not Found</title>The requested URL was not found on this server.", K.NOT_FOUND_PAGE),
    ],
)
def test_a_page_that_says_what_it_is_is_believed_with_status_200(text: str, kind: FailureKind) -> None:
    assert kind_of(text) == kind


@pytest.mark.parametrize(
    ("main", "kind"),
    [
        ("<p class='error'>Your session has expired.</p>", K.SESSION_EXPIRED),
        ("<p>Sorry, this page has expired.</p>", K.SESSION_EXPIRED),
        ("<h1>Access denied</h1><p>You have been blocked.", K.BLOCKED),
        ("<p>The system is currently down for maintenance.", K.MAINTENANCE),
        ("<h1>An unexpected error has occurred</h1>", K.SERVER_ERROR),
    ],
)
def test_a_message_in_the_usual_frame_of_a_site_is_seen(main: str, kind: FailureKind) -> None:
    page = FRAME.replace("@MAIN@", main)
    assert len(page) > 4_096
    assert kind_of(page) == kind


def test_a_message_behind_a_large_view_state_is_seen() -> None:
    state = f"<input type='hidden' name='__VIEWSTATE' value='{'dDwtMTAw' * 20_000}'>"
    assert (
        kind_of(f"<html><body><form>{state}</form><p>Your session has expired.</p></body></html>") == K.SESSION_EXPIRED
    )


@pytest.mark.parametrize("charset", ["utf-16", "cp1252"])
def test_walls_are_read_in_their_charset(charset: str) -> None:
    body = "<html><title>Access Denied</title><h1>Accès refusé</h1>".encode(charset)
    headers = (("content-type", f"text/html; charset={charset}"),)
    failure = classify(Response(url="http://a/", status=200, headers=headers, body=body), SitePolicy(), 0.0).failure
    assert failure is not None
    assert failure.kind == K.BLOCKED


@pytest.mark.parametrize(
    ("text", "content_type", "kind"),
    [
        ('{"error": "Too many requests"}', "application/json", K.RATE_LIMITED),
        ('{"error": {"message": "Your session has expired"}}', "application/json", K.SESSION_EXPIRED),
        ('{"url": "https://geo.captcha-delivery.com/captcha/?x"}', "application/json", K.CAPTCHA),
        ("Access Denied", "text/plain", K.BLOCKED),
        ("<h1>Access Denied</h1>", "Text/HTML", K.BLOCKED),
        ("<!DOCTYPE html><HTML><h1>Access Denied</h1>", "application/pdf", K.BLOCKED),
        ("upstream connect error or disconnect/reset before headers", "text/plain", K.SERVER_ERROR),
    ],
)
def test_answers_are_read_whatever_their_type(text: str, content_type: str, kind: FailureKind) -> None:
    assert kind_of(text, content_type=content_type) == kind


@pytest.mark.parametrize(
    ("text", "status", "kind"),
    [
        ("<h1>Forbidden</h1>", 403, K.BLOCKED),
        ("<h1>Forbidden</h1><p>API rate limit exceeded", 403, K.RATE_LIMITED),
        ('{"message": "API rate limit exceeded"}', 403, K.RATE_LIMITED),
        ("<h1>Please log in</h1><form><input type=password></form>", 403, K.SESSION_EXPIRED),
        ("<h1>Service Unavailable</h1>", 503, K.SERVER_ERROR),
        ("<h1>Scheduled maintenance</h1>", 500, K.MAINTENANCE),
        ("<h1>Access Denied</h1>", 503, K.BLOCKED),
        ("<h1>Access Denied</h1>", 404, K.NOT_FOUND_PAGE),
        ("<h1>Please verify you are human</h1>", 429, K.CAPTCHA),
        ("<h1>Access denied</h1>", 429, K.RATE_LIMITED),
        ("<h1>Something is missing</h1>", 400, K.HTTP_ERROR),
    ],
)
def test_the_body_of_a_refusal_tells_more_than_its_status(text: str, status: int, kind: FailureKind) -> None:
    assert kind_of(text, status) == kind


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (pages.BLOCKED, K.BLOCKED),
        (pages.MAINTENANCE, K.MAINTENANCE),
        (pages.RUNTIME_ERROR, K.SERVER_ERROR),
        (pages.VIEW_STATE_FAILED, K.SESSION_EXPIRED),
        (pages.NOT_FOUND, K.NOT_FOUND_PAGE),
    ],
)
def test_what_the_demo_county_says_is_understood_with_and_without_its_status(
    page: http.SiteResponse, kind: FailureKind
) -> None:
    text = bytes(page.body).decode()
    assert (kind_of(text, page.status), kind_of(text)) == (kind, kind)

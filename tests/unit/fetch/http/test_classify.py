"""Statuses and headers, and the wait that an answer asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.failure import Failure, FailureKind
from swath.domain.site_policy import SitePolicy
from swath.fetch.http.blocks.classify import PAGE, classify, retry_after_seconds
from swath.fetch.http.messages import Headers, Response

NOW = 1_445_412_480.0  # 2015-10-21 07:28:00 GMT
HTML: Headers = (("content-type", "text/html; charset=utf-8"),)


def response(status: int, headers: Headers = (), body: bytes = b"") -> Response:
    url = "https://me:secret@site.example/parcel?token=secret"
    return Response(url=url, status=status, headers=headers, body=body)


def failure_of(answer: Response) -> Failure:
    failure = classify(answer, SitePolicy(), NOW).failure
    assert failure is not None
    return failure


@pytest.mark.req("S6")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (304, FailureKind.HTTP_ERROR),
        (400, FailureKind.HTTP_ERROR),
        (401, FailureKind.SESSION_EXPIRED),
        (403, FailureKind.BLOCKED),
        (404, FailureKind.NOT_FOUND_PAGE),
        (407, FailureKind.HTTP_ERROR),
        (408, FailureKind.SERVER_ERROR),
        (410, FailureKind.NOT_FOUND_PAGE),
        (419, FailureKind.SESSION_EXPIRED),
        (425, FailureKind.SERVER_ERROR),
        (429, FailureKind.RATE_LIMITED),
        (440, FailureKind.SESSION_EXPIRED),
        (451, FailureKind.HTTP_ERROR),
        (500, FailureKind.SERVER_ERROR),
        (502, FailureKind.SERVER_ERROR),
        (503, FailureKind.SERVER_ERROR),
        (599, FailureKind.SERVER_ERROR),
        (999, FailureKind.BLOCKED),
    ],
)
def test_every_status_has_its_kind(status: int, kind: FailureKind) -> None:
    failure = failure_of(response(status))
    assert failure.kind == kind
    assert str(status) in failure.message


@pytest.mark.parametrize("status", [200, 201, 204, 206])
def test_success_is_a_page(status: int) -> None:
    assert classify(response(status, body=b"page"), SitePolicy(), NOW) is PAGE


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ('Basic realm="x"', FailureKind.CREDENTIAL),
        ("Negotiate", FailureKind.CREDENTIAL),
        ('Bearer error="invalid_token"', FailureKind.SESSION_EXPIRED),
    ],
)
def test_a_password_that_nobody_gave_is_no_expired_session(asked: str, kind: FailureKind) -> None:
    assert failure_of(response(401, (("www-authenticate", asked),))).kind == kind


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (("cf-mitigated", "challenge"), 403),
        (("x-amzn-waf-action", "challenge"), 202),
        (("x-amzn-waf-action", "captcha"), 405),
    ],
)
def test_a_firewall_that_names_its_challenge_is_believed(header: tuple[str, str], status: int) -> None:
    assert failure_of(response(status, (header,))).kind == FailureKind.CAPTCHA


@pytest.mark.req("S6")
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("Wed, 21 Oct 2015 07:30:00 GMT", 120.0),
        ("Wed, 21 Oct 2015 07:00:00 GMT", 0.0),
        ("Wed Oct 21 07:30:00 2015", 120.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("9999999999", 999_999_999.0),
        ("99999999999999999999", 999_999_999.0),
        ("9" * 5_000, 999_999_999.0),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 01 Jan 2035 00:00:00 +99999999999999999999", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(status: int, asked: str, seconds: float | None) -> None:
    failure = failure_of(response(status, (("retry-after", asked),)))
    assert failure.kind == FailureKind.RATE_LIMITED
    assert failure.retry_after_seconds == seconds


def test_an_outage_that_says_so_is_maintenance_and_keeps_the_wait_that_it_asks_for() -> None:
    body = b"<title>Maintenance</title><h1>Down for scheduled maintenance</h1><p>We will be back at noon."
    failure = failure_of(response(503, (*HTML, ("retry-after", "600")), body))
    assert failure.kind == FailureKind.MAINTENANCE
    assert failure.retry_after_seconds == 600


@given(st.text(max_size=60))
def test_no_retry_after_breaks_the_reading(text: str) -> None:
    seconds = retry_after_seconds(text, NOW)
    assert seconds is None or seconds >= 0


@pytest.mark.req("Z7")
def test_messages_carry_neither_credentials_nor_query() -> None:
    assert failure_of(response(500)).message == "HTTP 500 at https://site.example/parcel"
    wall = failure_of(response(200, HTML, b"<h1>Request Rejected</h1>"))
    assert wall.message == "HTTP 200 at https://site.example/parcel says “request rejected”"


def test_an_empty_page_is_no_page() -> None:
    assert failure_of(response(200, HTML)).kind == FailureKind.SERVER_ERROR
    assert failure_of(response(200, HTML, b"<html><head></head><body></body></html>")).kind == FailureKind.SERVER_ERROR
    for blank in (b"", b" ", b"\r\n\t \n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"\0\0"):
        assert failure_of(response(200, HTML, blank)).kind == FailureKind.SERVER_ERROR
        assert failure_of(response(200, (), blank)).kind == FailureKind.SERVER_ERROR
        assert classify(response(204, HTML, blank), SitePolicy(), NOW) is PAGE
    for status in (201, 202, 204, 205):
        assert classify(response(status), SitePolicy(), NOW) is PAGE
    assert classify(response(200, (("content-type", "text/csv"),)), SitePolicy(), NOW) is PAGE
    app = b'<html><body><div id="root"></div><script src="/app.js"></script></body></html>'
    assert classify(response(200, HTML, app), SitePolicy(), NOW) is PAGE

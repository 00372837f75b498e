"""Signatures of a site's own come first, and may overrule everything general."""

import time
from typing import Any

import pytest

from swath.domain.failure import FailureKind
from swath.domain.site_policy import SitePolicy
from swath.fetch.http.blocks.classify import PAGE, Verdict, classify
from swath.fetch.http.messages import Headers, Response
from tests.support.bounds import RUNAWAY_CPU_SECONDS, cpu_seconds

pytestmark = pytest.mark.req("K7", "D1", "H2")


def verdict(signatures: list[dict[str, Any]], text: str = "", status: int = 200, **more: Any) -> Verdict:
    headers: Headers = (("content-type", "text/html"), *more.pop("headers", ()))
    answer = Response(url=more.pop("url", "http://a/x"), status=status, headers=headers, body=text.encode())
    return classify(answer, SitePolicy.model_validate({"signatures": signatures}), 0.0)


def kind_of(found: Verdict) -> FailureKind | None:
    return None if found.failure is None else found.failure.kind


@pytest.mark.parametrize(
    ("signature", "fitting", "other"),
    [
        ({"body": "robot trap"}, {"text": "<p>A Robot TRAP"}, {"text": "<p>A robot"}),
        ({"title": "^oh no"}, {"text": "<TITLE>\n Oh no! </TITLE>"}, {"text": "<title>Well, oh no</title>"}),
        ({"css": "#wall .brick"}, {"text": "<div id=wall><p class=brick>x"}, {"text": "<p class=brick>x"}),
        ({"url": "/gate"}, {"text": "x", "url": "http://a/gate?next=x"}, {"text": "x", "url": "http://a/x"}),
        ({"header": "X-Wall: on"}, {"text": "x", "headers": (("x-wall", "ON"),)}, {"text": "x"}),
        ({"status": [418]}, {"status": 418}, {"status": 200, "text": "x"}),
        ({"body": "wall", "largest_bytes": 10}, {"text": "a wall"}, {"text": "a wall " * 9}),
        ({"body": "wall", "title": "sorry"}, {"text": "<title>Sorry</title>a wall"}, {"text": "a wall"}),
    ],
)
def test_all_that_is_given_must_fit(signature: dict[str, Any], fitting: dict[str, Any], other: dict[str, Any]) -> None:
    signatures = [{"kind": "blocked", **signature}]
    assert kind_of(verdict(signatures, **fitting)) == FailureKind.BLOCKED
    assert verdict(signatures, **other) is PAGE


@pytest.mark.parametrize(
    "kind", [k for k in FailureKind if k in {"captcha", "maintenance", "access_policy", "layout_changed"}]
)
def test_a_signature_gives_its_kind(kind: FailureKind) -> None:
    found = verdict([{"kind": kind.value, "body": "odd"}], "odd")
    assert kind_of(found) == kind
    assert found.failure is not None
    assert found.failure.message == "HTTP 200 at http://a/x fits a signature of the site"


def test_the_first_that_fits_decides() -> None:
    signatures = [{"kind": "maintenance", "body": "closed"}, {"kind": "blocked", "body": "closed today"}]
    assert kind_of(verdict(signatures, "closed today")) == FailureKind.MAINTENANCE
    assert kind_of(verdict(signatures[::-1], "closed today")) == FailureKind.BLOCKED


def test_a_page_of_the_site_overrules_what_is_general() -> None:
    login = "<title>Login</title><form><input name=u><input type=password></form>"
    assert kind_of(verdict([], login)) == FailureKind.SESSION_EXPIRED
    assert verdict([{"kind": "page", "title": "^login$"}], login) is PAGE


@pytest.mark.parametrize("status", [200, 404, 410])
def test_a_missing_record_is_the_word_of_the_site(status: int) -> None:
    found = verdict([{"kind": "not_found", "body": "no records found"}], "<p>No records found.", status)
    assert found.failure is None
    assert found.not_found == f"HTTP {status} at http://a/x says that there is no such record"


@pytest.mark.parametrize("kind", ["page", "not_found"])
def test_what_refuses_is_a_success_only_where_its_status_is_named(kind: str) -> None:
    assert kind_of(verdict([{"kind": kind, "body": "county"}], "<p>county", 500)) == FailureKind.SERVER_ERROR
    assert kind_of(verdict([{"kind": kind, "body": "county"}], "<p>county", 403)) == FailureKind.BLOCKED
    assert verdict([{"kind": kind, "body": "county", "status": [403]}], "<p>county", 403).failure is None


def test_what_stands_behind_a_large_view_state_is_found() -> None:
    text = f"<input value='{'dDwtMTAw' * 20_000}'><p id=none>No records found.</p>"
    assert verdict([{"kind": "not_found", "body": "no records"}], text).not_found is not None
    assert verdict([{"kind": "not_found", "css": "#none"}], text).not_found is not None


@pytest.mark.req("Z6")
def test_a_page_too_heavy_to_parse_fits_no_selector_and_costs_nothing() -> None:
    heavy = "".join(f"<p><font a{number}></p>" for number in range(2_800))
    began = time.process_time()
    assert verdict([{"kind": "not_found", "css": "font"}], heavy).not_found is None
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS


@pytest.mark.req("Z6")
def test_a_page_that_leads_a_signature_astray_is_a_failure_after_a_moment() -> None:
    def led_astray(signatures: int) -> None:
        found = verdict([{"kind": "blocked", "body": "(?s)(x.*){8}y?z"}] * signatures, "x" * 9_000)
        assert kind_of(found) == FailureKind.LAYOUT_CHANGED
        assert found.failure is not None
        assert "takes longer than" in found.failure.message

    assert cpu_seconds(lambda: led_astray(50)) < 10 * cpu_seconds(lambda: led_astray(1))

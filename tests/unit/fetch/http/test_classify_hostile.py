"""No text makes the classifier run away, and a good page costs next to nothing."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.demo.county import parcel_pages, parcels
from swath.domain.site_policy import SitePolicy
from swath.fetch.http.blocks.classify import PAGE, classify
from swath.fetch.http.blocks.phrases import PHRASES
from swath.fetch.http.blocks.scoring import source_text
from swath.fetch.http.blocks.signatures import MARKS, SURE_MARKS, SUSPICIOUS_WORDS, TITLES
from swath.fetch.http.messages import Response

HTML = (("content-type", "text/html; charset=utf-8"),)
MEGABYTE = 1 << 20
# Reading 64 KB tag by tag takes some ten ms; what runs away takes minutes. Much room, because machines are busy.
MOST_SECONDS = 1.5


def seconds_of(body: bytes, policy: SitePolicy | None = None, status: int = 200) -> float:
    began = time.process_time()
    classify(Response(url="http://a/", status=status, headers=HTML, body=body), policy or SitePolicy(), 0.0)
    return time.process_time() - began


def filled(piece: bytes) -> bytes:
    return piece * (MEGABYTE // len(piece))


@pytest.mark.req("H3", "Z6")
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        *(b"<", b"<a", b"<div>", b"<a b=", b"<!--", b"<script>", b"<title>", b"<h1>", b"<td>a", b"<table><tr><td>"),
        *(b"</h1>", b"class=class=", b'<a class="x class="', b"a", b" ", b"\n", b"\x00", b"\xff", b"&", b"&amp;"),
        *(b"A" * 511 + b" ", b"your session ", b"access denied ", b"please log in ", b"too many requests ", b"<nav>"),
        *(b"under a a maintenance ", b"error ", b"exception", b"a.exception ", b"you are ", b"captcha ", b"<input "),
        *(b"verify you are a a human ", b"<form><input><div class=g-recaptcha>", b"<p hidden>", b"try again in "),
        *(
            b"down a a a a for a a a a ",
            b"<b>was blocked",
            b"<td>a<td>was blocked",
            b"<meta content=0;url=",
            b"<img captcha",
        ),
    ],
)
def test_a_megabyte_of_anything_is_judged_in_bounded_time(piece: bytes) -> None:
    body = filled(piece)
    assert seconds_of(body) < MOST_SECONDS
    assert seconds_of(b"<" + body.replace(b"<", b"")[:60_000]) < MOST_SECONDS
    assert seconds_of(b"<html><title>Error</title>" + body, status=403) < MOST_SECONDS


@pytest.mark.req("H3", "Z6")
@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", [b"<div>", b"owner ", b"a", b"<td>owner"])
def test_what_an_operator_looks_for_sees_a_bounded_part(piece: bytes) -> None:
    looks = ({"body": "owner.{0,80}deceased"}, {"title": "sorry"}, {"css": "#gone"}, {"body": r"session\s+expired"})
    policy = SitePolicy.model_validate({"signatures": [{"kind": "blocked", **look} for look in looks]})
    assert seconds_of(filled(piece), policy) < MOST_SECONDS / 5


@pytest.mark.req("H3")
@pytest.mark.parametrize("piece", [b"a b ", b"x" * 1_000 + b" y ", b"<p>"])
def test_only_the_first_part_is_read(piece: bytes) -> None:
    source = source_text(Response(url="http://a/", status=200, headers=HTML, body=filled(piece)))
    assert len(source) <= 64 * 1024


@pytest.mark.req("H3")
@given(
    st.binary(max_size=300), st.sampled_from([200, 403, 503]), st.sampled_from(["text/html", "application/json", ""])
)
def test_no_body_breaks_it(body: bytes, status: int, content_type: str) -> None:
    headers = (("content-type", content_type),)
    classify(Response(url="http://a/", status=status, headers=headers, body=b"<html>" + body), SitePolicy(), 0.0)
    classify(Response(url="http://a/", status=status, headers=headers, body=body), SitePolicy(), 0.0)


def test_a_good_page_is_known_by_a_quick_look() -> None:
    """Compared with a search for one word in the same run: it is some six of them, and reading it all is a hundred."""
    body = bytes(parcel_pages.page(parcels.parcel("100-10-002")).body)
    body = (body + body[3_000:])[:12_288]
    answer, policy = Response(url="http://a/parcel/1", status=200, headers=HTML, body=body), SitePolicy()
    assert classify(answer, policy, 0.0) is PAGE

    def quickest(look: object) -> float:
        assert callable(look)
        times = []
        for _ in range(300):
            began = time.perf_counter()
            look()
            times.append(time.perf_counter() - began)
        return min(times)

    assert quickest(lambda: classify(answer, policy, 0.0)) < 15 * quickest(lambda: b"maintenance" in body)


def test_tables_are_in_small_letters() -> None:
    patterns = [row.pattern for rows in PHRASES.values() for row in rows]
    patterns += [text for texts in TITLES.values() for text in texts]
    words = [row.word for rows in PHRASES.values() for row in rows]
    for text in (
        *words,
        *SUSPICIOUS_WORDS,
        *MARKS,
        *SURE_MARKS,
        *(re.sub(r"\\[A-Z]", "", pattern) for pattern in patterns),
    ):
        assert text == text.lower()

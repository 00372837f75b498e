"""Selectors on stored pages: through shadow roots, by text, by XPath, and at a bounded price."""

import time

import pytest
from selectolax.lexbor import LexborNode

from swath import Failed, FailureKind, parse_html
from swath.recordings.extraction.stored_page import SelectablePage, close_shadow_roots, open_shadow_roots
from swath.recordings.schema.selectors import Selectors
from tests.support.bounds import RUNAWAY_CPU_SECONDS

pytestmark = pytest.mark.req("A1", "A3")

SHADOWS = """<!DOCTYPE html><html><body><p>before <x-card id="card"><template shadowrootmode="open"><style>p{}</style>
<div class="inner"><p>hidden <b>deep</b></p><x-leaf><template shadowrootmode="open" shadowrootdelegatesfocus="">
<i id="leaf">leaf</i></template></x-leaf></div></template><span>light</span></x-card> after</p>
<template><u>a template of the page</u></template>
<script>const html = '<template shadowrootmode="open">';</script>
<!-- <template shadowrootmode="open"> -->
<b>outside</b></body></html>"""


def find(html: str, *alternatives: str | tuple[str, ...]) -> list[str]:
    selectors: Selectors = tuple((one,) if isinstance(one, str) else one for one in alternatives)
    found = SelectablePage(parse_html(html)).find(selectors)
    return [one if isinstance(one, str) else " ".join((one.text() or "").split()) for one in found]


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("b", ["outside"]),
        ("pierce/b", ["deep", "outside"]),
        (("#card", "b"), ["deep"]),
        (("#card", "x-leaf", "#leaf"), ["leaf"]),
        (("#card", "#leaf"), []),
        (("#card", "pierce/#leaf"), ["leaf"]),
        ("pierce/#leaf", ["leaf"]),
        ("#leaf", []),
        ("#card > span", ["light"]),
        (("#card", "span"), []),
        ("xpath///b", ["outside"]),
        (("#card", "xpath///b"), ["deep"]),
        (("#card", "xpath/.//b"), ["deep"]),
        ("text/deep", ["deep"]),
        (("#card", "text/hidden deep"), ["hidden deep"]),
        ("u", []),
        ("pierce/applet", []),
    ],
)
def test_chains_lead_through_shadow_roots_and_nothing_else_does(
    selector: str | tuple[str, ...], found: list[str]
) -> None:
    assert find(SHADOWS, selector) == found


def test_what_is_around_a_shadow_root_keeps_its_place() -> None:
    assert find(SHADOWS, "xpath/normalize-space(/html/body/p/text()[2])") == ["after"]
    assert find(SHADOWS, "body > *:last-child") == ["outside"]


def test_shadow_roots_are_written_again_as_they_were_stored() -> None:
    assert close_shadow_roots(open_shadow_roots(SHADOWS)) == SHADOWS


@pytest.mark.parametrize(
    "html",
    [
        "<!--" * 100_000 + "shadowrootmode",
        "<script>" * 50_000 + "shadowrootmode",
        "<a " * 200_000 + "shadowrootmode",
        "<template shadowrootmode='" * 50_000,
        "</template>" * 50_000 + "shadowrootmode",
        "<" * 300_000 + "shadowrootmode",
    ],
)
@pytest.mark.req("Z6")
def test_a_hostile_page_costs_little(html: str) -> None:
    began = time.process_time()
    open_shadow_roots(html)
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello", ["Hello world"]),
        ("Hello  world", ["Hello world"]),
        ("one", ["one", "one more"]),
        ("Go", ["Go"]),
        ("press", []),
        ("nowhere", []),
        ("", []),
    ],
)
def test_text_finds_the_smallest_elements_that_contain_it(text: str, found: list[str]) -> None:
    html = (
        "<title>Hello</title><div><p>Hello <b>world</b></p><ul><li>one</li><li><i>one more</i></li></ul>"
        "<button>Go</button><script>press</script></div>"
    )
    assert find(html, f"text/{text}") == found


def test_the_words_on_a_button_are_its_text() -> None:
    (node,) = SelectablePage(parse_html('<form><input type="submit" value="Search now"></form>')).find(
        (("text/Search",),)
    )
    assert isinstance(node, LexborNode)
    assert node.tag == "input"


@pytest.mark.parametrize("selector", ["p:visible", "xpath///p[", "aria/Search"])
def test_a_selector_that_means_nothing_here_is_told(selector: str) -> None:
    with pytest.raises(Failed, match="cannot be used on a stored page"):
        find("<p>x</p>", selector)


@pytest.mark.req("Z6")
@pytest.mark.parametrize(
    "expression", ["//*[//*[//c]]", "//a/following::b/preceding::c", "//*[count(//*) > count(//a)]"]
)
def test_an_xpath_that_would_take_for_ever_is_not_begun(expression: str) -> None:
    html = "<div>" + "<p>x</p>" * 3_000 + "</div>"
    began = time.process_time()
    with pytest.raises(Failed) as raised:
        find(html, f"xpath/{expression}")
    assert raised.value.failure.kind is FailureKind.TOO_LARGE
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS


@pytest.mark.req("Z6")
@pytest.mark.parametrize(
    "selector",
    [
        "*:has(* * * * * * * * * zzz)",
        "zzz * * * * * * td",
        "zzz ~ tr ~ tr ~ tr ~ tr",
        "p, :not(:is(zzz * * * * * *)) td",
        "main div div div td",
    ],
)
def test_a_selector_that_would_take_for_ever_is_not_begun(selector: str) -> None:
    html = "<div>" * 300 + "<table>" + "<tr><td>x</td></tr>" * 1_000 + "</table>"
    began = time.process_time()
    with pytest.raises(Failed, match="would take too long") as raised:
        find(html, selector)
    assert raised.value.failure.kind is FailureKind.TOO_LARGE
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        ("main table.a tbody tr td:nth-child(2n) a", 2_000),
        ("tr:has(th + td a[title='a b c d e f g']) td, .x .y .z", 2_000),
        ("div.page div > table tr:not(.head) td a", 2_000),
        ("div.page > div > table tr td a", 0),
    ],
)
def test_an_ordinary_selector_is_no_suspect(selector: str, count: int) -> None:
    row = "<tr><th>Owner</th><td><a title='a b c d e f g'>a</a></td></tr>"
    html = "<main><div class=page>" + "<div>" * 12 + f"<table class=a><tbody>{row * 2_000}</tbody></table>"
    assert len(find(html, selector)) == count


def test_an_ordinary_xpath_is_no_suspect() -> None:
    html = "<table>" + '<tr><th>Owner</th><td><a href="http://x//y">a</a></td></tr>' * 5_000 + "</table>"
    assert len(find(html, 'xpath///tr[.//a[@href="http://x//y"]]/td[preceding-sibling::th]')) == 5_000

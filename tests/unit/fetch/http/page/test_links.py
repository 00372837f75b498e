import pytest

from swath import Failed, FailureKind, Link, parse_html

pytestmark = pytest.mark.req("K4")

PAGE = """
<ul id=menu><li><a href="/">Home</a><li><a href="detail?id=1&amp;y=2">Tax <b>details</b></a></ul>
<a href="#top">Up</a><a href="mailto:a@site.example">Mail</a><a href="javascript:void(0)">Script</a><a name=x>Anchor</a>
<a href="http://[broken">Broken</a><a HREF="//other.example/x#y"> Other </a><map><area href=/map alt="County map"></map>
"""


def test_links_are_absolute_and_only_those_that_lead_somewhere() -> None:
    page = parse_html(PAGE, "http://site.example/app/search")
    assert page.links("body") == [
        Link("Home", "http://site.example/"),
        Link("Tax details", "http://site.example/app/detail?id=1&y=2"),
        Link("Other", "http://other.example/x"),
        Link("County map", "http://site.example/map"),
    ]
    assert page.links("#menu, #menu a") == page.links("body")[:2]


def test_links_are_found_by_their_text() -> None:
    page = parse_html(PAGE, "http://site.example/app/search")
    assert [link.url for link in page.links(text="details")] == ["http://site.example/app/detail?id=1&y=2"]
    assert page.link_at("#menu", "details") == "http://site.example/app/detail?id=1&y=2"
    with pytest.raises(Failed, match="has no link #menu with 'Bill'") as raised:
        page.link_at("#menu", "Bill")
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


def test_the_base_of_the_page_counts() -> None:
    html = "<base href='http://cdn.example/d/'><a href=x>x</a>"
    assert parse_html(html, "http://site.example/").link_at() == "http://cdn.example/d/x"
    assert (
        parse_html("<base href='http://[x'><a href=x>x</a>", "http://site.example/").link_at()
        == "http://site.example/x"
    )

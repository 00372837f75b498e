import subprocess
import sys

import pytest

from swath import Failed, FailureKind, parse_html
from swath.fetch.http.page.parsing import xpath
from swath.fetch.http.page.parsing.text_and_links import text_in

pytestmark = pytest.mark.req("K4")

PAGE = """
<h1>Parcel</h1><table id=t><tr><td>Owner<td>O'BRIEN<tr><td>Tax<td>$1</table>
<p class="a b">one <b>two</b> three</p><svg><circle r=1></circle></svg>
<my:tag @click=x data-x=1 onclick="f()">y</my:tag>
"""


def test_elements_are_the_nodes_that_css_finds() -> None:
    page = parse_html(PAGE)
    (cell,) = page.xpath("//td[.='Owner']/following-sibling::td")
    assert not isinstance(cell, str)
    assert text_in(cell) == "O'BRIEN"
    assert cell.mem_id == page.css("#t td")[1].mem_id


def test_paths_copied_from_a_browser_work() -> None:
    """Browsers put a tbody into every table, and so does our parser."""
    found = parse_html(PAGE).xpath("/html/body/table/tbody/tr[2]/td[2]/text()")
    assert found == ["$1"]


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("//p/@class", ["a b"]),
        ("string(//p)", ["one two three"]),
        ("count(//td)", ["4"]),
        ("count(//td) div 8", ["0.5"]),
        ("boolean(//table)", ["true"]),
        ("//p/text()", ["one ", " three"]),
        ("//nothing", []),
        ("//*[@data-x]/text()", ["y"]),
        ("normalize-space(//h1)", ["Parcel"]),
    ],
)
def test_what_is_no_element_comes_as_plain_text(expression: str, found: list[str]) -> None:
    results = parse_html(PAGE).xpath(expression)
    assert results == found
    assert all(type(one) is str for one in results)


def test_values_are_handed_over_as_variables() -> None:
    page = parse_html(PAGE)
    assert len(page.xpath("//td[.=$owner]", owner="O'BRIEN")) == 1
    assert page.xpath("//td[.=$owner]", owner="' or '1'='1") == []
    assert page.xpath("count(//td[position()=$n])", n=1) == ["2"]


def test_text_that_xml_could_not_hold_is_no_error() -> None:
    assert parse_html("<p title='a\x01b'>c\x02d</p>").xpath("concat(//p/@title, //p)") == ["abcd"]


def test_nothing_is_expanded_or_fetched() -> None:
    bomb = '<!DOCTYPE html [<!ENTITY a "aaaa"><!ENTITY b SYSTEM "file:///etc/hostname">]><p>&a;&b;</p>'
    assert parse_html(bomb).xpath("//p/text()") == ["&a;&b;"]


@pytest.mark.parametrize("html", ["<p>" * 40, "<b>" * 22])
def test_huge_and_deep_pages_are_refused(html: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xpath, "_MOST_ELEMENTS", 30)
    monkeypatch.setattr(xpath, "_DEEPEST", 20)
    with pytest.raises(Failed, match="too much for XPath") as raised:
        parse_html(html).xpath("//p")
    assert raised.value.failure.kind == FailureKind.TOO_LARGE


def test_a_page_is_copied_once_and_lxml_is_loaded_only_then() -> None:
    page = parse_html(PAGE)
    page.xpath("//p")
    tree = page._xpath
    page.xpath("//td")
    assert page._xpath is tree
    assert page.named("other")._xpath is tree
    code = "import sys, swath; p = swath.parse_html('<p>x'); p.css('p'); print('lxml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"

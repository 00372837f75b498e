"""Single rules over stored pages: kinds, selectors, filters and types."""

import json
import time
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from swath import Failed, FailureKind, WebPage, parse_html
from swath.recordings.extraction.record import read_value
from swath.recordings.schema.models import Rule
from tests.support.bounds import RUNAWAY_CPU_SECONDS, cpu_seconds

pytestmark = pytest.mark.req("A1")

PAGE = """<!DOCTYPE html><html><head><title>Parcel 7</title></head><body>
<h1 id="title">  Parcel
  detail </h1>
<p class="owner">SMITH <b>JOHN</b></p><p class="empty"></p>
<a id="bill" href="/bill.pdf" download="">Tax bill</a>
<form><input id="box" value="typed"><input id="bare"><textarea id="area">
 two
 lines</textarea>
<select id="county"><option value="1">One</option><option value="2" selected>Two</option></select>
<select id="fresh"><option>First</option><option>Second</option></select>
<select id="list" size="4"><option>First</option></select>
<input type="checkbox" id="on" checked><input type="checkbox" id="off"><input type="submit" value="Search now"></form>
<ul><li data-n="1">one</li><li data-n="2">two</li><li>  </li></ul>
<div class="sale"><span class="d">3/1/2026</span><span class="p">$1,200.50</span><em>x</em></div>
<div class="sale"><span class="d">12/24/2025</span><span class="p">N/A</span></div>
<table id="years"><thead><tr><th>Year</th><th colspan="2">Tax</th></tr></thead>
<tbody><tr><td>2026</td><td>$5</td><td>paid</td></tr><tr><td>2025</td><td>$4</td></tr></tbody></table>
<p id="facts">Lot 7, built 1984, 1,250 sq ft</p>
<script>const hidden = "Lot 7";</script>
</body></html>"""


@pytest.fixture(scope="module")
def page() -> WebPage:
    return parse_html(PAGE, "http://site.example/parcel?id=7")


def read(page: WebPage, on: Any, **rule: Any) -> Any:
    return read_value(Rule.model_validate_json(json.dumps({"on": on} | rule)), page)


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ({"on": "#title"}, "Parcel detail"),
        ({"on": ".owner"}, "SMITH JOHN"),
        ({"on": "css/.owner b"}, "JOHN"),
        ({"on": "xpath///p[@class='owner']/b"}, "JOHN"),
        ({"on": "xpath///a/@href"}, "/bill.pdf"),
        ({"on": "xpath/string(//h1)"}, "Parcel detail"),
        ({"on": "text/Tax bill"}, "Tax bill"),
        ({"on": [".gone", "#nowhere", ".owner b", "#title"]}, "JOHN"),
        ({"on": [["form", "#box"]], "kind": "value"}, "typed"),
        ({"on": "#bill", "kind": "attribute", "attribute": "href"}, "/bill.pdf"),
        ({"on": "#bill", "kind": "attribute", "attribute": "DOWNLOAD"}, ""),
        ({"on": "#bill", "kind": "html"}, '<a id="bill" href="/bill.pdf" download="">Tax bill</a>'),
        ({"on": "li", "kind": "count"}, 3),
        ({"on": ".none", "kind": "count"}, 0),
        ({"on": "#box", "kind": "value"}, "typed"),
        ({"on": "#area", "kind": "value"}, " two\n lines"),
        ({"on": "#county", "kind": "value"}, "2"),
        ({"on": "#fresh", "kind": "value"}, "First"),
        ({"on": "#on", "kind": "value", "type": "yes_no"}, True),
        ({"on": "#off", "kind": "value", "type": "yes_no"}, False),
        ({"on": "#list", "kind": "value", "optional": True}, None),
        ({"on": "li", "kind": "list"}, ["one", "two", ""]),
        ({"on": "li[data-n]", "kind": "list", "attribute": "data-n", "type": "integer"}, [1, 2]),
        ({"on": "xpath///li/@data-n", "kind": "list"}, ["1", "2"]),
        ({"on": ".none", "kind": "list", "optional": True}, None),
    ],
)
def test_each_kind_gives_its_part_of_the_page(page: WebPage, rule: dict[str, Any], value: Any) -> None:
    assert read(page, **rule) == value


def test_a_list_of_records_looks_for_its_fields_inside_each_match(page: WebPage) -> None:
    fields = {
        "sold_on": {"on": ".d", "type": "date"},
        "price": {"on": ".p", "type": "money", "optional": True},
        "mark": {"on": "em", "optional": True},
        "all": {"on": "xpath/."},
        "first": {"on": "xpath///span[1]"},
    }
    first, second = read(page, ".sale", kind="list", fields=fields)
    assert first == {
        "sold_on": date(2026, 3, 1),
        "price": Decimal("1200.50"),
        "mark": "x",
        "all": "3/1/2026$1,200.50x",
        "first": "3/1/2026",
    }
    assert (second["sold_on"], second["price"], second["mark"]) == (date(2025, 12, 24), None, None)


def test_a_table_gives_a_record_for_each_row_by_its_headings(page: WebPage) -> None:
    assert read(page, "#years", kind="table") == [
        {"Year": "2026", "Tax": "$5", "Tax 2": "paid"},
        {"Year": "2025", "Tax": "$4", "Tax 2": ""},
    ]
    columns = {"year": "year", "status": "TAX  2"}
    assert read(page, "body", kind="table", columns=columns) == [
        {"year": "2026", "status": "paid"},
        {"year": "2025", "status": ""},
    ]


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ({"transform": ['regex("built ([0-9]+)", 1)'], "type": "integer"}, 1984),
        ({"transform": ['split(", ", 2)', 'regex("[0-9,]+")'], "type": "number"}, Decimal(1250)),
        ({"transform": ["slice(0, 3)", "upper"]}, "LOT"),
        ({"transform": ['regex("sold ([0-9]+)", 1)'], "optional": True}, None),
    ],
)
@pytest.mark.req("A2")
def test_filters_come_before_the_type(page: WebPage, rule: dict[str, Any], value: Any) -> None:
    assert read(page, "#facts", **rule) == value


@pytest.mark.parametrize(
    ("rule", "kind", "told"),
    [
        ({"on": "#gone"}, "layout_changed", "value: the page html (http://site.example/parcel) has no #gone"),
        ({"on": ["#gone", ".too"]}, "layout_changed", "has no #gone, nor what 1 other selectors name"),
        ({"on": ".empty"}, "layout_changed", "has nothing at .empty"),
        ({"on": "#bare", "kind": "value"}, "layout_changed", "has nothing at #bare"),
        ({"on": "#title", "kind": "attribute", "attribute": "title"}, "layout_changed", "has no attribute title"),
        ({"on": "#title", "kind": "table"}, "layout_changed", "has no table at #title"),
        (
            {"on": "#years", "kind": "table", "columns": {"owner": "Owner"}},
            "layout_changed",
            "has no column 'Owner' at #years; there is 'Year', 'Tax', 'Tax 2'",
        ),
        ({"on": ".none", "kind": "list"}, "layout_changed", "has no .none"),
        ({"on": "li", "kind": "list", "attribute": "data-n"}, "layout_changed", "value[3]: "),
        (
            {"on": ".sale", "kind": "list", "fields": {"mark": {"on": "em"}}},
            "layout_changed",
            "value[2].mark: the page html",
        ),
        ({"on": "#facts", "transform": ['regex("sold")']}, "layout_changed", "does not match 'sold'"),
        ({"on": "#title", "type": "money"}, "invalid_output", "value: 'Parcel detail' is no amount of money"),
        ({"on": "#title", "type": "money", "optional": True}, "invalid_output", "is no amount of money"),
        ({"on": "#title", "type": "integer"}, "invalid_output", "is no whole number"),
        ({"on": "#title", "type": "yes_no"}, "invalid_output", "is no yes or no"),
        ({"on": ".sale:last-of-type .p", "type": "date", "optional": False}, "layout_changed", "nothing but 'N/A'"),
    ],
)
@pytest.mark.req("K7")
def test_what_is_not_there_is_never_an_empty_value(page: WebPage, rule: dict[str, Any], kind: str, told: str) -> None:
    with pytest.raises(Failed) as raised:
        read(page, **rule)
    failure = raised.value.failure
    assert (failure.kind, "\n" in failure.message) == (FailureKind(kind), False)
    assert told in failure.message


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("1,234", "integer", 1234),
        ("\u22127", "integer", -7),
        ("0.156", "number", Decimal("0.156")),
        ("yes", "yes_no", True),
        ("No", "yes_no", False),
        ("(12.00)", "money", Decimal("-12.00")),
        ("March 1, 2026", "date", date(2026, 3, 1)),
        ("7", "text", "7"),
    ],
)
def test_each_type_is_read_as_sites_write_it(text: str, type_: str, value: Any) -> None:
    assert read(parse_html(f"<p>{text}</p>"), "p", type=type_) == value


@pytest.mark.parametrize("text", ["1.5", "12 acres", ".", "1,23", "--5"])
def test_what_is_no_whole_number_is_told(text: str) -> None:
    with pytest.raises(Failed) as raised:
        read(parse_html(f"<p>{text}</p>"), "p", type="integer")
    assert raised.value.failure.kind is FailureKind.INVALID_OUTPUT


# -- pages that would take for ever ------------------------------------------------------------------------------------

ASTRAY = {"transform": ['regex("(?s)(x.*){8}y?z")']}


@pytest.mark.req("Z6")
@pytest.mark.parametrize("rule", [{"kind": "list"}, {"kind": "list", "optional": True}, {}])
def test_a_page_that_leads_a_pattern_astray_fails_after_a_moment_however_many_rows_it_has(rule: dict[str, Any]) -> None:
    def led_astray(rows: int) -> None:
        page = parse_html(f"<p>{'x' * 9_000}</p>" * rows, "http://site.example/")
        with pytest.raises(Failed, match="takes longer than") as failed:
            read(page, "p", **ASTRAY, **rule)
        assert failed.value.failure.kind is FailureKind.INVALID_OUTPUT

    assert cpu_seconds(lambda: led_astray(50)) < 10 * cpu_seconds(lambda: led_astray(1))


@pytest.mark.req("Z6")
@pytest.mark.parametrize(
    "xpath",
    [
        "//*[count(/descendant::*[count(/descendant::*[count(/descendant::*)>99999])>0])>0]",
        "//*[../..//*[../..//*]]",
        "//p[following-sibling::p[following-sibling::p]]",
        "//p[preceding::p[preceding::p]]",
    ],
)
def test_an_xpath_that_looks_at_everything_for_everything_is_not_begun(xpath: str) -> None:
    page = parse_html("<p>a</p>" * 3_000, "http://site.example/")
    began = time.process_time()
    with pytest.raises(Failed, match="would take too long") as failed:
        read(page, f"xpath/{xpath}")
    assert failed.value.failure.kind is FailureKind.TOO_LARGE
    assert time.process_time() - began < RUNAWAY_CPU_SECONDS


@pytest.mark.req("Z6")
def test_an_xpath_through_elements_inside_each_other_is_bounded_by_how_deep_they_go() -> None:
    nested = "//*[count(.//*[count(.//*[count(.//*)>9])>0])>0]"
    with pytest.raises(Failed, match="would take too long"):
        read(parse_html("<div>" * 400, "http://site.example/"), f"xpath/{nested}")
    assert read(parse_html("<div>" * 4, "http://site.example/"), f"xpath/{nested}", kind="count") == 0


def test_ordinary_xpath_works_on_large_pages() -> None:
    row = "<tr><th>Owner</th><td>SMITH</td><td><a href='/x'>x</a></td></tr>"
    page = parse_html(f"<table>{row * 2_500}</table>", "http://site.example/")
    for xpath in (
        "//td[preceding-sibling::th[.='Owner']]/a",
        "//th[.='Owner']/following-sibling::td[2]",
        "//tr[.//a[@href='/x']]",
        "//a[ancestor::tr[th='Owner']]",
    ):
        assert read(page, f"xpath/{xpath}", kind="count") == 2_500

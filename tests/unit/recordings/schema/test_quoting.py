"""An item's data in a selector is data (security point 5): it names what has that value, and adds nothing."""

import re
from html import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree
from selectolax.lexbor import LexborHTMLParser

from swath.fetch.browser.tab.element_search import accessibility_query
from swath.recordings.schema.selectors import part_of, reference_position_error, render_selector_part

pytestmark = pytest.mark.req("A2", "A3", "property 48")

HOSTILE = (
    'row 9" or "1"="1',
    "row 9' or '1'='1",
    'nope"], #all, [z="',
    "nope'], #all, [z='",
    '[role="paragraph"]',
    'say "hi"',
    """it's "both" """,
    "\\",
    '\\"',
    "a\\",
    "*",
    "x, *",
    "x) , (y",
    "-",
    "--",
    "-1",
    "1a",
    "0",
    "*/",
    "a]",
    "]",
    "{{ input.n }}",
    "') or true() or ('",
    "ä 日",
    "\x7f",
)
# What HTML can hold in an attribute: neither NUL, nor a carriage return that stays one.
characters = st.characters(codec="utf-8", exclude_characters="\0\r")
values = st.one_of(
    st.sampled_from(HOSTILE), st.text(characters, max_size=12), st.text(st.sampled_from("\"'\\]),*[ a1-\n"), max_size=8)
)
DECOYS = ("all", "z", "", "other")


def rendered(selector: str, value: str) -> str:
    return render_selector_part(part_of(selector), lambda _: value)


def found_by_css(selector: str, page: str) -> list[str | None]:
    return [node.attributes.get("data-k") for node in LexborHTMLParser(page).css(selector)]


def page_with(attribute: str, value: str) -> str:
    others = "".join(f'<p {attribute}="{escape(one)}" data-k=no>{one}</p>' for one in DECOYS if one != value)
    return f'<!doctype html><body>{others}<p {attribute}="{escape(value)}" data-k=yes>x</p>{others}</body>'


@pytest.mark.parametrize(
    "selector", ['[data-n="{{ input.n }}"]', "p[data-n='{{ input.n }}']", 'pierce/body > [data-n="{{ input.n }}"]']
)
@given(value=values)
@example(value="\n1")
@example(value="\t")
def test_a_value_in_quotes_of_css_finds_what_has_it_and_nothing_else(selector: str, value: str) -> None:
    assert found_by_css(rendered(selector, value), page_with("data-n", value)) == ["yes"]


@pytest.mark.parametrize("selector", ["[id={{ input.n }}]", "#{{ input.n }}", "body #{{ input.n }}:not(#all1)"])
@given(value=values.filter(bool))
def test_a_value_as_a_name_of_css_finds_what_has_it_and_nothing_else(selector: str, value: str) -> None:
    assert found_by_css(rendered(selector, value), page_with("id", value)) == ["yes"]


@pytest.mark.parametrize(
    ("selector", "name"),
    [("#row-{{ input.n }}", "row-%s"), ("#{{ input.n }}-row", "%s-row"), ("#\\32{{ input.n }}", "2%s")],
)
@given(value=values.filter(bool))
def test_a_value_may_be_a_part_of_a_name(selector: str, name: str, value: str) -> None:
    assert found_by_css(rendered(selector, value), page_with("id", name % value)) == ["yes"]


@given(value=values, quote=st.sampled_from("\"'"))
def test_after_an_escape_of_the_recording_a_value_begins_anew(value: str, quote: str) -> None:
    selector = f"[data-n={quote}\\32{{{{ input.n }}}}\\33{quote}]"
    assert found_by_css(rendered(selector, value), page_with("data-n", f"2{value}3")) == ["yes"]


@pytest.mark.parametrize(
    "selector",
    [
        'xpath///p[@n="{{ input.n }}"]',
        "xpath///p[@n='{{ input.n }}']",
        """xpath///p[. = "{{ input.n }}" and @n = '{{ input.n }}']""",
    ],
)
@given(value=values)
def test_a_value_in_quotes_of_xpath_finds_what_has_it_and_nothing_else(selector: str, value: str) -> None:
    value = re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", value)  # lxml holds no others
    root = etree.Element("body")
    for key, one in [*((key, key) for key in DECOYS if key != value), ("yes", value)]:
        etree.SubElement(root, "p", n=one, k=key).text = one
    expression = rendered(selector, value)
    assert [node.get("k") for node in etree.ElementTree(root).xpath(expression)] == ["yes"]


@given(value=values, other=values)
def test_a_text_of_xpath_with_more_than_a_value_stays_one(value: str, other: str) -> None:
    value, other = (re.sub(r"[^\n\x20-\ud7ff]", "", one) for one in (value, other))
    given = iter([value, other])
    expression = render_selector_part(part_of('xpath/string("a {{ input.n }}\'{{ input.m }}")'), lambda _: next(given))
    assert etree.Element("a").xpath(expression) == f"a {value}'{other}"


@pytest.mark.parametrize(
    ("selector", "name", "role"),
    [
        ("aria/{{ input.n }}", "%s", None),
        ('aria/Row {{ input.n }}[role="button"]', "Row %s", "button"),
        ("aria/[role='button'][name='{{ input.n }}']", "%s", "button"),
        ('aria/{{ input.n }} [x="y"][role="link"]', '%s [x="y"]', "link"),
        ('aria/[{{ input.n }}="button"]', '[%s="button"]', None),
    ],
)
@given(value=values.filter(str.strip))
@example(value="role")
@example(value="name")
def test_a_name_adds_no_role(selector: str, name: str, role: str | None, value: str) -> None:
    asked = {"accessibleName": name % value, **({} if role is None else {"role": role})}
    assert accessibility_query(rendered(selector, value)) == asked


@given(value=values.filter(str.strip))
def test_a_role_adds_no_name(value: str) -> None:
    assert accessibility_query(rendered('aria/Go[role="{{ input.n }}"]', value)) == {
        "accessibleName": "Go",
        "role": value,
    }


@given(value=values.filter(str.strip))
def test_a_text_is_looked_for_as_it_is(value: str) -> None:
    assert rendered("text/No. {{ input.n }}", value) == f"No. {value}"


@pytest.mark.parametrize(
    ("selector", "value", "expected"),
    [
        ("li:nth-child({{ loop.index }})", "3", "li:nth-child(3)"),
        ("li:nth-child(2n+{{ loop.index }}) a", "3", "li:nth-child(2n+3) a"),
        ("li:nth-child(2 of .{{ input.n }})", "3", "li:nth-child(2 of .\\33 )"),
        (":is(.{{ input.n }}, a)", "3", ":is(.\\33 , a)"),
        ("xpath///tr[{{ loop.index }}]/td", "3", "//tr[3]/td"),
        ("#row-{{ input.n }}", "3", "#row-3"),
        ("aria/Row {{ input.n }}", 'the "9"', 'Row the "9"'),
        ("/* ' */ [a={{ input.n }}]", 'x"', "/* ' */ [a=x\\\"]"),
        ('[a="(:nth-child("] {{ input.n }}', "b", '[a="(:nth-child("] b'),
        ('[a="{{ "{{" }}x}}"]', "", '[a="{{x}}"]'),
    ],
)
def test_where_a_value_stands_tells_how_it_is_written(selector: str, value: str, expected: str) -> None:
    assert rendered(selector, value) == expected


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        ("li:nth-child({{ input.n }})", "1), *, :is(a"),
        ("li:nth-child({{ input.n }})", ""),
        ("xpath///tr[{{ input.n }}]", "1] | //*[1"),
        ("xpath///tr[{{ input.n }}]", "last()"),
        ("a {{ input.n }}", ""),
        (".{{ input.n }}", ""),
        ("aria/{{ input.n }}", ""),
        ('aria/{{ input.n }}[role="button"]', " "),
        ("text/{{ input.n }}", ""),
        ("#a\\{{ input.n }}", "1"),
        ("a /* {{ input.n }} */", "*/, *"),
    ],
)
def test_a_value_that_cannot_stand_there_is_refused(selector: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"empty|number|backslash|comment"):
        rendered(selector, value)


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("xpath/{{ input.n }}", "outside of quotes"),
        ("xpath///tr[{{ input.n }}]", "has {{ input.n }} outside of quotes"),
        ('xpath///tr[@a="x"][{{ input.n | digits }}]', "has {{ input.n | digits }} outside of quotes"),
        ("xpath///tr[{{ loop.value }}]", "outside of quotes"),
        ('xpath///tr[{{ loop.index | replace("1", "*") }}]', "outside of quotes"),
        ("#a\\{{ input.n }}", "after a backslash"),
        ("a /* {{ input.n }} */", "in a comment"),
    ],
)
def test_where_no_value_can_stand_is_said_before_anything_runs(selector: str, said: str) -> None:
    assert said in (reference_position_error(part_of(selector)) or "")


@pytest.mark.parametrize(
    "selector",
    [
        "xpath///tr[@a='{{ input.n }}']",
        """xpath///tr[@a='"' and @b="{{ input.n }}"]""",
        "xpath///tr[{{ loop.index }}]",
        "#a-{{ input.n }}",
        "{{ input.n }}",
        "aria/{{ input.n }}",
        "text/{{ input.n }}",
    ],
)
def test_where_a_value_can_stand_nothing_is_said(selector: str) -> None:
    assert reference_position_error(part_of(selector)) is None

"""Whole records: which page each step reads, turns of loops, branches, and what says that there is no record."""

import json
from typing import Any

import msgspec
import pytest

from swath import Failed, FailureKind, NotFound, WebPage, parse_html
from swath.recordings.document import parse_recording
from swath.recordings.extraction import record as read
from swath.recordings.extraction.record import read_record
from swath.recordings.extraction.stored_page import SelectablePage
from swath.recordings.schema.recording import Recording

pytestmark = pytest.mark.req("A1", "K1")

GOTO = {"do": "goto", "url": "https://a.example/"}
CLICK = {"do": "click", "on": "#next"}


def recording(*steps: Any, **more: Any) -> Recording:
    content = {"swath_recording": 1, "id": "some", "steps": [GOTO, *steps]} | more
    return parse_recording(json.dumps(content), "some.json")


def extract(field: str, on: str | None = None, **more: Any) -> dict[str, Any]:
    return {"do": "extract", "field": field, "on": on or f"#{field}"} | more


def pages(**html: str) -> dict[str, WebPage]:
    """By name, with dashes for underscores."""
    made = {name.replace("_", "-"): parse_html(text, "https://a.example/x") for name, text in html.items()}
    return {name: WebPage(msgspec.structs.replace(page.page, name=name)) for name, page in made.items()}


def test_steps_that_follow_each_other_read_one_page_and_later_ones_the_next() -> None:
    flow = recording(extract("a"), extract("b"), CLICK, extract("c"), CLICK, extract("d", page="last"))
    record = read_record(
        flow,
        pages(html="<p id=a>1</p><p id=b>2</p><p id=c>no</p>", html_2="<p id=c>3</p>", last="<p id=d>4</p>"),
    )
    assert record == {"a": "1", "b": "2", "c": "3", "d": "4"}


def test_each_turn_of_a_loop_is_a_record_in_its_order() -> None:
    loop = {"do": "for_each", "on": "li", "collect": "items", "most": 12, "steps": [CLICK, extract("t")]}
    turns = {f"html_2_t{turn}": f"<p id=t>{turn}</p>" for turn in (10, 2, 1)}
    record = read_record(recording(extract("a"), loop), pages(html="<p id=a>1</p>", **turns))
    assert record == {"a": "1", "items": [{"t": "1"}, {"t": "2"}, {"t": "10"}]}
    assert read_record(recording(extract("a"), loop), pages(html="<p id=a>1</p>")) == {"a": "1"}


def test_loops_in_loops_are_lists_in_records() -> None:
    inner = {"do": "for_each", "on": "li", "collect": "units", "steps": [CLICK, extract("u")]}
    outer = {
        "do": "repeat_until",
        "condition": {"on": "#end"},
        "collect": "floors",
        "steps": [extract("f"), inner],
    }
    record = read_record(
        recording(outer),
        pages(
            html_t1="<p id=f>1st</p>",
            html_2_t1_t1="<p id=u>1a</p>",
            html_2_t1_t2="<p id=u>1b</p>",
            html_t2="<p id=f>2nd</p>",
            html_2_t3_t1="<p id=u>3a</p>",
        ),
    )
    assert record == {
        "floors": [
            {"f": "1st", "units": [{"u": "1a"}, {"u": "1b"}]},
            {"f": "2nd"},
            {"units": [{"u": "3a"}]},
        ]
    }


def test_of_two_branches_the_one_whose_page_is_there_is_read() -> None:
    flow = recording(
        {
            "do": "if",
            "condition": {"on": "#old"},
            "then": [extract("a", "#old")],
            "else": [extract("a", "#new"), extract("b", "#more")],
        }
    )
    assert read_record(flow, pages(html="<p id=old>1</p>")) == {"a": "1"}
    assert read_record(flow, pages(html_2="<p id=new>2</p><p id=more>3</p>")) == {"a": "2", "b": "3"}
    with pytest.raises(Failed, match="a: the page html "):
        read_record(flow, pages(html="<p id=new>1</p>"))


def test_two_loops_of_which_one_is_gone_through_fill_one_list() -> None:
    def loop(on: str) -> dict[str, Any]:
        return {"do": "for_each", "on": "li", "collect": "items", "steps": [CLICK, extract("t", on)]}

    flow = recording({"do": "if", "condition": {"on": "#old"}, "then": [loop("#o")], "else": [loop("#n")]})
    assert read_record(flow, pages(html_2_t1="<p id=n>1</p>")) == {"items": [{"t": "1"}]}


def test_what_failed_in_try_gives_way_to_what_was_done_instead() -> None:
    flow = recording(
        {"do": "try", "steps": [extract("a", "#old"), extract("c")], "else": [extract("a", "#new")]}, extract("b")
    )
    there = pages(html="<p id=c>not read</p>", html_2="<p id=new>2</p>", html_3="<p id=b>3</p>")
    assert read_record(flow, there) == {"a": "2", "b": "3"}
    assert read_record(flow, pages(html="<p id=old>1</p><p id=c>x</p>", html_3="<p id=b>3</p>")) == {
        "a": "1",
        "c": "x",
        "b": "3",
    }
    assert read_record(flow, pages(html="<p>neither</p>", html_3="<p id=b>3</p>")) == {"b": "3"}


NONE = [{"on": "#error", "text": "No records"}, {"text": "Nothing for {{ input.n }} here"}, {"on": "aria/Sorry"}]
INPUTS = {"n": {"example": "1"}}


@pytest.mark.req("K7")
@pytest.mark.parametrize(
    ("html", "told"),
    [
        ("<div id=error>No records found.</div>", "No records found."),
        ("<div><p>Nothing for 7-8 here</p></div>", "Nothing for 7-8 here"),
    ],
)
def test_a_page_that_says_so_is_not_found(html: str, told: str) -> None:
    with pytest.raises(NotFound) as raised:
        read_record(recording(extract("a"), not_found=NONE, inputs=INPUTS), pages(html=html))
    assert str(raised.value) == told
    optional = recording(extract("a", optional=True), not_found=NONE, inputs=INPUTS)
    with pytest.raises(NotFound):
        read_record(optional, pages(html=html))


@pytest.mark.req("K7")
@pytest.mark.parametrize(
    "html",
    [
        "<div id=error></div>",
        "<div id=error hidden>No records found.</div>",
        "<div style='color: red; display : none'><p id=error>No records found.</p></div>",
        "<dialog><p id=error>No records found.</p></dialog>",
        "<div id=other>No records found.</div>",
        "<script>'Nothing for 7 here'</script>",
        "<p>here is Nothing for 7</p>",
    ],
)
def test_a_page_that_does_not_say_so_has_changed_its_layout(html: str) -> None:
    with pytest.raises(Failed) as raised:
        read_record(recording(extract("a"), not_found=NONE, inputs=INPUTS), pages(html=html))
    assert raised.value.failure.kind is FailureKind.LAYOUT_CHANGED


@pytest.mark.req("K7")
def test_a_record_that_is_there_is_found_whatever_stands_hidden_beside_it() -> None:
    html = "<style>.off{display:none}</style><div id=error class=off>No records found.</div><p id=a>1</p>"
    assert read_record(recording(extract("a"), not_found=NONE, inputs=INPUTS), pages(html=html)) == {"a": "1"}


@pytest.mark.req("K7")
def test_a_value_that_cannot_be_read_is_never_not_found() -> None:
    html = "<div id=error class=off>No records found.</div><p id=a>much</p>"
    with pytest.raises(Failed) as raised:
        read_record(recording(extract("a", type="money"), not_found=NONE, inputs=INPUTS), pages(html=html))
    assert raised.value.failure.kind is FailureKind.INVALID_OUTPUT


def test_a_page_is_parsed_once_for_all_that_is_read_off_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[WebPage] = []

    def counted(page: WebPage) -> SelectablePage:
        made.append(page)
        return SelectablePage(page)

    monkeypatch.setattr(read, "SelectablePage", counted)
    rows = "".join(f"<tr><th>Label {n}</th><td id=f{n}>value {n}</td></tr>" for n in range(200))
    html = f"<html><body><x-a><template shadowrootmode=open><table>{rows}</table></template></x-a></body></html>"
    steps = [extract(f"f{n}", f"pierce/#f{n}") for n in range(100)]
    flow, there = recording(*steps), pages(html=html)
    record = read_record(flow, there)
    assert record["f99"] == "value 99"
    assert len(made) == 1

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from swath import Failed, FailureKind, HttpScraper, Input, Money, NotFound, Output, Page, Pages, WebPage, WebSession
from swath.pipeline.extract.extraction import extract_record

PAGES = [Page(name="html", url="http://site.example/", status=200, body=b"<h1>Parcel</h1><p id=due>$1,234.50</p>")]


class Bill(Output):
    owner: str
    due: Money
    on: date | None = None


class PagesOnly(HttpScraper):
    async def fetch(self, item: Input, web: WebSession) -> WebPage:
        return await web.get("/")


class Author(PagesOnly):
    """What an author's extract returns or raises, as a function for each test."""

    def __init__(self, extract: Any) -> None:
        self._extract = extract

    def extract(self, pages: Pages) -> Any:
        return self._extract(pages)


class Typed(Author):
    Output = Bill


class Checked(Typed):
    def validate_result(self, record: Bill) -> None:
        if record.due < 0:
            raise ValueError("due is below zero")
        if record.owner == "broken":
            raise KeyError("oops")


def failure_of(scraper: HttpScraper) -> tuple[FailureKind, str]:
    with pytest.raises(Failed) as raised:
        extract_record(scraper, PAGES)
    return raised.value.failure.kind, raised.value.failure.message


@pytest.mark.req("K1")
def test_a_scraper_without_extract_has_no_data() -> None:
    assert PagesOnly().has_extract is False
    assert extract_record(PagesOnly(), PAGES) is None


@pytest.mark.req("K1")
def test_a_record_is_read_from_stored_pages_and_json_ready() -> None:
    scraper = Typed(lambda pages: {"owner": "X", "due": pages.main.text_of("#due"), "on": "2026-10-01"})
    assert extract_record(scraper, PAGES) == {"owner": "X", "due": "1234.50", "on": "2026-10-01"}


def test_pages_that_were_fetched_are_used_as_they_are() -> None:
    pages = Pages.stored(PAGES)
    assert extract_record(Author(lambda given: {"same": given is pages}), pages) == {"same": True}


@pytest.mark.req("K2")
@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({"owner": "X"}, "due: Field required"),
        ({"owner": "X", "due": "N/A"}, "due: 'N/A' is no amount of money"),
        ({"owner": "X", "due": "1", "extra": 1}, "extra: Extra inputs are not permitted"),
        ([{"owner": "X", "due": "1"}, {"due": "1"}], "owner: Field required"),
        ("text", "valid dictionary"),
        (None, "returned nothing"),
        (Input(), "returned a Input"),
    ],
)
def test_a_record_that_does_not_fit_names_its_fields(record: object, named: str) -> None:
    kind, message = failure_of(Typed(lambda pages: record))
    assert kind == FailureKind.INVALID_OUTPUT
    assert named in message


def test_an_output_made_by_the_author_is_checked_where_it_is_made() -> None:
    assert extract_record(Typed(lambda pages: Bill(owner="X", due=Decimal(1))), PAGES) == {
        "owner": "X",
        "due": "1",
        "on": None,
    }
    kind, message = failure_of(Typed(lambda pages: Bill(owner="X")))  # type: ignore[call-arg]
    assert kind == FailureKind.INVALID_OUTPUT
    assert "due: Field required" in message


def test_several_records_make_a_list() -> None:
    scraper = Typed(lambda pages: [{"owner": name, "due": "$1"} for name in "ab"])
    assert [record["owner"] for record in extract_record(scraper, PAGES)] == ["a", "b"]
    assert extract_record(Typed(lambda pages: []), PAGES) == []


def test_without_an_output_model_anything_that_json_can_say_goes() -> None:
    data = {"when": date(2026, 1, 2), "due": Decimal("1.10"), 5: [1, None, {"a": True}]}
    assert extract_record(Author(lambda pages: data), PAGES) == {
        "when": "2026-01-02",
        "due": "1.10",
        "5": [1, None, {"a": True}],
    }
    kind, message = failure_of(Author(lambda pages: {"page": pages.main}))
    assert kind == FailureKind.INVALID_OUTPUT
    assert "JSON" in message


class Plain(BaseModel):
    f: float


class Measured(Output):
    x: float
    many: dict[str, float] | None = None
    anything: Any = None
    inner: Plain | None = None


class Measures(Author):
    Output = Measured


@pytest.mark.req("K2")
@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_cannot_say_is_no_output(odd: float) -> None:
    for record, where in (
        ({"x": odd}, "x: "),
        ({"x": str(odd)}, "x: "),
        ({"x": 1, "many": {"a": odd}}, "many.a: "),
        ({"x": 1, "anything": [odd]}, "anything.0: "),
        ({"x": 1, "inner": {"f": odd}}, "inner.f: "),
        ([{"x": 1.5}, Measured(x=1, anything=odd)], "1.anything: "),
    ):
        kind, message = failure_of(Measures(lambda pages, record=record: record))
        assert (kind, message.startswith(where)) == (FailureKind.INVALID_OUTPUT, True), message
        assert "finite number" in message
    for plain, where in (({"a": {"b": [1.5, odd]}}, "a.b.1: must"), ([{}, {"n": odd}], "1.n: must"), (odd, "must")):
        kind, message = failure_of(Author(lambda pages, plain=plain: plain))
        assert (kind, message.startswith(where)) == (FailureKind.INVALID_OUTPUT, True), message


def test_numbers_that_json_can_say_pass() -> None:
    record = {"x": 1.5, "many": {"a": -0.0, "b": 1e308}, "anything": [None, "nan", True], "inner": None}
    assert extract_record(Measures(lambda pages: record), PAGES) == record
    assert extract_record(Author(lambda pages: record), PAGES) == record


@pytest.mark.req("K2")
def test_the_hook_may_refuse_a_record() -> None:
    assert extract_record(Checked(lambda pages: {"owner": "X", "due": "1"}), PAGES)["due"] == "1"
    kind, message = failure_of(Checked(lambda pages: {"owner": "X", "due": "-1"}))
    assert (kind, message) == (FailureKind.INVALID_OUTPUT, "validate_result: due is below zero")
    kind, message = failure_of(Checked(lambda pages: [{"owner": "X", "due": "1"}, {"owner": "Y", "due": "-1"}]))
    assert kind == FailureKind.INVALID_OUTPUT


def test_a_bug_in_the_hook_or_in_extract_is_internal_and_has_a_line() -> None:
    kind, message = failure_of(Checked(lambda pages: {"owner": "broken", "due": "1"}))
    assert kind == FailureKind.INTERNAL
    assert message.startswith("KeyError: 'oops' (test_extract.py, line ")
    kind, message = failure_of(Typed(lambda pages: pages.main.css_first("#nothing").text()))
    assert kind == FailureKind.INTERNAL
    assert message.startswith("AttributeError: 'NoneType' object has no attribute 'text' (test_extract.py, line ")


def test_no_such_record_and_a_changed_layout_pass_through() -> None:
    def not_found(pages: Pages) -> None:
        raise NotFound("no records")

    with pytest.raises(NotFound):
        extract_record(Typed(not_found), PAGES)
    kind, _ = failure_of(Typed(lambda pages: pages.main.expect("h1", "Other")))
    assert kind == FailureKind.LAYOUT_CHANGED


@given(st.binary(max_size=2_000))
def test_no_page_breaks_the_reading(body: bytes) -> None:
    pages = [Page(name="html", url="http://site.example/", status=200, body=body)]
    data = extract_record(Author(lambda pages: {"h1": pages.main.text_of("h1"), "n": len(pages.main.css("*"))}), pages)
    assert isinstance(data["n"], int)

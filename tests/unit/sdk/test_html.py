import pytest

from swath import Failed, FailureKind, Output, assert_fields_present, assert_html_contains, parse_html, select_one

pytestmark = pytest.mark.req("K4")


class Record(Output):
    owner: str | None
    paid: int


def changed(match: str) -> "pytest.RaisesExc[Failed]":
    return pytest.raises(Failed, match=match, check=lambda error: error.failure.kind == FailureKind.LAYOUT_CHANGED)


def test_html_is_parsed_from_text_and_from_bytes_in_their_charset() -> None:
    assert parse_html("<p>CAF\xc9").text_of("p") == "CAF\xc9"
    assert parse_html("<meta charset=windows-1252><p>CAF\xc9".encode("cp1252")).text_of("p") == "CAF\xc9"
    assert parse_html("<a href=x>", "http://site.example/a/").link("x") == "http://site.example/a/x"
    assert parse_html("\ud800").text_of("body") == "?"


def test_the_first_match_is_selected_on_pages_and_in_nodes() -> None:
    page = parse_html("<ul><li>a<li>b</ul>")
    assert select_one(page, "li").text() == "a"
    assert select_one(select_one(page, "ul"), "li + li").text() == "b"
    with changed("has no #x"):
        select_one(page, "#x")
    with changed("no #x in <ul>"):
        select_one(select_one(page, "ul"), "#x")


def test_a_page_must_contain_every_text() -> None:
    page = parse_html("<h1>Parcel <b>detail</b></h1><p id=owner>ELM &amp; OAK</p>", "http://site.example/p?key=secret")
    assert_html_contains(page, "Parcel detail", "ELM & OAK", "id=owner")
    with changed(r"http://site.example/p does not contain 'Tax', 'Bill'$"):
        assert_html_contains(page, "Parcel", "Tax", "Bill")


@pytest.mark.parametrize("empty", [None, "", "  ", [], {}])
def test_fields_must_have_a_value(empty: object) -> None:
    record = {"owner": "SMITH", "paid": 0, "open": False, "note": empty}
    assert_fields_present(record, "owner", "paid", "open")
    with changed("has no note, total$"):
        assert_fields_present(record, "owner", "note", "total")
    with changed("has no note$"):
        assert_fields_present(record)


def test_models_are_looked_over_too_and_an_empty_record_is_none() -> None:
    assert_fields_present(Record(owner="SMITH", paid=0))
    with changed("has no owner$"):
        assert_fields_present(Record(owner=None, paid=0))
    with changed("has no fields"):
        assert_fields_present({})

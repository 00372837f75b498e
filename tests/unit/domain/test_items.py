"""How an item gets its id, and what a page gives as text whatever the site says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import UnknownName
from swath.domain.item import ITEM_ID_LIMIT, derive_item_id
from swath.domain.result import Page

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text()
inputs = st.dictionaries(st.text(), st.recursive(scalars, lambda inner: st.lists(inner, max_size=3)), max_size=4)


@pytest.mark.req("J1")
@pytest.mark.parametrize(
    ("content", "item_id"),
    [({"parcel": "123-45-678"}, "123-45-678"), ({"parcel": 42}, "42"), ({"parcel": " a/b "}, " a/b ")],
)
def test_one_plain_field_gives_its_value_as_the_id(content: dict[str, Any], item_id: str) -> None:
    assert derive_item_id(content) == item_id


@pytest.mark.req("J1")
@pytest.mark.parametrize(
    "content",
    [{}, {"a": ""}, {"a": None}, {"a": True}, {"a": 1.5}, {"a": ["x"]}, {"a": "x", "b": "y"}, {"a": "x" * 1_001}],
    ids=["nothing", "empty", "null", "boolean", "float", "list", "two fields", "too long"],
)
def test_anything_else_gives_a_hash(content: dict[str, Any]) -> None:
    item_id = derive_item_id(content)
    assert len(item_id) == 20
    assert set(item_id) <= set("0123456789abcdef")


@pytest.mark.req("J1", "J2")
@given(content=inputs)
def test_the_order_of_fields_does_not_matter(content: dict[str, Any]) -> None:
    assert derive_item_id(content) == derive_item_id(dict(reversed(content.items())))
    assert 0 < len(derive_item_id(content)) <= ITEM_ID_LIMIT


@pytest.mark.req("J1")
def test_different_inputs_have_different_ids() -> None:
    contents: list[dict[str, Any]] = [
        {},
        {"a": 1, "b": 2},
        {"a": 2, "b": 1},
        {"a": "1", "b": 2},
        {"a": None},
        {"b": None},
    ]
    assert len({derive_item_id(content) for content in contents}) == len(contents)


def page(body: bytes, charset: str) -> Page:
    return Page(name="html", url="https://x.test/", status=200, body=body, charset=charset)


def test_a_page_is_read_in_its_charset() -> None:
    assert page("Grüße".encode("latin-1"), "latin-1").text == "Grüße"
    assert page(b"a\xffb", "utf-8").text == "a\ufffdb"


@given(body=st.binary(max_size=20), charset=st.text(max_size=12))
def test_no_charset_makes_a_page_unreadable(body: bytes, charset: str) -> None:
    assert isinstance(page(body, charset).text, str)


@pytest.mark.parametrize("charset", ["idna", "undefined", "hex", "utf\0", "no-such-charset", "", "../x", "\ud800"])
def test_a_charset_that_is_none_is_read_as_utf_8(charset: str) -> None:
    assert page("ü".encode(), charset).text == "ü"


def test_an_unknown_name_is_answered_with_what_comes_near() -> None:
    known = ["maricopa-az", "maricopa-ca", "pima-az"]
    said = str(UnknownName.of("scraper", "maricopa-zz", known, "look"))
    assert said == "there is no scraper 'maricopa-zz'; did you mean 'maricopa-az' or 'maricopa-ca'?"
    assert str(UnknownName.of("job", "zzz", known, "see `swath jobs list`")).endswith("'zzz'; see `swath jobs list`")

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.web.address import resolve, shown, with_params

BASE = "http://site.example/app/search?q=1"


@pytest.mark.parametrize(
    ("url", "base", "absolute"),
    [
        ("http://a.example/x", None, "http://a.example/x"),
        ("https://a.example/x", BASE, "https://a.example/x"),
        ("/x?y=1", BASE, "http://site.example/x?y=1"),
        ("detail", BASE, "http://site.example/app/detail"),
        ("?p=2", BASE, "http://site.example/app/search?p=2"),
        ("../x", BASE, "http://site.example/x"),
        ("/a/../x", BASE, "http://site.example/x"),
        ("//b.example/x", BASE, "http://b.example/x"),
        ("/x#top", BASE, "http://site.example/x"),
        ("/x#", BASE, "http://site.example/x"),
        (" /x ", BASE, "http://site.example/x"),
        ("/a b/é?n=ü%20x", BASE, "http://site.example/a%20b/%C3%A9?n=%C3%BC%20x"),
        ("http://bücher.example/", None, "http://xn--bcher-kva.example/"),
    ],
)
def test_addresses_become_absolute(url: str, base: str | None, absolute: str) -> None:
    assert resolve(url, base) == absolute


@pytest.mark.parametrize(
    "url",
    ["ftp://a/x", "javascript:void(0)", "http://", "http://a:port/", "http://[::1/", "mailto:a@b", "http://ü..é/"],
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(Failed) as raised:
        resolve(url, None)
    assert raised.value.failure.kind == FailureKind.INVALID_INPUT


def test_a_relative_address_without_a_base_is_the_authors_mistake() -> None:
    with pytest.raises(Failed, match="base_url") as raised:
        resolve("/search", None)
    assert raised.value.failure.kind == FailureKind.INTERNAL


@given(st.text(max_size=80))
def test_any_text_resolves_or_fails_as_data(text: str) -> None:
    try:
        resolved = resolve(text, BASE)
    except Failed:
        return
    assert resolved.isascii()
    assert resolved.startswith(("http://", "https://"))


def test_parameters_join_those_of_the_address() -> None:
    url = with_params("http://a/x?p=1", {"q": "a b&c", "many": ["1", 2], "none": None})
    assert url == "http://a/x?p=1&q=a+b%26c&many=1&many=2"


def test_shown_addresses_hide_credentials_and_query() -> None:
    assert shown("https://me:secret@a.example:8443/x?token=1#y") == "https://a.example:8443/x"
    assert shown("http://[bad") == "an unreadable address"

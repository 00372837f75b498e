import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.url import canonical, origin_of, redacted, resolve, with_params

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
        ("/parcel\n  ?id=1", BASE, "http://site.example/parcel%20%20?id=1"),
        ("HTTP://Site.Example:80/a/./b/%2E%2e/c", None, "http://site.example/a/c"),
        ("https://site.example.:443", None, "https://site.example/"),
        ("http://site.example?q=a\\b", None, "http://site.example/?q=a\\b"),
        ("http://0x7f.1:8080/", None, "http://127.0.0.1:8080/"),
        ("http://[0:0::ffff:127.0.0.1]/", None, "http://[::ffff:7f00:1]/"),
    ],
)
def test_addresses_become_absolute(url: str, base: str | None, absolute: str) -> None:
    assert resolve(url, base) == absolute


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://a/x", "javascript:void(0)", "http://", "http://a:port/", "http://[::1/", "mailto:a@b", "http://ü..é/"),
        *("file:///etc/passwd", "gopher://a/", "data:text/html,x", "http://a b/", "http://a:65536/", "http://%00/"),
        *("http://a.example\\@b.example/", "http:\\\\a.example/", "/a\\b", "http://a\x00.example/", "http://a/\x7f"),
        *(
            "http://me@a.example/",
            "http://me:hunter2@a.example/",
            "http://:hunter2@a.example/",
            "http://[fe80::1%25lo]/",
        ),
        *("http://a..example/", f"http://{'a' * 64}.example/", "http://" + "a." * 127 + "com/", "http://1.2.3.4.5/"),
        "http://a.example/" + "x" * 40_000,
    ],
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(Failed) as raised:
        resolve(url, BASE if url.startswith("/") else None)
    assert raised.value.failure.kind == FailureKind.INVALID_INPUT
    assert "hunter2" not in raised.value.failure.message


@pytest.mark.req("Z4")
@pytest.mark.parametrize("url", ["http://a.example/\t", "http://a.exa\nmple/", "http://a.example/\x85", "http://a\r/"])
def test_nothing_with_characters_that_parsers_drop_reaches_the_client(url: str) -> None:
    with pytest.raises(Failed, match="control characters"):
        canonical(url)


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


@given(st.sampled_from(["http://", "https://", "//", "/", ""]), st.text(max_size=60))
def test_a_canonical_address_stays_as_it_is(start: str, text: str) -> None:
    try:
        url = canonical(start + text, BASE)
    except Failed:
        return
    assert canonical(url) == url
    assert url.startswith(origin_of(url) + "/")
    assert not {"@", "\\", "%"} & set(origin_of(url))


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("https://me:secret@a.example:8443/x?token=secret#y", "https://a.example:8443/x"),
        ("http://me:sec/ret@[bad/x?secret", "http://…"),
        ("http://me:se@cret@bad host/x#secret", "http://…@bad host/x"),
        ("me:secret@a.example/x", "me://…@a.example/x"),
        ("http://0\\:secret@a.example/x", "http://…"),
        ("http://[bad", "http://[bad"),
        ("/search?token=secret", "/search"),
        ("http://a.example/@me/x", "http://a.example/…"),
        ("http://a.example:8080/find?who=me@b.example&key=secret", "http://a.example/…"),
        ("http://user:123/secretpart@host/", "http://…"),
        ("http://first.last:123/secretpart@host/", "http://first.last/…"),
        ("http://user:p@ss/secret?ord@host/", "http://…"),
        ("http://a.b:p@secret/w?ord@host/", "http://…"),
        ("https://secret/token@host/", "https://…"),
        ("//me:1/secret@host/", "//…"),
        ("/find/secret@host", "…"),
        ("http://a.example/x;jsessionid=secret?y", "http://a.example/x"),
        ("http://a.example/x;v=secret/y%3Bs=secret/z", "http://a.example/x/y/z"),
        ("/x;jsessionid=secret/y", "/x/y"),
        ("http://[bad/x;jsessionid=secret", "http://[bad/x"),
        ("http://127.0.0.1:8080/a-b/c.html", "http://127.0.0.1:8080/a-b/c.html"),
        ("https://[::1]:8443/x", "https://[::1]:8443/x"),
    ],
)
@pytest.mark.req("Z7", "property 39")
def test_shown_addresses_hide_credentials_and_query(url: str, seen: str) -> None:
    assert redacted(url) == seen
    assert "secret" not in redacted(url)


_PIECE = st.one_of(
    st.sampled_from(["/", "1", "@", "?", "#", ":", ";", "\\", "[", "%", ".", " ", "\t"]), st.text(max_size=3)
)
_TRICKY = st.lists(_PIECE, max_size=4).map("".join)


@given(st.sampled_from(["http://", "https:", "//", "ftp://", "x:", ""]), _TRICKY, _TRICKY, _TRICKY)
@pytest.mark.req("Z7", "property 39")
def test_no_password_is_shown_whatever_is_in_it_and_round_it(scheme: str, before: str, within: str, after: str) -> None:
    assert "hunter2" not in redacted(f"{scheme}me:{before}hunter2{within}@{after}")

import pytest

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.domain.result import Page
from swath.fetch.http.page.page import WebPage


def page(html: str | bytes, charset: str = "utf-8") -> WebPage:
    body = html if isinstance(html, bytes) else html.encode(charset)
    return WebPage(Page(name="html", url="http://site.example/a/b", status=200, body=body, charset=charset))


def test_text_is_found_by_selector_and_collapsed() -> None:
    found = page("<div id=a> 12 N <b>OAK</b> ST<br>\n MESA,&nbsp;AZ </div><p class=e> </p>")
    assert found.text_of("#a") == "12 N OAK ST MESA, AZ"
    assert found.text_of("#b") is None
    assert found.text_of("#b", "none") == "none"
    assert found.text_of(".e", "empty") == "empty"


def test_a_page_is_parsed_once_and_only_when_needed() -> None:
    fetched = page("<p>1")
    assert fetched._tree is None
    tree = fetched.tree
    assert fetched.tree is tree
    assert fetched.named("other").tree is tree
    assert fetched.named("other").page.name == "other"
    assert fetched.named("html") is fetched


@pytest.mark.parametrize("charset", ["utf-8", "cp1252", "utf-16", "utf-8-sig"])
def test_text_is_read_in_the_charset_of_the_page(charset: str) -> None:
    assert page("<p>CAF\xc9 \xd1", charset).text_of("p") == "CAF\xc9 \xd1"


def test_bytes_that_do_not_fit_the_charset_are_no_error() -> None:
    broken = page(b"<p>caf\xe9 \xff</p>")
    assert broken.text_of("p") == "caf\ufffd \ufffd"
    assert broken.text == "<p>caf\ufffd \ufffd</p>"


@pytest.mark.req("K1")
def test_an_expected_marker_that_is_there_passes() -> None:
    found = page("<h1>No</h1><h1> Parcel\n detail </h1>")
    assert found.expect("h1") is found
    assert found.expect("h1", "Parcel detail") is found


@pytest.mark.req("K1")
@pytest.mark.parametrize(("selector", "text"), [("h2", None), ("h1", "Parcel list"), ("#parcel", "1")])
def test_a_missing_marker_is_a_changed_layout(selector: str, text: str | None) -> None:
    with pytest.raises(Failed, match=selector) as raised:
        page("<h1>Parcel detail</h1>").expect(selector, text)
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


def test_json_is_read_or_is_a_changed_layout() -> None:
    assert page('{"a": [1]}').json() == {"a": [1]}
    with pytest.raises(Failed) as raised:
        page("<html>error</html>").json()
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


@pytest.mark.parametrize(
    ("html", "absolute"),
    [
        ("", "http://site.example/a/x"),
        ("<base href='/c/'>", "http://site.example/c/x"),
        ("<base>", "http://site.example/a/x"),
    ],
)
def test_links_refer_to_the_page_or_its_base(html: str, absolute: str) -> None:
    assert page(html).link("x") == absolute

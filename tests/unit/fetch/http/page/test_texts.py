"""Many texts at once are what each of them is by itself (K4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.result import Page
from swath.fetch.http.page.page import WebPage
from swath.fetch.http.page.parsing import text_and_links

pytestmark = pytest.mark.req("K4")

DOCTYPES = ("<!doctype html>", "", '<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01 Transitional//EN">')
names = st.sampled_from(["a", "A", "b", "B", "c", "d-1", "D-1", "e_2", "K", "\u212a", "x y", ""])
elements = st.just("<p id>no name</p>") | st.builds(
    '<{0} id="{1}">{2}</{0}>'.format,
    st.sampled_from(["p", "b", "td", "template", "svg"]),
    names,
    st.sampled_from(["", "one", " two <b>three</b>", "<br>", "4<script>no</script>"]),
)
selectors = st.sampled_from(["#a", "#A", "#b", "#c", "#d-1", "#D-1", "#e_2", "#k", "b", "p#a", "#a, #b", "[id=x]"])


def page(html: str) -> WebPage:
    return WebPage(Page(name="html", url="https://a.test/", status=200, body=html.encode()))


@given(
    doctype=st.sampled_from(DOCTYPES),
    parts=st.lists(elements, max_size=12),
    asked=st.dictionaries(st.text(max_size=3), selectors, max_size=12),
    default=st.sampled_from([None, "", "none"]),
)
def test_they_are_what_one_look_up_after_the_other_finds(
    doctype: str, parts: list[str], asked: dict[str, str], default: str | None
) -> None:
    shown = page(doctype + "".join(parts))
    one_by_one = {name: shown.text_of(selector, default) for name, selector in asked.items()}  # type: ignore[arg-type]
    together = shown.texts_of(asked, default)  # type: ignore[arg-type]
    assert list(together.items()) == list(one_by_one.items())


@pytest.mark.parametrize(("doctype", "found"), [("", "first"), ("<!doctype html>", "second")])
def test_of_ids_that_differ_in_case_a_page_without_a_doctype_takes_the_first(doctype: str, found: str) -> None:
    shown = page(f"{doctype}<p id=Owner>first</p><p id=owner>second</p><p id=a>1</p><p id=b>2</p><p id=c>3</p>")
    asked = {"owner": "#owner", "a": "#a", "b": "#b", "c": "#c"}
    assert shown.texts_of(asked) == {"owner": found, "a": "1", "b": "2", "c": "3"}


def test_ids_are_found_in_one_pass_and_only_in_pages_that_are_not_large(monkeypatch: pytest.MonkeyPatch) -> None:
    html = "<!doctype html>" + "".join(f"<p id=f{number}>{number}</p>" for number in range(9))
    asked = {str(number): f"#f{number}" for number in range(9)}
    seen: list[str] = []

    class Watched:
        def __init__(self, shown: WebPage) -> None:
            self._tree = shown.tree

        def css(self, selector: str) -> object:
            seen.append(selector)
            return self._tree.css(selector)

        def css_first(self, selector: str) -> object:
            seen.append(selector)
            return self._tree.css_first(selector)

    expected = {str(number): str(number) for number in range(9)}
    assert text_and_links.read_texts(Watched(page(html)), asked, len(html)) == expected  # type: ignore[arg-type]
    assert seen == ["[id]"]
    seen.clear()
    assert text_and_links.read_texts(Watched(page(html)), asked, 1 << 20) == expected  # type: ignore[arg-type]
    assert seen == list(asked.values())


def test_a_node_that_was_taken_out_is_not_found() -> None:
    shown = page("<!doctype html>" + "".join(f"<p id=f{number}>{number}</p>" for number in range(6)))
    asked = {str(number): f"#f{number}" for number in range(6)}
    assert shown.texts_of(asked)["3"] == "3"
    shown.select_one("#f3").decompose()
    assert shown.texts_of(asked)["3"] is None

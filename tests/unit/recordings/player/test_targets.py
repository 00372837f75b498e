"""Which window an address means (A3): one that holds the item's data is another window for another item."""

import pytest

from swath.fetch.browser.tab.step_target import WindowTarget
from swath.recordings.player.context import TemplateScope

pytestmark = pytest.mark.req("A3")

A = "https://a.example"


def target(template: str, value: str) -> WindowTarget:
    return TemplateScope({"n": value}).target(template)


def fits(target: WindowTarget, url: str) -> bool:
    return target.is_at(url) or target.is_near(url)


@pytest.mark.parametrize(
    ("template", "value", "url"),
    [
        ("/p?id={{ input.n }}", "7", "/p?id=7"),
        ("/p?sid=1&id={{ input.n }}", "7", "/p?id=7&sid=2#top"),
        ("/p?id={{ input.n }}", "a b", "/p?id=a%20b"),
        ("/p?id={{ input.n | url }}&x=1", "O'Brien & Co", "/p?x=2&id=O'Brien+%26+Co"),
        ("/p?a={{ input.n }}&b={{ input.n | lower }}", "X", "/p?b=x&a=X"),
        ("/p/{{ input.n }}?sid=1", "7", "/p/7?sid=2"),
        ("/p/{{ input.n }}", "a b", "/p/a%20b"),
        ("/p#/{{ input.n }}", "7", "/p?x=1#/7"),
        ("/{{ input.n }}", "p?id=7", "/p?id=7&x=1"),
    ],
)
def test_the_window_of_the_item(template: str, value: str, url: str) -> None:
    assert fits(target(A + template, value), A + url)


@pytest.mark.parametrize(
    ("template", "value", "url"),
    [
        ("/p?id={{ input.n }}", "7", "/p?id=8"),
        ("/p?id={{ input.n }}", "7", "/p?id=70"),
        ("/p?id={{ input.n }}", "7", "/p"),
        ("/p?id={{ input.n }}", "7", "/p?other=7"),
        ("/p?id={{ input.n }}", "M%FCller", "/p?id=M%F6ller"),
        ("/p/{{ input.n }}", "7", "/p/8"),
        ("/p/{{ input.n }}", "a?b", "/p/a"),
        ("/p#/{{ input.n }}", "7", "/p#/8"),
        ("/{{ input.n }}", "p?id=7", "/p?id=8"),
        ("/{{ input.n }}", "p#7", "/p#8"),
    ],
)
def test_the_window_of_another_item(template: str, value: str, url: str) -> None:
    assert not fits(target(A + template, value), A + url)


def test_without_data_the_query_is_of_no_matter() -> None:
    assert fits(target(f"{A}/p?id=7", ""), f"{A}/p?id=8")
    assert not fits(target(f"{A}/p?id=7", ""), f"{A}/q?id=7")


def test_an_item_cannot_name_the_main_window_nor_break_the_search() -> None:
    assert target("{{ input.n }}", "main") != WindowTarget("main")
    assert not fits(target("{{ input.n }}", "http://["), f"{A}/p")

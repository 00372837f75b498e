from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import swath
from swath import Failed, Failure, FailureKind, HttpScraper, Input, NotFound, Page, WebPage, WebSession, scraper
from swath.domain.errors import BadInput, LeaseLost, SiteUnavailable
from swath.fetch.http.page.attempt_output import check_page
from swath.sdk.pages import Pages
from swath.sdk.registry import Registry
from tests.unit.fetch.http.sites import answer, session

A, B, C = "http://site.example/a", "http://site.example/b", "http://site.example/c"


class Asked(Input):
    parcel_id: str
    year: int


class Author(HttpScraper):
    """What an author writes, as a function for each test."""

    Input = Asked

    def __init__(self, fetch: Any) -> None:
        self._fetch = fetch

    async def fetch(self, item: Any, web: WebSession) -> Any:
        return await self._fetch(web)


async def collected(fetch: Any) -> tuple[Pages, Mapping[str, Page]]:
    web, _ = session({url: answer(url, url[-1].encode()) for url in (A, B, C)})
    pages = await Author(fetch).collect(Input(), web)
    return pages, web.kept


def bodies(pages: Mapping[str, Page] | Pages) -> dict[str, str]:
    return {name: page.body.decode() for name, page in pages.items()}


@pytest.mark.req("K3")
def test_the_decorator_describes_the_class() -> None:
    @scraper("some-county", name="Some county", version="3", sites=["some.example"])
    class Some(HttpScraper):
        """Taxes of some county.

        And more.
        """

    made = Some()
    assert (made.id, made.name, made.version, made.sites) == ("some-county", "Some county", "3", ("some.example",))
    assert made.description == "Taxes of some county."
    assert HttpScraper.id == ""


@pytest.mark.parametrize("wrong", ["", "Some County", "a/b", "-x", "x" * 101])
def test_a_bad_id_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match="is no scraper id"):
        scraper(wrong)


@pytest.mark.req("K2")
def test_wrong_input_names_its_fields() -> None:
    with pytest.raises(Failed) as raised:
        Author(None).parse_input({"year": "next"})
    failure = raised.value.failure
    assert failure.kind == FailureKind.INVALID_INPUT
    assert "parcel_id: Field required" in failure.message
    assert "year: " in failure.message
    assert Author(None).parse_input({"parcel_id": "1", "year": "2026", "more": 1}) == Asked(parcel_id="1", year=2026)


@pytest.mark.req("K2")
async def test_one_page_is_stored_as_html() -> None:
    pages, kept = await collected(lambda web: web.get(A))
    assert bodies(kept) == bodies(pages) == {"html": "a"}
    assert pages.main is pages["html"]


@pytest.mark.req("K2")
async def test_a_page_fetched_under_a_name_keeps_it() -> None:
    pages, kept = await collected(lambda web: web.get(A, name="detail"))
    assert bodies(kept) == {"detail": "a"}
    assert pages.main.name == "detail"


@pytest.mark.req("K2")
async def test_pages_are_stored_under_the_names_of_a_mapping() -> None:
    async def fetch(web: WebSession) -> dict[str, WebPage]:
        first = await web.get(A, name="early")
        return {"summary": first, "detail": await web.get(B)}

    _, kept = await collected(fetch)
    assert bodies(kept) == {"summary": "a", "detail": "b"}
    assert {page.name for page in kept.values()} == {"summary", "detail"}


@pytest.mark.req("K2")
async def test_pages_of_a_list_are_numbered() -> None:
    async def fetch(web: WebSession) -> list[WebPage]:
        return [await web.get(A), await web.get(B), await web.get(C, name="bill")]

    _, kept = await collected(fetch)
    assert bodies(kept) == {"html": "a", "html-2": "b", "bill": "c"}


async def test_pages_kept_on_the_way_are_stored_beside_the_returned_one() -> None:
    async def fetch(web: WebSession) -> WebPage:
        await web.get(A, name="search")
        return await web.get(B)

    pages, kept = await collected(fetch)
    assert bodies(kept) == {"search": "a", "html": "b"}
    assert pages.main.body == b"b"


@pytest.mark.parametrize("keeps", [False, True])
async def test_a_page_is_looked_over_once(keeps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []

    def counted(page: object) -> None:
        looks.append(page)
        check_page(page)

    monkeypatch.setattr("swath.fetch.http.page.attempt_output.check_page", counted)

    async def fetch(web: WebSession) -> WebPage:
        page = await web.get(A)
        return web.keep(page) if keeps else page

    _, kept = await collected(fetch)
    assert bodies(kept) == {"html": "a"}
    assert len(looks) == 1


class Visited(Input):
    url: str | None = None


@pytest.mark.req("K4")
@pytest.mark.parametrize(
    ("base_url", "url", "start"),
    [
        (None, None, None),
        (A, None, A),
        (A, "", A),
        (None, B, B),
        (A, B, B),
        (A, "/c", C),
        (None, "/c", "/c"),
    ],
)
def test_an_item_starts_at_its_url_or_at_the_base(base_url: str | None, url: str | None, start: str | None) -> None:
    class Visitor(HttpScraper):
        Input = Visited

    Visitor.base_url = base_url
    assert Visitor().start_url(Visited(url=url)) == start
    assert HttpScraper().start_url(Asked(parcel_id="1", year=1)) is None


@pytest.mark.req("K5")
def test_the_shipped_scrapers_know_where_they_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWATH_DEMO_URL", "http://127.0.0.1:9999")
    starts = {}
    for scraper_id in ("demo-county", "example-http", "example-mock", "example-fail"):
        made = Registry().get(scraper_id)
        starts[scraper_id] = made.start_url(
            made.parse_input({"parcel_id": "123-45-678", "url": "http://other.example/"})
        )
    assert starts == {
        "demo-county": "http://127.0.0.1:9999/search",
        "example-http": "http://127.0.0.1:9999/echo",
        "example-mock": None,
        "example-fail": None,
    }


async def test_two_pages_of_one_name_are_an_error_and_none_is_lost_silently() -> None:
    async def fetch(web: WebSession) -> WebPage:
        web.keep(await web.get(A), "html")
        return await web.get(B)

    with pytest.raises(Failed, match="two pages are named 'html'"):
        await collected(fetch)


async def test_the_parsed_tree_is_shared_between_fetch_and_extract() -> None:
    trees = []

    async def fetch(web: WebSession) -> dict[str, WebPage]:
        page = await web.get(A)
        trees.append(page.tree)
        return {"detail": page}

    pages, _ = await collected(fetch)
    assert pages["detail"].tree is trees[0]


@pytest.mark.req("K1")
async def test_a_bug_in_fetch_is_an_internal_failure_with_its_line() -> None:
    async def fetch(web: WebSession) -> None:
        raise KeyError("owner")

    with pytest.raises(Failed, match=r"KeyError: 'owner' \(test_scraper\.py, line \d+\)") as raised:
        await collected(fetch)
    assert raised.value.failure.kind == FailureKind.INTERNAL


@pytest.mark.parametrize("error", [NotFound("none"), LeaseLost("gone"), Failed(swath.Failure.of(FailureKind.TLS, "x"))])
async def test_what_fetch_means_to_raise_passes(error: Exception) -> None:
    async def fetch(web: WebSession) -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        await collected(fetch)
    assert raised.value is error


async def test_a_timeout_of_the_authors_own_is_a_timeout() -> None:
    async def fetch(web: WebSession) -> None:
        raise TimeoutError

    with pytest.raises(Failed) as raised:
        await collected(fetch)
    assert raised.value.failure.kind == FailureKind.TIMEOUT


def test_a_missing_page_says_which_there_are() -> None:
    stored = [Page(name=name, url=A, status=200, body=b"") for name in ("summary", "detail")]
    pages = Pages.stored(stored)
    assert list(pages) == ["summary", "detail"]
    with pytest.raises(Failed, match=r"no page 'html'.*summary, detail"):
        _ = pages.main
    assert "html" not in pages
    assert len(pages) == 2


@pytest.mark.req("K3")
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"version": 2}, 'scraper "x": version must be text: write version="2"'),
        ({"version": None}, 'scraper "x": version must be text: write version="…"'),
        ({"version": "\ud800"}, 'scraper "x": version must be text'),
        ({"name": 7}, 'scraper "x": name must be text: write name="7"'),
        ({"description": ["a"]}, 'scraper "x": description must be text: write description="…"'),
        ({"sites": "a.example"}, 'scraper "x": sites must be a list of text: write sites=["a.example"]'),
        ({"sites": ["a.example", 5]}, 'scraper "x": sites must be a list of text'),
        ({"sites": 5}, 'scraper "x": sites must be a list of text'),
        ({"scraper_id": 5}, 'the scraper id must be text, not int: write @scraper("some-id")'),
        ({"scraper_id": HttpScraper}, "the scraper id must be text, not type"),
    ],
)
def test_a_declaration_that_is_not_text_is_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput) as raised:
        scraper(**{"scraper_id": "x", **arguments})
    assert str(raised.value).startswith(told)


class Node(str):
    """What parsers hand out as text; it is a str, and yet it cannot be written."""

    __slots__ = ()


def own_page(**fields: Any) -> WebPage:
    return WebPage(Page(**{"name": "html", "url": A, "status": 200, "body": b"", **fields}))


TAKEN = "'refused' is the name of the answer that made an item fail; choose another for the page"


@pytest.mark.req("K1", "K2")
@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ({2024: own_page()}, "page names must be text, not int"),
        ({"": own_page()}, "page names must not be empty"),
        ({Node("a"): own_page()}, "page names must be text, not Node"),
        ({"\ud800": own_page()}, "cannot be stored"),
        ({"a": "<html>"}, "pages must be WebPage, not str"),
        ("<html>", "pages must be WebPage, not str"),
        ([own_page(), own_page(name=5)], "page names must be text, not int"),
        ([own_page(name=5), own_page()], "page names must be text, not int"),
        (own_page(name=""), "page names must not be empty"),
        ({"refused": own_page()}, TAKEN),
        ([own_page(name="Refused")], "'Refused' is the name of the answer that made an item fail"),
        (own_page(body="<html>"), "the body of a page must be bytes, not str"),
        (own_page(status="200"), "the status of a page must be int, not str"),
        (own_page(url=None), "the url of a page must be str, not NoneType"),
        (own_page(fetched_at="now"), "the fetched_at of a page must be float, not str"),
        (own_page(fetched_at=1e18), "the fetched_at of a page must be Unix seconds, not 1e+18"),
        (5, "cannot be stored: 'int' object is not iterable"),
    ],
)
async def test_what_cannot_be_stored_is_a_failure_and_is_not_kept(returned: Any, told: str) -> None:
    web, _ = session({})

    async def fetch(web: WebSession) -> Any:
        return returned

    with pytest.raises(Failed) as raised:
        await Author(fetch).collect(Input(), web)
    assert raised.value.failure.kind == FailureKind.INTERNAL
    assert told in raised.value.failure.message
    assert all(type(name) is str and name and type(page.body) is bytes for name, page in web.kept.items())


@pytest.mark.req("K1", "K2")
@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda web: web.get(A, name=5), "TypeError: page names must be text, not int"),
        (lambda web: web.post(A, name=""), "ValueError: page names must not be empty"),
        (lambda web: web.download(A, Path("bill.pdf")), "TypeError: download names must be text, not PosixPath"),
        (lambda web: web.download(A, ""), "ValueError: download names must not be empty"),
        (lambda web: web.get(A, name="refused"), f"ValueError: {TAKEN}"),
        (lambda web: web.keep(own_page(), "refused"), f"ValueError: {TAKEN}"),
        (lambda web: web.keep(own_page(), 5), "TypeError: page names must be text, not int"),
        (lambda web: web.keep(own_page(body="x"), "a"), "TypeError: the body of a page must be bytes, not str"),
    ],
)
async def test_a_wrong_name_is_the_authors_mistake_with_its_line(ask: Any, told: str) -> None:
    web, transport = session({A: answer(A)})

    async def fetch(web: WebSession) -> Any:
        return await ask(web)

    with pytest.raises(Failed) as raised:
        await Author(fetch).collect(Input(), web)
    assert raised.value.failure.kind == FailureKind.INTERNAL
    assert raised.value.failure.message.startswith(f"{told} (test_scraper.py, line ")
    assert (web.kept, web.downloads, transport.requests) == ({}, [], [])


async def test_a_bug_in_a_generator_of_pages_has_its_line_too() -> None:
    async def fetch(web: WebSession) -> Any:
        return (int(year) for year in ["next"])

    with pytest.raises(Failed, match=r"ValueError: invalid literal .* \(test_scraper\.py, line \d+\)"):
        await collected(fetch)


@pytest.mark.req("K1", "D3")
@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        ([Failed(Failure.of(FailureKind.BLOCKED, "a wall"))], Failed),
        ([NotFound("none"), Failed(Failure.of(FailureKind.BLOCKED, "a wall"))], Failed),
        ([Failed(Failure.of(FailureKind.BLOCKED, "a wall")), SiteUnavailable("s", "closed", 5.0)], SiteUnavailable),
        ([ExceptionGroup("inner", [LeaseLost("over")]), SiteUnavailable("s", "closed", 5.0)], LeaseLost),
    ],
)
async def test_what_a_group_of_tasks_raises_is_what_was_meant(
    raised: list[Exception], expected: type[Exception]
) -> None:
    @scraper("grouped", version="1")
    class Grouped(HttpScraper):
        async def fetch(self, item: Any, web: WebSession) -> WebPage:
            raise ExceptionGroup("unhandled errors in a TaskGroup", raised)

    nowhere: Any = None
    with pytest.raises(expected):
        await Grouped().collect(Input(), nowhere)


async def test_a_mistake_among_a_group_of_tasks_stays_a_mistake() -> None:
    @scraper("grouped", version="1")
    class Grouped(HttpScraper):
        async def fetch(self, item: Any, web: WebSession) -> WebPage:
            raise ExceptionGroup("unhandled errors in a TaskGroup", [NotFound("none"), ZeroDivisionError("oh")])

    nowhere: Any = None
    with pytest.raises(Failed) as failed:
        await Grouped().collect(Input(), nowhere)
    assert failed.value.failure.kind is FailureKind.INTERNAL

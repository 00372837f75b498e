from collections.abc import Mapping
from typing import Any

import pytest

import swath
from swath import Failed, FailureKind, HttpScraper, Input, NotFound, Page, WebPage, WebSession, scraper
from swath.domain.errors import BadInput, LeaseLost
from swath.kit.pages import Pages
from tests.web.sites import answer, session

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

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath import Failed, FailureKind, HttpScraper, Page, WebSession
from swath.demo.county import DemoCountyServer as Site
from swath.domain.execution_policy import Timeouts
from swath.pipeline.extract.extraction import extract_record
from swath.scrapers.demo_site import demo_url
from swath.scrapers.examples import ExampleFail, ExampleHttp, ExampleMock
from tests.support.clock import FakeClock
from tests.unit.fetch.http.sites import loopback_transport, session

pytestmark = pytest.mark.req("K5")

# Text that UTF-8 and HTML can carry unchanged: no lone surrogates, no control characters, which a parser may replace.
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


async def scraped(scraper: HttpScraper, raw: dict[str, Any]) -> tuple[Any, dict[str, Page], int]:
    web, _ = session({})
    pages = await scraper.collect(scraper.parse_input(raw), web)
    return extract_record(scraper, list(web.kept.values())), web.kept, len(pages)


@pytest.fixture
async def web() -> AsyncIterator[WebSession]:
    transport = loopback_transport()
    yield WebSession(transport, Timeouts(), FakeClock())
    await transport.close()


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_the_mock_gives_back_any_input_from_its_page(raw: dict[str, Any]) -> None:
    record, pages, count = asyncio.run(scraped(ExampleMock(), raw))
    assert record == {"fields": raw, "count": len(raw)}
    assert (list(pages), count) == (["html"], 1)


def test_the_mocks_page_and_record_are_the_same_every_time() -> None:
    raw = {"parcel_id": "200-14-030", "note": "O'Brien & <sons>"}
    first, second = (asyncio.run(scraped(ExampleMock(), raw)) for _ in range(2))
    assert first == second
    stored = Page(
        name="html",
        url="mock:example",
        status=200,
        body=b"<h1>Example record</h1><dl><dt>a</dt><dd>&quot;x&quot;</dd><dt>b</dt><dd>[1]</dd></dl>",
    )
    assert extract_record(ExampleMock(), [stored]) == {"fields": {"a": "x", "b": [1]}, "count": 2}


async def test_the_mock_sends_nothing() -> None:
    web, transport = session({})
    await ExampleMock().collect(ExampleMock().parse_input({"a": 1}), web)
    assert (web.requests, transport.requests) == (0, [])


@pytest.mark.parametrize("raw", [{}, {"parcel_id": "1"}, {"q": "Muñoz & <b>", "deep": {"list": [1, None, True]}}])
async def test_the_echo_gives_back_its_input_over_http(
    raw: dict[str, Any], web: WebSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Site() as site:
        monkeypatch.setenv("SWATH_DEMO_URL", site.base_url)
        scraper = ExampleHttp()
        record = extract_record(scraper, await scraper.collect(scraper.parse_input(raw), web))
    assert record == {"method": "POST", "echo": raw}
    assert web.requests == 1


def test_a_stored_echo_is_read_again() -> None:
    body = b'{"method": "POST", "query": {}, "json": {"a": 1}, "headers": {"host": "demo.local"}}'
    page = Page(name="html", url="http://demo.local/echo", status=200, body=body, content_type="application/json")
    assert extract_record(ExampleHttp(), [page]) == {"method": "POST", "echo": {"a": 1}}


async def test_the_failing_example_fails_in_a_way_that_is_retried() -> None:
    web, _ = session({})
    with pytest.raises(Failed) as raised:
        await ExampleFail().collect(ExampleFail().parse_input({"any": "thing"}), web)
    failure = raised.value.failure
    assert failure.kind == FailureKind.SERVER_ERROR
    assert failure.rule.retryable
    assert web.requests == 0


def test_the_demo_sites_address_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWATH_DEMO_URL", raising=False)
    assert demo_url() == "http://127.0.0.1:8010"
    monkeypatch.setenv("SWATH_DEMO_URL", "http://127.0.0.1:9999/")
    assert demo_url() == "http://127.0.0.1:9999"

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swath import Failed, FailureKind, NotFound, Page, WebSession
from swath.demo.county import DemoCountyServer as Site
from swath.demo.county import exists, parcel, parcel_pages
from swath.domain.execution_policy import Timeouts
from swath.pipeline.extract.extraction import extract_record
from swath.scrapers.demo_county import DemoCounty
from tests.support.clock import FakeClock
from tests.unit.fetch.http.sites import loopback_transport

pytestmark = pytest.mark.req("K5")

PAGES = Path(__file__).parent / "demo_county_pages"
EXPECTED: dict[str, dict[str, Any]] = json.loads((PAGES / "expected.json").read_text(encoding="utf-8"))


@pytest.fixture
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    async with Site() as site:
        monkeypatch.setenv("SWATH_DEMO_URL", site.base_url + "/")
        yield site


@pytest.fixture
async def web() -> AsyncIterator[WebSession]:
    transport = loopback_transport()
    yield WebSession(transport, Timeouts(), FakeClock())
    await transport.close()


def stored(name: str) -> Page:
    return Page(name="html", url="http://demo.local/parcel/1", status=200, body=(PAGES / f"{name}.html").read_bytes())


def altered(name: str, old: str, new: str) -> list[Page]:
    page = stored(name)
    assert old.encode() in page.body
    return [msgspec.structs.replace(page, body=page.body.replace(old.encode(), new.encode()))]


def failure_kind(pages: list[Page]) -> FailureKind:
    with pytest.raises(Failed) as raised:
        extract_record(DemoCounty(), pages)
    return raised.value.failure.kind


@pytest.mark.parametrize("name", ["table_full", "table_sparse", "list_full", "list_sparse"])
def test_stored_pages_of_both_layouts_give_the_expected_record(name: str) -> None:
    record = extract_record(DemoCounty(), [stored(name)])
    assert record == EXPECTED[name]
    assert len(record) == 23


def test_the_countys_word_that_there_is_none_is_not_found() -> None:
    with pytest.raises(NotFound, match="No records found for parcel 123-45-025"):
        extract_record(DemoCounty(), [stored("not_found")])


def test_a_page_that_is_no_parcel_is_a_changed_layout() -> None:
    assert failure_kind([stored("disclaimer")]) == FailureKind.LAYOUT_CHANGED


def test_a_field_that_vanished_is_never_an_empty_record() -> None:
    assert failure_kind(altered("table_full", ">Owner<", ">Proprietor<")) == FailureKind.LAYOUT_CHANGED
    assert failure_kind(altered("list_full", "Tax for the year", "Tax")) == FailureKind.LAYOUT_CHANGED


def test_amounts_that_do_not_add_up_are_refused() -> None:
    assert failure_kind(altered("table_full", "$1,712.01", "$1,712.02")) == FailureKind.INVALID_OUTPUT


@pytest.mark.parametrize("wrong", ["", "123", "123-45-6789", "20014030A", "1234-5-678"])
def test_a_number_of_the_wrong_form_is_refused_before_anything_is_fetched(wrong: str) -> None:
    with pytest.raises(Failed, match="parcel_id") as raised:
        DemoCounty().parse_input({"parcel_id": wrong})
    assert raised.value.failure.kind == FailureKind.INVALID_INPUT


async def test_what_is_scraped_is_what_the_county_knows(site: Site, web: WebSession) -> None:
    scraper = DemoCounty()
    layouts = set()
    missing = 0
    for number in range(60):
        parcel_id = f"501-22-{number:03d}"
        fresh = WebSession(web._transport, Timeouts(), FakeClock())
        item = scraper.parse_input({"parcel_id": parcel_id})
        if not exists(parcel_id):
            missing += 1
            with pytest.raises(NotFound):
                await scraper.collect(item, fresh)
            assert b"No records found" in fresh.kept["html"].body
            continue
        truth = parcel(parcel_id)
        layouts.add(truth.layout)
        record = extract_record(scraper, await scraper.collect(item, fresh))
        assert {name: str(value) for name, value in record.items()} == {
            name: str(getattr(truth, name)) for name in record
        }
        assert list(fresh.kept) == ["html"]
        assert fresh.requests == 6
    assert layouts == {"table", "list"}
    assert missing


async def test_stored_pages_give_the_same_record_again(site: Site, web: WebSession) -> None:
    scraper = DemoCounty()
    pages = await scraper.collect(scraper.parse_input({"parcel_id": "501-22-001"}), web)
    assert extract_record(scraper, list(web.kept.values())) == extract_record(scraper, pages)


async def test_the_bill_is_downloaded_only_when_asked_for(site: Site, web: WebSession) -> None:
    scraper = DemoCounty()
    await scraper.collect(scraper.parse_input({"parcel_id": "501-22-001", "bill": "true"}), web)
    (kept,) = web.downloads
    assert (kept.name, kept.body) == ("bill-501-22-001.pdf", parcel_pages.document(parcel("501-22-001")))
    assert web.requests == 7


async def test_a_second_parcel_in_one_session_is_not_asked_to_agree_again(site: Site, web: WebSession) -> None:
    scraper = DemoCounty()
    await scraper.fetch(scraper.parse_input({"parcel_id": "501-22-001"}), web)  # type: ignore[arg-type]
    before = web.requests
    await scraper.fetch(scraper.parse_input({"parcel_id": "501-22-002"}), web)  # type: ignore[arg-type]
    assert web.requests - before == 3


async def test_the_detail_of_another_parcel_is_not_taken_for_this_one(
    site: Site, web: WebSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from swath.demo.county import parcel_pages

    draw = parcel_pages.page
    monkeypatch.setattr(parcel_pages, "page", lambda _: draw(parcel("501-22-002")))
    scraper = DemoCounty()
    with pytest.raises(Failed) as raised:
        await scraper.collect(scraper.parse_input({"parcel_id": "501-22-001"}), web)
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED

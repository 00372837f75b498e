"""`demo-county-browser` on the demo site, in a real Chromium: what it brings back is what the county knows."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from swath import NotFound
from swath.demo.county import DemoCountyServer as Site
from swath.demo.county import parcel, parcel_pages
from swath.domain.execution_policy import Timeouts
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.pipeline.extract.extraction import extract_record
from swath.scrapers.demo_county_browser import DemoCountyBrowser
from tests.unit.fetch.browser.visiting import RecordingGate, launched_browser, visiting

pytestmark = [pytest.mark.req("K5", "B3"), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def launched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChromiumProcess]:
    async with launched_browser(tmp_path_factory.mktemp("browser")) as launched:
        yield launched


@pytest_asyncio.fixture(loop_scope="module")
async def site(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    async with Site() as site:
        monkeypatch.setenv("SWATH_DEMO_URL", site.base_url)
        yield site


def port_of(site: Site) -> int:
    return int(site.base_url.rpartition(":")[2])


@pytest.mark.parametrize("parcel_id", ["501-22-000", "501-22-004"])
async def test_what_is_scraped_is_what_the_county_knows(launched: ChromiumProcess, site: Site, parcel_id: str) -> None:
    scraper, gate, truth = DemoCountyBrowser(), RecordingGate(), parcel(parcel_id)
    item = scraper.parse_input({"parcel_id": parcel_id, "bill": "yes"})
    async with visiting(launched, port_of(site), gate, block=scraper.block, timeouts=Timeouts()) as browser:
        pages = await scraper.collect(item, browser)
    record = extract_record(scraper, pages)
    assert {name: str(value) for name, value in record.items()} == {name: str(getattr(truth, name)) for name in record}
    assert len(pages.main.table("#gvTaxYears")) == len(truth.history)  # the last of them came on scrolling
    (kept,) = browser.downloads
    assert (kept.name, kept.body) == (f"bill-{parcel_id}.pdf", parcel_pages.document(truth))
    assert gate.events == [
        *("enter /app/", "leave /app/ 200"),
        *(f"enter /parcel/{parcel_id}/bill.pdf", f"leave /parcel/{parcel_id}/bill.pdf 200"),
    ]
    assert extract_record(scraper, list(browser.kept.values())) == record


async def test_a_parcel_that_is_not_there_is_not_found_and_its_page_is_kept(
    launched: ChromiumProcess, site: Site
) -> None:
    scraper = DemoCountyBrowser()
    async with visiting(launched, port_of(site), timeouts=Timeouts()) as browser:
        with pytest.raises(NotFound):
            await scraper.collect(scraper.parse_input({"parcel_id": "501-22-009"}), browser)
    assert b"No records found" in browser.kept["html"].body

"""`demo-county-recording` on the demo site, in a real Chromium: what it brings back is what the county knows."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from swath import Failed, NotFound
from swath.demo.county import DemoCountyServer as Site
from swath.demo.county import parcel, parcel_pages
from swath.domain.execution_policy import Timeouts
from swath.fetch.browser.chromium.launch import ChromiumProcess
from swath.pipeline.extract.extraction import extract_record
from swath.recordings.schema.recording import Recording
from swath.scrapers.demo_county_recording import DemoCountyRecording
from tests.unit.fetch.browser.visiting import RecordingGate, launched_browser, visiting

pytestmark = [pytest.mark.req("K5", "A1", "A4"), pytest.mark.asyncio(loop_scope="module")]


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


@pytest.mark.parametrize(("parcel_id", "wants_bill"), [("501-22-000", True), ("501-22-004", False)])
async def test_what_is_recorded_brings_back_what_the_county_knows(
    launched: ChromiumProcess, site: Site, parcel_id: str, wants_bill: bool
) -> None:
    scraper, gate, truth = DemoCountyRecording(), RecordingGate(), parcel(parcel_id)
    item = scraper.parse_input({"parcel_id": parcel_id, "bill": wants_bill})
    async with visiting(launched, port_of(site), gate, block=scraper.block, timeouts=Timeouts()) as browser:
        pages = await scraper.collect(item, browser)
    record = extract_record(scraper, pages)
    assert {name: str(value) for name, value in record.items()} == {name: str(getattr(truth, name)) for name in record}
    assert len(record) == 23
    assert len(pages.main.table("#gvTaxYears")) == len(truth.history)  # the last of them came on scrolling
    wanted = [(f"bill-{parcel_id}.pdf", parcel_pages.document(truth))] if wants_bill else []
    assert [(kept.name, kept.body) for kept in browser.downloads] == wanted
    assert gate.events[:2] == ["enter /app/", "leave /app/ 200"]
    assert extract_record(scraper, list(browser.kept.values())) == record


async def test_a_parcel_that_is_not_there_is_not_found_now_and_when_it_is_read_again(
    launched: ChromiumProcess, site: Site
) -> None:
    scraper = DemoCountyRecording()
    async with visiting(launched, port_of(site), timeouts=Timeouts()) as browser:
        with pytest.raises(NotFound):
            await scraper.collect(scraper.parse_input({"parcel_id": "501-22-009"}), browser)
    with pytest.raises(NotFound, match="No records found for parcel 501-22-009"):
        extract_record(scraper, list(browser.kept.values()))


async def test_a_failure_names_the_step(launched: ChromiumProcess, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    recording: Recording = vars(DemoCountyRecording)["recording"]
    steps = [step.model_copy(update={"on": (("#gone",),), "timeout_seconds": 0.5}) for step in recording.steps[4:5]]
    changed = recording.model_copy(update={"steps": (*recording.steps[:4], *steps, *recording.steps[5:])})
    monkeypatch.setattr(DemoCountyRecording, "recording", changed)
    scraper = DemoCountyRecording()
    async with visiting(launched, port_of(site), timeouts=Timeouts()) as browser:
        with pytest.raises(Failed, match=r"action_failed: step 5 \(click #gone\)"):
            await scraper.collect(scraper.parse_input({"parcel_id": "501-22-004"}), browser)

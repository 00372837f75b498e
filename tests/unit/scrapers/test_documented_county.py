"""The worked example of the guide: short, and right about every parcel in both layouts."""

from pathlib import Path

import pytest

from swath import NotFound
from swath.demo.county import DemoCountyServer as Site
from swath.demo.county import exists, parcel
from swath.domain.execution_policy import Timeouts
from swath.fetch.http.client.session import WebSession
from swath.pipeline.extract.extraction import extract_record
from swath.sdk.file_loader import load_file
from swath.sdk.scraper import Scraper
from tests.docs.pages import ROOT, Block, blocks_of
from tests.support.clock import FakeClock
from tests.unit.fetch.http.sites import loopback_transport

pytestmark = pytest.mark.req("K4")

GUIDE = ROOT / "docs/how-to/write-an-http-scraper.md"


def example() -> Block:
    found = [
        block for block in blocks_of(GUIDE.read_text(encoding="utf-8")) if block.mark("file") == "county_parcels.py"
    ]
    return found[0]


def test_the_example_has_under_40_lines_of_code() -> None:
    code = [line for line in example().text.splitlines() if line.strip()]
    assert len(code) < 40


async def test_the_example_knows_what_the_county_knows(tmp_path: Path) -> None:
    async with Site() as site:
        file = tmp_path / "county_parcels.py"
        file.write_text(example().text.replace("http://127.0.0.1:8010", site.base_url), encoding="utf-8")
        made: Scraper = load_file(file)["county-parcels"]()
        transport = loopback_transport()
        layouts: dict[str, int] = {}
        for number in range(40):
            parcel_id = f"501-22-{number:03d}"
            web = WebSession(transport, Timeouts(), FakeClock(), made.base_url)
            pages = await made.collect(made.parse_input({"parcel_id": parcel_id}), web)
            if not exists(parcel_id):
                with pytest.raises(NotFound):
                    extract_record(made, pages)
                continue
            truth = parcel(parcel_id)
            record = extract_record(made, pages)
            assert {name: str(value) for name, value in record.items()} == {
                name: str(getattr(truth, name)) for name in record
            }
            layouts[truth.layout] = layouts.get(truth.layout, 0) + 1
        await transport.close()
    assert layouts.keys() == {"table", "list"}

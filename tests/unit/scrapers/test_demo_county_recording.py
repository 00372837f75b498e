"""`demo-county-recording` over the stored pages of `demo-county-browser`: the same records, by rules alone.

tests/unit/recordings/test_recorded_demo.py has it in a browser.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swath import Failed, FailureKind, NotFound, Page
from swath.pipeline.extract.extraction import extract_record
from swath.recordings.document import dump_yaml, parse_recording
from swath.recordings.schema.recording import Recording
from swath.scrapers.demo_county import Parcel
from swath.scrapers.demo_county_recording import DemoCountyRecording

pytestmark = pytest.mark.req("K5", "A1")

PAGES = Path(__file__).parent / "demo_county_browser_pages"
EXPECTED: dict[str, dict[str, Any]] = json.loads((PAGES / "expected.json").read_text(encoding="utf-8"))


def stored(name: str) -> Page:
    body = (PAGES / f"{name}.html").read_bytes()
    return Page(name="html", url="http://demo.local/app/", status=200, body=body)


@pytest.mark.parametrize("name", ["table_full", "table_sparse", "list_full", "list_sparse"])
def test_stored_pages_of_both_layouts_give_the_same_record_as_code_does(name: str) -> None:
    assert extract_record(DemoCountyRecording(), [stored(name)]) == EXPECTED[name]


def test_its_output_is_that_of_the_scrapers_in_code() -> None:
    fields = DemoCountyRecording.Output.model_fields
    assert list(fields) == list(Parcel.model_fields)
    assert {name for name, field in fields.items() if not field.is_required()} == {
        "year_built",
        "last_sale_date",
        "last_sale_price",
    }


def test_the_countys_word_that_there_is_none_is_not_found() -> None:
    with pytest.raises(NotFound, match="No records found for parcel"):
        extract_record(DemoCountyRecording(), [stored("not_found")])


def test_a_field_that_vanished_is_never_an_empty_record() -> None:
    page = stored("table_full")
    assert b">Owner<" in page.body
    changed = msgspec.structs.replace(page, body=page.body.replace(b">Owner<", b">Proprietor<"))
    with pytest.raises(Failed, match="owner: the page html") as raised:
        extract_record(DemoCountyRecording(), [changed])
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


def test_the_shipped_file_and_its_class_agree_and_it_survives_being_written() -> None:
    recording: Recording = vars(DemoCountyRecording)["recording"]
    assert (recording.id, recording.name, recording.version) == (
        DemoCountyRecording.id,
        DemoCountyRecording.name,
        DemoCountyRecording.version,
    )
    assert (recording.description, recording.sites) == (DemoCountyRecording.description, DemoCountyRecording.sites)
    assert parse_recording(dump_yaml(recording), "again.yaml") == recording


def test_it_begins_where_the_demo_site_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWATH_DEMO_URL", "http://127.0.0.1:4321/")
    made = DemoCountyRecording()
    item = made.parse_input({"parcel_id": "501-22-004"})
    assert made.start_url(item) == "http://127.0.0.1:4321/app/"


@pytest.mark.req("K1", "R6")
def test_stored_pages_are_read_again_without_a_browser() -> None:
    code = (
        "import sys\n"
        "sys.modules['patchright'] = sys.modules['psutil'] = None  # as where the extra is not installed\n"
        "from pathlib import Path\n"
        "from swath import Page\n"
        "from swath.sdk.registry import Registry\n"
        "from swath.pipeline.extract.extraction import extract_record\n"
        "body = Path(sys.argv[1]).read_bytes()\n"
        "page = Page(name='html', url='http://demo.local/app/', status=200, body=body)\n"
        "print(extract_record(Registry().get('demo-county-recording'), [page])['owner'])\n"
    )
    command = [sys.executable, "-c", code, str(PAGES / "table_full.html")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    assert told == EXPECTED["table_full"]["owner"]

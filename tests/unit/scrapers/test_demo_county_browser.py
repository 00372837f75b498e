"""`demo-county-browser` over pages as a browser stored them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swath import Failed, FailureKind, NotFound, Page
from swath.pipeline.extract.extraction import extract_record
from swath.scrapers.demo_county_browser import DemoCountyBrowser

pytestmark = pytest.mark.req("K5")

PAGES = Path(__file__).parent / "demo_county_browser_pages"
EXPECTED: dict[str, dict[str, Any]] = json.loads((PAGES / "expected.json").read_text(encoding="utf-8"))


def stored(name: str) -> Page:
    body = (PAGES / f"{name}.html").read_bytes()
    return Page(name="html", url="http://demo.local/app/", status=200, body=body)


@pytest.mark.parametrize("name", ["table_full", "table_sparse", "list_full", "list_sparse"])
def test_stored_pages_of_both_layouts_give_the_expected_record(name: str) -> None:
    record = extract_record(DemoCountyBrowser(), [stored(name)])
    assert record == EXPECTED[name]
    assert len(record) == 23


def test_the_countys_word_that_there_is_none_is_not_found() -> None:
    with pytest.raises(NotFound, match="No records found for parcel"):
        extract_record(DemoCountyBrowser(), [stored("not_found")])


def test_a_field_that_vanished_is_never_an_empty_record() -> None:
    page = stored("table_full")
    assert b">Owner<" in page.body
    changed = msgspec.structs.replace(page, body=page.body.replace(b">Owner<", b">Proprietor<"))
    with pytest.raises(Failed) as raised:
        extract_record(DemoCountyBrowser(), [changed])
    assert raised.value.failure.kind == FailureKind.LAYOUT_CHANGED


@pytest.mark.req("K1", "R6")
def test_stored_pages_are_read_again_without_a_browser() -> None:
    code = (
        "import sys\n"
        "sys.modules['patchright'] = sys.modules['psutil'] = None  # as where the extra is not installed\n"
        "from pathlib import Path\n"
        "from swath import BrowserSession, Page\n"
        "from swath.sdk.registry import Registry\n"
        "from swath.pipeline.extract.extraction import extract_record\n"
        "body = Path(sys.argv[1]).read_bytes()\n"
        "page = Page(name='html', url='http://demo.local/app/', status=200, body=body)\n"
        "print(extract_record(Registry().get('demo-county-browser'), [page])['owner'])\n"
    )
    command = [sys.executable, "-c", code, str(PAGES / "table_full.html")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    assert told == EXPECTED["table_full"]["owner"]

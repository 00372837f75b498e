"""I4, I3: a real controller whose Chromium does not start, and then does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from swath.fetch.browser.chromium.find import find_binary
from tests.integration.api.serving import Place
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("I4", "B1")

SCRAPER = """
from pydantic import HttpUrl
from swath import BrowserScraper, Input, scraper

class In(Input):
    url: str

@scraper("seen", version="1")
class Seen(BrowserScraper):
    Input = In

    async def fetch(self, item, browser):
        await browser.goto(item.url)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    (tmp_path / "scrapers").mkdir()
    (tmp_path / "scrapers" / "seen.py").write_text(SCRAPER)
    place.environment["SWATH_SCRAPERS"] = str(tmp_path / "scrapers")
    return place


def chromium(folder: Path, script: str) -> str:
    """A program in the place of Chromium."""
    program = folder / "chromium.sh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    folder.chmod(0o755)  # the user that browsers run as may read it
    return str(program)


async def test_no_work_is_taken_while_no_browser_starts(place: Place) -> None:
    program = chromium(place.folder, "exit 1")
    async with place.serving(SWATH_CHROMIUM=program) as served, asyncio.timeout(2 * HANGING_SECONDS):
        order = {"target_type": "seen", "target_url": "http://127.0.0.1:9/", "timeout_seconds": 300}
        refused = await served.client.post("/api/v1/scrape/sync", json=order, timeout=HANGING_SECONDS)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "pool_exhausted")
        assert int(refused.headers["retry-after"]) > 0
        ready = await served.client.get("/readiness")
        assert (ready.status_code, ready.json()["error"]["code"]) == (503, "pool_exhausted")
        assert str(place.folder) not in refused.text + ready.text
        browsers = (await served.ask("GET", "/health"))["browsers"]
        assert (browsers["available"], browsers["in_use"]) == (0, 0)
        assert browsers["total"] > 0
        chromium(place.folder, f'exec {find_binary()} "$@"')  # somebody has repaired it
        while (ready := await served.client.get("/readiness")).status_code != 200:
            await asyncio.sleep(0.1)
        assert "browsers" in ready.json()["data"]["checked"]
        assert (await served.ask("GET", "/health"))["browsers"]["available"] > 0


async def test_a_controller_that_has_no_use_for_browsers_is_ready_without(place: Place) -> None:
    async with place.serving() as served:
        assert (await served.ask("GET", "/readiness"))["checked"] == ["store"]
        assert (await served.ask("GET", "/health"))["browsers"] is None

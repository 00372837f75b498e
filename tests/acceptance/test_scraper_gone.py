"""J7: the status of a job whose scraper is not there any more says so, and what to do."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.acceptance.conftest import Shell
from tests.support.bounds import HANGING_SECONDS

pytestmark = pytest.mark.req("J7")

SCRAPER = """
from swath import HttpScraper, Input, Page, WebPage, scraper


class In(Input):
    n: int


@scraper("mine", version="1")
class Mine(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        return WebPage(Page(name="html", url="mock:mine", status=200, body=b"<h1>ok</h1>"))
"""


async def status_of(shell: Shell, job_id: str) -> dict[str, Any]:
    code, out, err = await shell.run("jobs", "status", job_id, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("reference", ["./mine.py", "mine"])
async def test_a_job_whose_scraper_file_is_gone_says_so_and_goes_on_when_it_is_back(
    shell: Shell, reference: str
) -> None:
    if reference == "mine":
        (shell.folder / "scrapers").mkdir()
        shell.environment["SWATH_SCRAPERS"] = str(shell.folder / "scrapers")
    name = "scrapers/mine.py" if reference == "mine" else "mine.py"
    shell.write(name, SCRAPER)
    shell.write("items.csv", "n\n1\n2\n")
    code, _, err = await shell.run("jobs", "create", reference, "--items", "items.csv", "--job-id", "j")
    assert code == 0, err
    assert (await status_of(shell, "j"))["waiting_for"] is None
    (shell.folder / name).unlink()
    found = await status_of(shell, "j")
    assert found["waiting_for"] == "scraper"
    assert ("mine.py" if reference != "mine" else "'mine'") in found["waiting_reason"]
    assert "swath worker" in found["waiting_reason"]
    text = (await shell.run("jobs", "status", "j"))[1]
    assert f"waiting for the scraper: {found['waiting_reason']}" in text
    shell.write(name, SCRAPER)
    worker = await shell.start("worker")
    async with asyncio.timeout(HANGING_SECONDS):
        while (ended := await status_of(shell, "j"))["status"] != "completed":
            await asyncio.sleep(0.1)
    worker.terminate()
    await asyncio.wait_for(worker.communicate(), HANGING_SECONDS)
    assert ended["waiting_for"] is None
    (shell.folder / name).unlink()
    assert (await status_of(shell, "j"))["waiting_for"] is None, "it needs none any more"

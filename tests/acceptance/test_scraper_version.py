"""Z5: a job that goes on with another version of its scraper is refused, or says so where people and programs look."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

SCRAPER = """
import asyncio
from swath import HttpScraper, Input, Page, WebPage, WebSession, scraper


@scraper("words", version="{version}")
class Words(HttpScraper):
    class Input(Input):
        word: str

    async def fetch(self, item, web):
        while item.word in {held}:
            await asyncio.sleep(0.05)
        return WebPage(Page(name="html", url="mock:words", status=200, body=item.word.encode()))
"""
RUN = ("run", "words.py", "--items", "words.csv", "--job-id", "words", "--quiet")


async def _ended(shell: Shell, items: int) -> None:
    async with asyncio.timeout(120):
        while True:
            code, out, _ = await shell.run("jobs", "status", "words", "--json")
            if code == 0 and json.loads(out)["counts"]["success"] == items:
                return
            await asyncio.sleep(0.1)


@pytest.mark.req("Z5", "J7")
@pytest.mark.timeout(240)
async def test_a_job_that_is_resumed_with_another_version_of_its_scraper(shell: Shell) -> None:
    shell.write("words.csv", "word\none\ntwo\nthree\n")
    shell.write("words.py", SCRAPER.format(version="1", held=["three"]))
    first = await shell.start(*RUN)
    await _ended(shell, 2)
    first.kill()
    await first.wait()
    shell.write("words.py", SCRAPER.format(version="2", held=[]))

    for words in (RUN, (*RUN, "--dry-run")):
        refused = shell.swath(*words)
        assert refused.returncode == 2, refused.stderr
        (line,) = refused.stderr.strip().splitlines()
        assert "was ordered with version 1 of scraper 'words', which has version 2 now" in line
        assert "`swath run --job-id words`" in line
    assert shell.swath("jobs", "status", "words").stdout.startswith("job words is running: 2 of 3 done, 2 success")

    went_on = shell.swath("run", "--job-id", "words")
    assert went_on.returncode == 0, went_on.stderr
    assert "job words was ordered with version 1 of its scraper and goes on with version 2" in went_on.stderr
    status = json.loads(shell.swath("jobs", "status", "words", "--json").stdout)
    assert (status["scraper_version"], status["scraper_versions"]) == ("1", ["1", "2"])
    assert "read by versions 1, 2 of the scraper" in shell.swath("jobs", "status", "words").stdout
    metadata = json.loads((shell.folder / "data" / "results" / "words" / "job_metadata.json").read_text())
    assert metadata["scraper_versions"] == {"1": 2, "2": 1}
    assert shell.swath("jobs", "verify", "words").returncode == 0
    assert shell.swath(*RUN).returncode == 0, "a job that has ended is only reported"

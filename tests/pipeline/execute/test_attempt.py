import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from swath.domain.attempt import Finding
from swath.domain.failure import FailureKind
from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.domain.policy import ExecutionPolicy
from swath.kit.declare import scraper as declare
from swath.kit.pages import Pages
from swath.kit.scraper import HttpScraper
from swath.pipeline.execute.attempt import REFUSED, Bench, Tried, Turn, attempt
from swath.pipeline.execute.patience import Patience
from swath.testing.clock import FakeClock
from swath.testing.network import open_network
from swath.web.page import WebPage
from swath.web.session import WebSession
from tests.web.sites import TableTransport, answer

SITE = "http://attempt.example"
PAGE, NEXT = f"{SITE}/page", f"{SITE}/next"


@declare("two-pages", version="1")
class TwoPages(HttpScraper):
    """The first page is kept by name, the second returned."""

    async def fetch(self, item: Any, web: WebSession) -> WebPage:
        await web.get(PAGE, name="first")
        return await web.get(NEXT)

    def extract(self, pages: Pages) -> dict[str, Any]:
        return {"heading": pages.main.text_of("h1")}


async def tried(**answers: int) -> Tried:
    """One attempt at a site whose two pages have these statuses."""
    clock = FakeClock()
    body = b"<h1>Parcel 1</h1><p>Owner: JANE DOE</p>"
    site = TableTransport(
        {PAGE: answer(PAGE, body, answers.get("page", 200)), NEXT: answer(NEXT, body, answers.get("next", 200))}
    )
    job = Job(job_id="j", scraper_id="two-pages", policy=ExecutionPolicy())
    bench = Bench(job, TwoPages(), open_network(site, clock), clock, "w")
    return await attempt(bench, Turn(LeasedItem(1, "1", {}), (), lambda: None, Patience()))


@pytest.mark.req("K7", "R1")
async def test_the_answer_that_made_an_item_fail_is_kept_for_people_to_look_at() -> None:
    found = await tried(next=500)
    assert found.failure is not None
    assert found.failure.kind is FailureKind.SERVER_ERROR
    assert [(page.name, page.status) for page in found.result.pages] == [("first", 200), (REFUSED, 500)]


@pytest.mark.req("K1")
async def test_a_success_keeps_its_pages_and_nothing_else() -> None:
    found = await tried()
    assert found.finding is Finding.FOUND
    assert [page.name for page in found.result.pages] == ["first", "html"]


LEFT_OVER = """
import asyncio, gc
from swath.web.page import WebPage
from tests.pipeline.execute.test_attempt import tried

async def main():
    await tried()
    await tried(next=500)
    print(sum(isinstance(thing, WebPage) for thing in gc.get_objects()))

gc.disable()
asyncio.run(main())
"""


@pytest.mark.req("Z8")
def test_no_parsed_page_outlives_its_attempt() -> None:
    """Without the collector: pages of a fast job would else pile up by the hundred megabytes between its rounds.

    In a process of its own, in which nothing else keeps frames alive.
    """
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", LEFT_OVER], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr

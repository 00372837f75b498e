import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.failure import FailureKind
from swath.domain.item import SuccessOutcome
from swath.domain.job import Job
from swath.domain.lease import LeasedItem
from swath.domain.result import Page
from swath.fetch.http.client.session import WebSession
from swath.fetch.http.page.page import WebPage
from swath.pipeline.formats.artifacts import REFUSED_PAGE
from swath.pipeline.worker.attempt import AttemptRequest, AttemptResult, WorkerContext, run_attempt
from swath.pipeline.worker.item_timeout import ItemTimeout
from swath.sdk.declaration import scraper as declare
from swath.sdk.pages import Pages
from swath.sdk.scraper import HttpScraper
from tests.support.clock import FakeClock
from tests.support.network import open_network
from tests.unit.fetch.http.sites import TableTransport, answer

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


async def tried(**answers: int) -> AttemptResult:
    """One attempt at a site whose two pages have these statuses."""
    clock = FakeClock()
    body = b"<h1>Parcel 1</h1><p>Owner: JANE DOE</p>"
    site = TableTransport(
        {PAGE: answer(PAGE, body, answers.get("page", 200)), NEXT: answer(NEXT, body, answers.get("next", 200))}
    )
    job = Job(job_id="j", scraper_id="two-pages", policy=ExecutionPolicy())
    bench = WorkerContext(job, TwoPages(), open_network(site, clock), clock, "w")
    return await run_attempt(bench, AttemptRequest(LeasedItem(1, "1", {}), (), lambda: None, ItemTimeout()))


@pytest.mark.req("K7", "R1")
async def test_the_answer_that_made_an_item_fail_is_kept_for_people_to_look_at() -> None:
    found = await tried(next=500)
    assert found.failure is not None
    assert found.failure.kind is FailureKind.SERVER_ERROR
    assert [(page.name, page.status) for page in found.result.pages] == [("first", 200), (REFUSED_PAGE, 500)]


@pytest.mark.req("K1")
async def test_a_success_keeps_its_pages_and_nothing_else() -> None:
    found = await tried()
    assert found.finding is SuccessOutcome.FOUND
    assert [page.name for page in found.result.pages] == ["first", "html"]


@declare("own-pages", version="1")
class OwnPages(HttpScraper):
    """Pages as authors make them themselves, without a time and with one."""

    async def fetch(self, item: Any, web: WebSession) -> list[WebPage]:
        bare = Page(name="bare", url="mock:1", status=200, body=b"<b>1</b>")
        return [WebPage(bare), WebPage(msgspec.structs.replace(bare, name="dated", fetched_at=12.5))]


@pytest.mark.req("R8", "K1")
async def test_a_page_without_a_time_gets_that_of_its_attempt() -> None:
    clock = FakeClock()
    job = Job(job_id="j", scraper_id="own-pages", policy=ExecutionPolicy())
    bench = WorkerContext(job, OwnPages(), open_network(TableTransport({}), clock), clock, "w")
    found = await run_attempt(bench, AttemptRequest(LeasedItem(1, "1", {}), (), lambda: None, ItemTimeout()))
    assert {page.name: page.fetched_at for page in found.result.pages} == {"bare": clock.now(), "dated": 12.5}


LEFT_OVER = """
import asyncio, gc
from swath.fetch.http.page.page import WebPage
from tests.unit.pipeline.worker.test_attempt import tried

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
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", LEFT_OVER], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


@pytest.mark.req("H4")
@pytest.mark.parametrize("cached", [False, True])
async def test_items_share_pages_if_and_only_if_the_job_wants_it(cached: bool) -> None:
    clock = FakeClock()
    site = TableTransport({PAGE: answer(PAGE, b"<h1>list</h1>"), NEXT: answer(NEXT, b"<h1>Parcel</h1>")})
    policy = ExecutionPolicy.model_validate({"cache_responses": True} if cached else {})
    job = Job(job_id="j", scraper_id="two-pages", policy=policy)
    bench = WorkerContext(job, TwoPages(), open_network(site, clock), clock, "w")
    came = [
        (
            await run_attempt(bench, AttemptRequest(LeasedItem(seq, str(seq), {}), (), lambda: None, ItemTimeout()))
        ).attempt
        for seq in range(5)
    ]
    assert len(site.requests) == sum(one.requests for one in came) == (2 if cached else 10)
    assert [one.cache_hits for one in came] == ([0, 2, 2, 2, 2] if cached else [0] * 5)
    assert ("cache_hits" in msgspec.json.decode(msgspec.json.encode(came[1]))) is cached


@pytest.mark.req("H4")
async def test_a_page_that_made_an_item_fail_is_not_given_to_the_next() -> None:
    """The classifier took it for a page; the scraper found that it is not the one it should be."""

    class Strict(TwoPages):
        def extract(self, pages: Pages) -> dict[str, Any]:
            return {"heading": pages.main.select_one("h1").text()}

    clock = FakeClock()
    site = TableTransport({PAGE: answer(PAGE), NEXT: answer(NEXT, b"<p>come back later")})
    job = Job(job_id="j", scraper_id="two-pages", policy=ExecutionPolicy(cache_responses=True))
    bench = WorkerContext(job, Strict(), open_network(site, clock), clock, "w")

    async def once() -> AttemptResult:
        return await run_attempt(bench, AttemptRequest(LeasedItem(1, "1", {}), (), lambda: None, ItemTimeout()))

    assert (await once()).failure is not None
    site.answers[NEXT] = answer(NEXT, b"<h1>Parcel</h1>")
    assert (await once()).failure is None
    assert (await once()).attempt.cache_hits == 2

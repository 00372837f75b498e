"""The response cache as the command uses it: what reaches the site, and where its hits are told."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.acceptance.conftest import Shell
from tests.unit.fetch.http.sites import plain, raw_site

ITEMS = 50
SCRAPER = """
from swath import HttpScraper, Input, scraper


class Parcel(Input):
    n: int


@scraper("county", version="1", sites=["{site}"])
class County(HttpScraper):
    Input = Parcel
    base_url = "{site}"

    async def fetch(self, item, web):
        await web.get("/districts", name="districts")
        return await web.get(f"/parcel/{{item.n}}")

    def extract(self, pages):
        return {{"districts": pages["districts"].text_of("h1"), "parcel": pages.main.text_of("h1")}}
"""


@asynccontextmanager
async def counted_site() -> AsyncIterator[tuple[str, Counter[str]]]:
    """A site that counts what it is asked for, by path."""
    asked: Counter[str] = Counter()

    async def handler(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1].decode()
        asked[path] += 1
        if path == "/robots.txt":
            writer.write(plain(b"", status=b"404 Not Found"))
        else:
            writer.write(plain(f"<h1>{path}</h1>".encode(), b"Content-Type: text/html"))

    async with raw_site(handler) as url:
        yield url, asked


async def ran(shell: Shell, url: str, policy: dict[str, object]) -> None:
    shell.write("county.py", SCRAPER.format(site=url))
    shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(ITEMS)))
    shell.write("policy.json", json.dumps(policy))
    shell.environment["SWATH_ALLOW_PRIVATE"] = url.removeprefix("http://")
    shell.write("sites.yaml", json.dumps({"sites": {"here": {"domains": ["127.0.0.1"], "rate": {"tokens": 500}}}}))
    shell.environment["SWATH_SITES"] = str(shell.folder / "sites.yaml")
    order = ("--items", "items.csv", "--job-id", "j", "--policy", "policy.json", "--quiet")
    code, _, err = await shell.run("run", "county.py", *order)
    assert code == 0, err + (await shell.run("jobs", "item", "j", "0"))[1]


@pytest.mark.req("H4", "R3")
async def test_a_page_that_all_items_need_is_fetched_once_and_its_hits_are_counted(shell: Shell) -> None:
    async with counted_site() as (url, asked):
        await ran(shell, url, {"cache_responses": True})
    assert asked.pop("/robots.txt") == 1
    assert asked == {"/districts": 1} | {f"/parcel/{n}": 1 for n in range(ITEMS)}
    results = shell.folder / "data" / "results" / "j"
    told = json.loads((results / "job_metadata.json").read_text(encoding="utf-8"))
    assert (told["requests"], told["cache_hits"]) == (ITEMS + 1, ITEMS - 1)
    assert told["execution_policy"] == {"cache_responses": True}
    assert json.loads((await shell.run("jobs", "status", "j", "--json"))[1])["cache_hits"] == ITEMS - 1
    assert f"{ITEMS - 1} answers from the cache" in (await shell.run("jobs", "status", "j"))[1]
    pages = [
        page
        for file in results.glob("items/*/metadata.json")
        for page in json.loads(file.read_text(encoding="utf-8"))["pages"]
    ]
    assert Counter((page["name"], page.get("from_cache", False)) for page in pages) == {
        ("html", False): ITEMS,
        ("districts", False): 1,
        ("districts", True): ITEMS - 1,
    }
    assert len({page["fetched_at"] for page in pages if page["name"] == "districts"}) == 1, "when it was fetched"
    code, out, err = await shell.run("jobs", "verify", "j")
    assert code == 0, out + err
    shown = [(await shell.run("jobs", "item", "j", str(n)))[1] for n in (0, ITEMS - 1)]
    assert any("1 requests" in text and "1 from the cache" in text for text in shown)


@pytest.mark.req("H4")
async def test_nothing_is_shared_unless_the_job_wants_it(shell: Shell) -> None:
    async with counted_site() as (url, asked):
        await ran(shell, url, {})
    assert asked["/districts"] == ITEMS
    told = json.loads((shell.folder / "data" / "results" / "j" / "job_metadata.json").read_text(encoding="utf-8"))
    assert (told["requests"], told["cache_hits"]) == (2 * ITEMS, 0)

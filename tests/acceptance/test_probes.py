"""D3: the probe of a site that failed, when it ends without an answer about the site."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.acceptance.conftest import Shell
from tests.support.bounds import HANGING_SECONDS

# The site fails for the items 1 to 3, which opens its circuit. The code of the scraper fails for 4 to 15.
SCRAPER = """
from swath import HttpScraper, Input, scraper

class In(Input):
    n: int

@scraper("probing", version="1")
class Probing(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        page = await web.get(f"{item.url}/{item.n}")
        if 3 < item.n <= 15:
            raise ValueError("a mistake in the scraper")
        return page
"""
BREAKER = {"window": 3, "failures": 3, "reopen_seconds": 1}
LONG = 10 * HANGING_SECONDS  # an item's time, and so that of a probe which is not given back

Answer = Callable[[int], int | None]
"""The status for a page, by how many pages were asked for before; None for a site that never answers."""


@asynccontextmanager
async def site(answer: Answer) -> AsyncIterator[tuple[str, list[str]]]:
    """Its address, and the pages that were asked for."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            status: int | None = 404
            if path != "/robots.txt":
                asked.append(path)
                status = answer(len(asked))
            if status is None:
                await reader.read()  # until the other side is gone
            else:
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok" % status)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


def job_of(shell: Shell, url: str, items: int) -> tuple[str, ...]:
    """The command that makes the job, one item at a time."""
    code = SCRAPER.replace("n: int", f'n: int\n    url: str = "{url}"')
    shell.write("probing.py", code)
    shell.write("items.csv", "\n".join(["n", *map(str, range(1, items + 1))]))
    policy = {
        "throttling": {"max_concurrent_workers": 1},
        "retries": {"max_retries": 0},
        "timeouts": {"item_seconds": LONG, "request_seconds": LONG},
        "circuit_breaker": {"min_requests": 1000, "consecutive_failures": 1000},
    }
    host = url.removeprefix("http://")
    shell.write("policy.json", json.dumps(policy))
    sites = {"sites": {"county": {"domains": ["127.0.0.1"], "breaker": BREAKER, "robots": "ignore"}}}
    shell.environment["SWATH_SITES"] = str(shell.write("sites.yaml", json.dumps(sites)))
    shell.environment["SWATH_ALLOW_PRIVATE"] = host
    return ("jobs", "create", "probing.py", "--items", "items.csv", "--job-id", "j", "--policy", "policy.json")


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANGING_SECONDS):
        while not true():
            await asyncio.sleep(0.02)


def ended(folder: Path) -> bool:
    return (folder / "data/results/j/job_metadata.json").exists()


@pytest.mark.req("D3")
async def test_items_that_say_nothing_of_the_site_do_not_hold_its_probe(shell: Shell) -> None:
    async with site(lambda number: 500 if number <= 3 else 200) as (url, asked):
        assert (await shell.run(*job_of(shell, url, 18)))[0] == 0
        worker = await shell.start("worker", "--job", "j")
        await until(lambda: ended(shell.folder))
        worker.terminate()
        await asyncio.wait_for(worker.communicate(), HANGING_SECONDS)
    counts = json.loads((await shell.run("jobs", "status", "j", "--json"))[1])["counts"]
    assert (counts["success"], counts["failed"]) == (3, 15)
    assert len(asked) == 18


@pytest.mark.req("D3", "W1")
async def test_the_probe_of_a_killed_worker_is_sent_by_another_at_once(shell: Shell) -> None:
    async with site(lambda number: 500 if number <= 3 else None if number == 4 else 200) as (url, asked):
        assert (await shell.run(*job_of(shell, url, 18)))[0] == 0
        first = await shell.start("worker", "--job", "j")
        await until(lambda: len(asked) == 4)
        second = await shell.start("worker", "--job", "j")
        await asyncio.sleep(0.5)  # it finds the probe under way
        first.kill()
        await until(lambda: ended(shell.folder))
        second.terminate()
        for worker in (first, second):
            await asyncio.wait_for(worker.communicate(), HANGING_SECONDS)
    counts = json.loads((await shell.run("jobs", "status", "j", "--json"))[1])["counts"]
    assert counts["success"] + counts["failed"] == 18
    assert (counts["success"], len(asked)) == (3, 19)

"""Z10: while the results of a job cannot be stored, its site is not asked for its items again and again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.chaos.disturbances import Damage, DamagedFolder
from tests.unit.fetch.http.sites import plain, raw_site

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

ITEMS = 30
CONCURRENCY = 3
EARLY = 6
DAMAGED = "job damaged"
SCRAPER = """
from swath import HttpScraper, Input, scraper

class In(Input):
    n: int
    job: str

@scraper("counted", version="1", sites=["{site}"])
class Counted(HttpScraper):
    Input = In
    base_url = "{site}"

    async def fetch(self, item, web):
        with open(f"begun-{{item.job}}", "a") as begun:
            begun.write(f"{{item.n}}\\n")
        return await web.get(f"/{{item.job}}/{{item.n}}")

    def extract(self, pages):
        return {{"n": pages.main.text_of("h1")}}
"""


class CountingSite:
    """`asked` counts requests by path. A job may have a gate: only its items up to `early` are answered before that is
    open."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.gates: dict[str, asyncio.Event] = {}
        self.early = EARLY

    async def answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        path = head.split(b" ")[1].decode()
        self.asked[path] += 1
        _, job, number = [*path.split("/"), ""][:3]
        if job in self.gates and int(number) > self.early:
            await self.gates[job].wait()
        writer.write(plain(f"<h1>{number}</h1>".encode(), b"Content-Type: text/html"))

    def requests(self, job_id: str) -> Counter[str]:
        return Counter({path: count for path, count in self.asked.items() if path.startswith(f"/{job_id}/")})


@asynccontextmanager
async def counting_site(shell: Shell) -> AsyncIterator[CountingSite]:
    site = CountingSite()
    async with raw_site(site.answer) as url:
        shell.write("counted.py", SCRAPER.format(site=url))
        shell.environment["SWATH_ALLOW_PRIVATE"] = url.removeprefix("http://")
        sites = {"here": {"domains": ["127.0.0.1"], "rate": {"tokens": 500}}}
        shell.environment["SWATH_SITES"] = str(shell.write("sites.yaml", json.dumps({"sites": sites})))
        yield site


async def order(shell: Shell, job_id: str, layout: str, items: int = ITEMS) -> None:
    rows = "".join(f"{n},{job_id}\n" for n in range(1, items + 1))
    given = shell.write(f"{job_id}.csv", "n,job\n" + rows)
    words = ("--items", str(given), "--job-id", job_id, "--layout", layout, "--concurrency", str(CONCURRENCY))
    code, _, err = await shell.run("jobs", "create", "counted.py", *words, "--quiet")
    assert code == 0, err


async def status(shell: Shell, job_id: str) -> dict[str, Any]:
    code, out, err = await shell.run("jobs", "status", job_id, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


async def until_ended(shell: Shell, job_id: str) -> None:
    async with asyncio.timeout(90):
        while (await status(shell, job_id))["status"] != "completed":
            await asyncio.sleep(0.1)


async def until_logged(worker: asyncio.subprocess.Process, *words: str) -> None:
    """Until a line of the worker's log has these words."""
    assert worker.stderr is not None
    async with asyncio.timeout(90):
        while line := (await worker.stderr.readline()).decode():
            if all(word in line for word in words):
                return
    pytest.fail(f"the worker ended without a line about {words}")


def attempts(folder: Path, job_id: str) -> int:
    """How many attempts at items of the job have begun."""
    begun = folder / f"begun-{job_id}"
    return len(begun.read_text(encoding="utf-8").splitlines()) if begun.exists() else 0


@pytest.mark.req("Z10", "Z9", "J7")
@pytest.mark.parametrize("layout", ["files", "warc"])
async def test_a_site_is_left_alone_while_nothing_can_be_stored(shell: Shell, layout: str) -> None:
    async with counting_site(shell) as site:
        site.gates["damaged"] = asyncio.Event()
        await order(shell, "damaged", layout)
        first = await shell.start("worker")
        async with asyncio.timeout(90):
            while site.requests("damaged").total() < EARLY + CONCURRENCY:
                await asyncio.sleep(0.02)
        folder = DamagedFolder(shell.folder / "data" / "results" / "damaged", Damage.FILE)
        site.gates["damaged"].set()
        await until_logged(first, "cannot use the results of job 'damaged'")
        await order(shell, "other", layout)
        await until_ended(shell, "other")
        asked = site.requests("damaged")
        assert asked.total() <= EARLY + 3 * CONCURRENCY, "no further item starts while what came cannot be stored"
        first.kill()
        await first.communicate()

        begun = attempts(shell.folder, "damaged")
        workers = [await shell.start("worker") for _ in range(2)]
        for worker in workers:
            await until_logged(worker, DAMAGED, "cannot use the results of job 'damaged'")
        await order(shell, "third", layout)
        await until_ended(shell, "third")
        found = await status(shell, "damaged")
        assert (found["status"], found["waiting_for"]) == ("running", "disk")
        assert str(shell.folder / "data" / "results" / "damaged") in found["waiting_reason"]
        assert site.requests("damaged") == asked, "a lease that cannot store is given back before any request"
        assert attempts(shell.folder, "damaged") == begun

        folder.repair(ended=False)
        await until_ended(shell, "damaged")
        assert max(site.requests("damaged").values()) <= 2, "once before the damage, once after it"
        for worker in workers:
            worker.terminate()
            await asyncio.wait_for(worker.communicate(), 60)
    assert (await shell.run("jobs", "verify", "damaged"))[0] == 0

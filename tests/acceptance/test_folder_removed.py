"""Somebody removes the results folder of a job while it runs: its end says which items have lost their files, and a
retry of these makes the job whole again."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

ITEMS = 40
SCRAPER = """
import asyncio, pathlib
from swath import HttpScraper, Input, scraper

class In(Input):
    n: int

@scraper("waiting", version="1")
class Waiting(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        while item.n > 20 and not pathlib.Path("go").exists():
            await asyncio.sleep(0.02)
        return {}

    def extract(self, pages):
        return {"text": "x" * 100}
"""


async def successes(shell: Shell) -> int:
    code, told, _ = await shell.run("jobs", "status", "job", "--json")
    return int(json.loads(told)["counts"]["success"]) if code == 0 else 0


@pytest.mark.req("Z10", "R4", "R3")
@pytest.mark.parametrize("layout", ["files", "warc"])
async def test_a_job_whose_folder_is_removed_while_it_runs_says_what_is_missing(shell: Shell, layout: str) -> None:
    shell.write("waiting.py", SCRAPER)
    shell.write("items.csv", "\n".join(["n", *map(str, range(1, ITEMS + 1))]))
    order = ("waiting.py", "--items", "items.csv", "--job-id", "job", "--layout", layout)
    process = await shell.start("run", *order, "--concurrency", "20", "--quiet")
    results = shell.folder / "data" / "results" / "job"
    async with asyncio.timeout(60):
        while (await successes(shell)) < 20:
            await asyncio.sleep(0.05)
    shutil.rmtree(results)
    shell.write("go", "")
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 3, err
    assert b"are gone" in err + out

    _, told, _ = await shell.run("jobs", "status", "job", "--json")
    status = json.loads(told)
    assert (status["status"], status["counts"]["success"]) == ("partially_completed", ITEMS)
    listed = (results / "missing_items.csv").read_text().splitlines()
    assert listed[0] == "item_id"
    assert len(listed) - 1 == status["missing_items"] >= 20
    assert json.loads((results / "job_metadata.json").read_text())["missing_items"] == status["missing_items"]
    assert (await shell.run("jobs", "verify", "job"))[0] == 8

    code, _, err_text = await shell.run("jobs", "retry", "job", "--items", str(results / "missing_items.csv"), "--run")
    assert code == 0, err_text
    assert not (results / "missing_items.csv").exists()
    code, told, _ = await shell.run("jobs", "verify", "job")
    assert code == 0, told
    assert json.loads((await shell.run("jobs", "status", "job", "--json"))[1])["missing_items"] == 0

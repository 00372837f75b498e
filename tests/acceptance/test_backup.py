"""The script of the page on backups, while a job runs: what was copied goes on elsewhere and verifies."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, blocks_of
from tests.support.bounds import HANGING_SECONDS

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

ITEMS = 300
SCRAPER = """
import asyncio, pathlib
from swath import HttpScraper, Input, Page, WebPage, scraper

class In(Input):
    n: int

@scraper("slow", version="1")
class Slow(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        while item.n % 3 == 0 and not pathlib.Path("go").exists():
            await asyncio.sleep(0.02)
        return WebPage(Page(name="html", url="mock:slow", status=200, body=b"<h1>%d</h1>" % item.n))

    def extract(self, pages):
        return {"title": pages.main.text_of("h1")}
"""


def script() -> str:
    """As the page has it, but that it says when the store is copied, and waits before it copies the results."""
    page = (ROOT / "docs/how-to/back-up-and-move.md").read_text(encoding="utf-8")
    (found,) = [block.text for block in blocks_of(page) if block.mark("file") == "back_up.py"]
    copied = "    store.backup(copy)\n"
    assert copied in found
    return found.replace(copied, f"{copied}    print('copied', flush=True)\n    sys.stdin.readline()\n")


async def successes(shell: Shell) -> int:
    code, told, _ = await shell.run("jobs", "status", "job", "--json")
    return int(json.loads(told)["counts"]["success"]) if code == 0 else 0


@pytest.mark.req("R2", "R4", "Z10")
@pytest.mark.parametrize("layout", ["files", "warc"])
async def test_what_ends_while_a_backup_is_made_is_done_again_after_a_restore(shell: Shell, layout: str) -> None:
    """Leases that are open in the copied store end, and others begin, before the results are copied."""
    shell.write("slow.py", SCRAPER)
    shell.write("items.csv", "\n".join(["n", *map(str, range(ITEMS))]))
    shell.write("back_up.py", script())
    order = ("run", "slow.py", "--items", "items.csv", "--job-id", "job", "--layout", layout, "--concurrency", "40")
    job = await shell.start(*order, "--quiet")
    async with asyncio.timeout(HANGING_SECONDS):
        while (await successes(shell)) < 10:
            await asyncio.sleep(0.05)
    backup = await asyncio.create_subprocess_exec(
        *(sys.executable, "back_up.py", "data", "backup"),
        cwd=shell.folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert backup.stdout is not None
    assert await asyncio.wait_for(backup.stdout.readline(), HANGING_SECONDS) == b"copied\n"
    shell.write("go", "")
    _, told = await asyncio.wait_for(job.communicate(), HANGING_SECONDS)
    assert job.returncode == 0, told
    await asyncio.wait_for(backup.communicate(b"go on\n"), HANGING_SECONDS)
    assert backup.returncode == 0

    shell.environment["SWATH_DATA"] = str(shell.folder / "backup")
    assert 10 <= await successes(shell) < ITEMS
    went_on = await shell.run(*order, "--quiet")
    assert went_on[0] == 0, went_on
    verified = await shell.run("jobs", "verify", "job")
    assert verified[0] == 0, verified

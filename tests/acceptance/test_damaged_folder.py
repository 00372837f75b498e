"""Z10, Z9: the damaged results folder of one job stops that job alone, says so, and goes on when it is repaired."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

ITEMS = 24
SCRAPER = """
import asyncio
from pathlib import Path
from swath import HttpScraper, Input, scraper

class In(Input):
    n: int

@scraper("gated", version="1")
class Gated(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        while item.n > 6 and not Path("go").exists():
            await asyncio.sleep(0.02)
        return {}

    def extract(self, pages):
        return {}
"""


async def ordered(shell: Shell, job_id: str, *more: str) -> None:
    arguments = ("jobs", "create", "gated.py", "--items", "items.csv", "--job-id", job_id, "--concurrency", "4")
    code, _, err = await shell.run(*arguments, "--quiet", *more)
    assert code == 0, err


async def status(shell: Shell, job_id: str) -> dict[str, Any]:
    code, out, err = await shell.run("jobs", "status", job_id, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


async def until(shell: Shell, job_id: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(90):
        while not condition(found := await status(shell, job_id)):
            await asyncio.sleep(0.1)
    return found


async def logged(worker: asyncio.subprocess.Process, text: str) -> None:
    """Waits for the line in which the worker says so: `swath jobs status` looks for itself, and may be first."""
    assert worker.stderr is not None
    async with asyncio.timeout(90):
        while text not in (line := (await worker.stderr.readline()).decode()):
            assert line, f"the worker ended and never logged {text!r}"


def damage(job: Path) -> Callable[[], None]:
    """Puts a file in the place of the folder with the items; answers with what repairs it."""
    (job / "items").rename(job / "items.kept")
    (job / "items").touch()

    def repair() -> None:
        (job / "items").unlink()
        (job / "items.kept").rename(job / "items")

    return repair


@pytest.mark.req("Z10", "Z9", "Z1", "J7")
async def test_one_damaged_folder_stops_one_job_and_no_other(shell: Shell) -> None:
    shell.write("gated.py", SCRAPER)
    shell.write("items.csv", "\n".join(["n", *map(str, range(1, ITEMS + 1))]))
    results = shell.folder / "data" / "results"
    await ordered(shell, "damaged")
    await ordered(shell, "other")
    worker = await shell.start("worker")
    for job_id in ("damaged", "other"):
        await until(shell, job_id, lambda found: found["counts"]["success"] >= 6)
    async with asyncio.timeout(60):
        while len(list((results / "damaged" / "items").iterdir())) < 6:
            await asyncio.sleep(0.05)
    repair = damage(results / "damaged")
    shell.write("go", "")
    found = await until(shell, "damaged", lambda found: found["counts"]["success"] >= 7)  # committed, not published
    worker.kill()
    await worker.communicate()
    second = await shell.start("worker", SWATH_LOG_LEVEL="INFO")
    found = await until(shell, "other", lambda found: found["status"] == "completed")
    assert (found["waiting_for"], found["waiting_reason"]) == (None, None)
    found = await until(shell, "damaged", lambda found: found["waiting_for"] is not None)
    assert (found["status"], found["waiting_for"]) == ("running", "disk")
    assert str(results / "damaged") in found["waiting_reason"]
    assert "'items' is a file" in found["waiting_reason"]
    assert "'items' is a file" in (await shell.run("jobs", "status", "damaged"))[1]
    await logged(second, "'items' is a file")
    repair()
    await until(shell, "damaged", lambda found: found["status"] == "completed")
    second.terminate()
    await asyncio.wait_for(second.communicate(), 60)
    assert second.returncode == 0
    for job_id in ("damaged", "other"):
        assert (await shell.run("jobs", "verify", job_id))[0] == 0


@pytest.mark.req("Z10", "Z9", "O4")
async def test_a_link_that_leads_nowhere_in_place_of_all_results_is_waited_for(shell: Shell) -> None:
    """As when the disk that it leads to is not mounted."""
    shell.write("gated.py", SCRAPER)
    shell.write("items.csv", "\n".join(["n", *map(str, range(1, ITEMS + 1))]))
    results = shell.folder / "data" / "results"
    await ordered(shell, "job")
    worker = await shell.start("worker")
    await until(shell, "job", lambda found: found["counts"]["success"] >= 6)
    results.rename(shell.folder / "mounted")
    results.symlink_to(shell.folder / "not-mounted")
    shell.write("go", "")
    found = await until(shell, "job", lambda found: found["waiting_for"] is not None)
    assert (found["status"], found["waiting_for"]) == ("running", "disk")
    await logged(worker, f"cannot use the results in {results}: a file, or a link that leads nowhere")
    code, told, _ = await shell.run("doctor", "--json")
    (of_results,) = (one for one in json.loads(told)["checks"] if one["check"] == "results")
    assert (code, of_results["level"]) == (1, "fail")
    assert str(results) in of_results["message"]

    results.unlink()
    (shell.folder / "mounted").rename(results)
    await until(shell, "job", lambda found: found["status"] == "completed")
    worker.terminate()
    _, err = await asyncio.wait_for(worker.communicate(), 90)
    assert worker.returncode == 0
    assert b"Traceback" not in err
    assert (await shell.run("jobs", "verify", "job"))[0] == 0


@pytest.mark.req("Z10", "J5")
async def test_a_job_is_deleted_although_a_file_stands_where_its_folder_belongs(shell: Shell) -> None:
    shell.write("gated.py", SCRAPER)
    shell.write("items.csv", "n\n1\n2\n")
    done = await shell.run("run", "gated.py", "--items", "items.csv", "--job-id", "job", "--quiet")
    assert done[0] == 0, done[2]
    results = shell.folder / "data" / "results"
    shutil.rmtree(results / "job")
    (results / "job").touch()
    code, _, err = await shell.run("jobs", "delete", "job", "--yes")
    assert (code, list(results.iterdir())) == (0, []), err

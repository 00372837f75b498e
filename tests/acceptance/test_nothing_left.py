"""What was deleted is gone: a planted value is looked for in every byte of the data folder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import Shell

pytestmark = pytest.mark.req("R2", "R6", "J5")

PLANTED = "planted-5f0e7a"
SCRAPER = """
from swath import HttpScraper, Input, Output, Page, WebPage, scraper


@scraper("planter", version="1")
class Planter(HttpScraper):
    class Input(Input):
        word: str

    class Output(Output):
        word: str

    async def fetch(self, item, web):
        body = f"<p>{item.word}</p>".encode()
        return WebPage(Page(name="html", url=f"memory:{item.word}", status=200, body=body))

    def extract(self, pages):
        return {"word": pages.main.text_of("p", "")}
"""


def places_of(value: str, folder: Path) -> list[str]:
    """Files that have it, in their names or in their bytes. Small pages are stored as they are."""
    found = [file for file in folder.rglob("*") if value in file.name]
    return [str(file) for file in (*found, *(f for f in folder.rglob("*") if f.is_file() and _has(f, value)))]


def _has(file: Path, value: str) -> bool:
    return value.encode() in file.read_bytes()


@pytest.mark.parametrize("layout", ["files", "warc"])
async def test_nothing_of_a_deleted_job_is_left(shell: Shell, layout: str) -> None:
    shell.write("planter.py", SCRAPER)
    for job, word in (("gone", PLANTED), ("stays", "other")):
        rows = "".join(f"{word}-{n:04}\n" for n in range(300))
        shell.write(f"{job}.csv", f"word\n{rows}")
        order = ("--items", f"{job}.csv", "--job-id", job, "--layout", layout, "--quiet")
        assert (await shell.run("run", "./planter.py", *order))[0] == 0
    code, out, err = await shell.run("jobs", "reextract", "gone", "--scraper", "./planter.py", "--quiet")
    assert code == 0, out + err
    data = shell.folder / "data"
    assert places_of(PLANTED, data) != []
    with closing(sqlite3.connect(data / "swath.db")) as other:  # as a controller has it open that runs for weeks
        other.execute("SELECT * FROM meta").fetchall()
        code, out, err = await shell.run("jobs", "delete", "gone", "--yes")
        assert code == 0, out + err
        assert places_of(PLANTED, data) == []
    assert places_of("other-0299", data) != []
    assert (await shell.run("jobs", "verify", "stays"))[0] == 0

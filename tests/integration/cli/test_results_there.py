"""C1, R5-R7: export, versions, use, reextract, compare and verify say the same over a controller as of a store here."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.api.serving import Place, Served

pytestmark = pytest.mark.req("C1", "I2")

PARCELS = """
from swath import HttpScraper, Input, Page, WebPage, scraper


class Parcel(Input):
    n: int


class Parcels(HttpScraper):
    Input = Parcel

    async def fetch(self, item, web):
        body = f"<h1>{item.n}</h1><b>Owner {item.n}</b>".encode()
        return WebPage(Page(name="html", url="mock:parcels", status=200, body=body))


@scraper("parcels", version="1", description="Reads the number.")
class First(Parcels):
    def extract(self, pages):
        return {"n": pages.main.text_of("h1"), "owner": None}


@scraper("parcels-two", version="2", description="Reads the owner too.")
class Second(Parcels):
    def extract(self, pages):
        return {"n": pages.main.text_of("h1"), "owner": pages.main.text_of("b")}
"""


@pytest.fixture(autouse=True)
def parcels(place: Place) -> None:
    (place.folder / "scrapers/parcels.py").write_text(PARCELS)


async def scraped(served: Served, job_id: str, scraper_id: str = "parcels", items: int = 3) -> None:
    rows = [{"item_id": f"i{n}", "input": {"n": n}} for n in range(items)]
    await served.ask("POST", "/jobs", json={"job_id": job_id, "scraper_id": scraper_id, "items": rows})
    await served.until(job_id, "completed")


async def ran(place: Place, *words: str, code: int = 0) -> tuple[str, str]:
    """What a command of `swath jobs` says on stdout and stderr."""
    found, out, err = await place.run("jobs", *words)
    assert found == code, err or out
    return out, err


async def both(place: Place, served: Served, *words: str, code: int = 0) -> str:
    """What a command prints here, which must be what it prints over there."""
    here, _ = await ran(place, *words, code=code)
    there, _ = await ran(place, *words, "--server", served.url, code=code)
    assert there.replace(f" --server {served.url}", "") == here
    return here


@pytest.mark.req("R6")
async def test_a_new_version_is_made_listed_compared_and_put_back(place: Place, served: Served) -> None:
    await scraped(served, "job")
    at = ("--server", served.url)
    out, _ = await ran(place, "reextract", "job", "--scraper", "parcels-two@2", "--quiet", *at)
    assert "version 2 of job job is completed" in out
    assert "readers get version 2 from now on" in out
    assert f"{served.url}/jobs/job.v2/results" in out
    assert f"swath jobs verify job.v2 --server {served.url}" in out
    assert "owner" in await both(place, served, "versions", "job", "--diff", "2")
    assert "parcels-two@2" in await both(place, served, "versions", "job")
    diff = json.loads(await both(place, served, "versions", "job", "--diff", "2", "--json"))
    assert diff["fields"]["owner"]["filled"] == 3
    listed, _ = await ran(place, "versions", "job", "--json", *at)
    assert [(one["version"], one["current"]) for one in json.loads(listed)] == [(1, False), (2, True)]
    assert "version 1" in await both(place, served, "use", "job", "--version", "1")
    again, _ = await ran(place, "reextract", "job", "--scraper", "parcels-two", "--sample", "2", "--json", *at)
    assert (json.loads(again)["counts"]["total"], json.loads(again)["current"]) == (2, False)


@pytest.mark.req("R6")
async def test_what_cannot_be_read_again_over_there_says_why(place: Place, served: Served) -> None:
    await scraped(served, "job")
    at = ("--server", served.url)
    _, err = await ran(place, "reextract", "job", "--scraper", "parcels-two@9", *at, code=2)
    assert "has version 2 here, not 9" in err
    _, err = await ran(place, "reextract", "job", "--scraper", "scrapers/parcels.py", *at, code=2)
    assert "SWATH_SCRAPERS there" in err
    _, err = await ran(place, "reextract", "job", "--scraper", "parcels-two", "--processes", "2", *at, code=2)
    assert "--processes does not go with --server" in err
    _, err = await ran(place, "versions", "job", "--diff", "7", *at, code=2)
    assert "version" in err
    _, err = await ran(place, "verify", "nobody", *at, code=7)
    assert "nobody" in err


@pytest.mark.req("R5")
async def test_an_export_becomes_the_same_file_here(place: Place, served: Served) -> None:
    await scraped(served, "job")
    for form in ("csv", "jsonl", "parquet", "sqlite"):
        await check_export(place, served, form)
    _, err = await ran(place, "export", "job", "--output", "there.csv", "--server", served.url, code=2)
    assert "exists already" in err
    await ran(place, "export", "job", "--output", "there.csv", "--force", "--server", served.url)
    assert not list(place.folder.glob(".there*"))


async def check_export(place: Place, served: Served, form: str) -> None:
    await ran(place, "export", "job", "--output", f"here.{form}")
    _, err = await ran(place, "export", "job", "--output", f"there.{form}", "--server", served.url)
    here, there = [(place.folder / f"{name}.{form}").read_bytes() for name in ("here", "there")]
    assert f"{len(there):,} bytes in there.{form}" in err
    assert there == here or form in {"sqlite", "parquet"}
    assert there[:4] == here[:4]


@pytest.mark.req("R5")
async def test_all_files_become_the_same_folder_here(place: Place, served: Served) -> None:
    await scraped(served, "job")
    await ran(place, "export", "job", "--format", "files", "--output", "here")
    out, _ = await ran(
        place, "export", "job", "--format", "files", "--output", "there", "--json", "--server", served.url
    )
    here, there = [_files(place.folder / name) for name in ("here", "there")]
    assert there == here
    assert len(here) >= 9
    told = json.loads(out)
    assert (told["records"], told["complete"], told["bytes"]) == (None, True, sum(map(len, there.values())))
    lines, _ = await ran(place, "export", "job", "--format", "jsonl", "--output", "-", "--server", served.url)
    assert [json.loads(line)["n"] for line in lines.splitlines()] == ["0", "1", "2"]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.req("R5", "Z5")
async def test_an_export_that_breaks_off_leaves_no_file(place: Place, served: Served) -> None:
    await scraped(served, "job")
    _, err = await ran(place, "export", "nobody", "--output", "x.csv", "--server", served.url, code=7)
    assert "nobody" in err
    served.process.send_signal(signal.SIGKILL)
    await served.process.wait()
    code, _, err = await place.run("jobs", "export", "job", "--output", "x.csv", "--server", served.url)
    assert (code, err.count("\n")) == (1, 1), err
    assert not list(place.folder.glob("*x.csv*"))


@pytest.mark.req("R7")
async def test_two_jobs_are_compared_alike(place: Place, served: Served) -> None:
    await scraped(served, "before")
    await scraped(served, "after", "parcels-two", items=4)
    for form in ("table", "json", "csv"):
        said = await both(place, served, "compare", "before", "after", "--key", "input.n", "--format", form)
        assert "owner" in said
    at = ("--server", served.url)
    _, err = await ran(place, "compare", "before", "after", "--key", "nothing", *at, code=7)
    assert "nothing" in err
    await ran(place, "compare", "before", "after", "--output", "changes.csv", *at)
    assert (place.folder / "changes.csv").read_bytes().count(b"owner") == 3


@pytest.mark.req("R4")
async def test_a_job_is_verified_alike(place: Place, served: Served) -> None:
    await scraped(served, "job")
    assert "verifies: 3 items" in await both(place, served, "verify", "job")
    assert json.loads(await both(place, served, "verify", "job", "--json"))["ok"]
    (damaged,) = [path for path in (place.folder / "data").rglob("data.json") if "i1" in str(path)]
    damaged.write_bytes(b"{}")
    said = await both(place, served, "verify", "job", code=8)
    assert "artifact_changed" in said
    report = json.loads(await both(place, served, "verify", "job", "--json", code=8))
    assert (report["ok"], report["found"]) == (False, {"artifact_changed": 1})


@pytest.mark.req("I5")
async def test_reading_needs_read_and_changing_needs_submit(place: Place, served: Served) -> None:
    await scraped(served, "job")
    code, key, err = await place.run("keys", "create", "reader", "--scope", "read")
    assert code == 0, err
    place.environment["SWATH_SERVICE_KEY"] = key.strip()
    at = ("--server", served.url)
    for words in (("verify", "job"), ("compare", "job", "job"), ("versions", "job")):
        await _until_known(place, *words, *at)
    await ran(place, "export", "job", "--output", "job.csv", *at)
    for refused in (("use", "job", "--version", "1"), ("reextract", "job", "--scraper", "parcels-two")):
        _, err = await ran(place, *refused, *at, code=2)
        assert "does not allow that" in err
    async with httpx.AsyncClient(base_url=served.url) as nobody:
        for path in ("/jobs/job/verify", "/jobs/job/compare?against=job"):
            assert (await nobody.get(path)).status_code == 401


async def _until_known(place: Place, *words: str) -> None:
    """The controller reads its keys every two seconds."""
    for _ in range(100):
        found, _, err = await place.run("jobs", *words)
        if found == 0:
            return
    pytest.fail(err)


async def lines_of(served: Served, path: str) -> list[dict[str, Any]]:
    answer = await served.client.get(path)
    assert answer.headers["content-type"] == "application/x-ndjson", answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.req("R7", "R4", "I1")
async def test_the_answers_are_lines_that_end_with_what_was_found(place: Place, served: Served) -> None:
    await scraped(served, "before")
    await scraped(served, "after", "parcels-two")
    (*_, last) = await lines_of(served, "/jobs/before/verify")
    assert last["report"]["ok"] is True
    found = [one for one in await lines_of(served, "/jobs/after/compare?against=before") if "progress" not in one]
    assert [list(one) for one in found] == [["summary"], *[["difference"]] * 3]
    for path, status in (
        ("/jobs/nobody/verify", 404),
        ("/jobs/after/compare?against=nobody", 404),
        ("/jobs/after/compare", 422),
        ("/jobs/after/compare?against=before&key=none", 422),
    ):
        answer = await served.client.get(path)
        assert (answer.status_code, answer.json()["success"]) == (status, False), answer.text

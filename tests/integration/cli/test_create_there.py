"""J2, C1: `jobs create --server` streams a file to a controller, tells bad rows by line, goes on after any death."""

from __future__ import annotations

import asyncio
import gzip
import json
import secrets
import sqlite3
from pathlib import Path

import pytest

from harness.armed_cli import KILLED
from swath.pipeline.ingest.validate import BATCH_ROWS
from tests.integration.api.serving import Place, Served

pytestmark = pytest.mark.req("J2", "C1")

ROWS = 3 * BATCH_ROWS + 500


def write(folder: Path, name: str, *ids: object, header: str = "parcel_id") -> str:
    (folder / name).write_text("\n".join([header, *map(str, ids), ""]))
    return name


async def create(place: Place, served: Served, *words: str) -> tuple[int, str, str]:
    """Runs the command where there is no store and no scraper."""
    alone = {"SWATH_DATA": str(place.folder / "nothing"), "SWATH_SCRAPERS": ""}
    found = await place.run("jobs", "create", *words, "--server", served.url, **alone)
    assert not (place.folder / "nothing").exists()
    return found


def stored_items(place: Place) -> int:
    """Counted without any code of ours."""
    (file,) = (place.folder / "data").glob("*.db")
    with sqlite3.connect(file) as database:
        return int(database.execute("SELECT count(*) FROM items").fetchone()[0])


async def test_a_file_is_loaded_and_run(place: Place, served: Served) -> None:
    write(place.folder, "parcels.csv", 100, 101, 404)
    words = ("typed", "--items", "parcels.csv", "--label", "a=b", "--concurrency", "2")
    code, out, err = await create(place, served, *words)
    assert code == 0, err
    assert "jobs watch" in out
    job_id = out.split()[1]
    assert job_id.startswith("typed-parcels-")
    status = await served.until(job_id, "completed")
    assert (status["counts"]["success"], status["counts"]["not_found"], status["labels"]) == (3, 1, {"a": "b"})
    assert status["execution_policy"] == {"throttling": {"max_concurrent_workers": 2}}
    code, out, err = await create(place, served, *words, "--json")
    assert (code, json.loads(out)["status"]) == (0, "completed")  # the same again is the same job


@pytest.mark.req("Z5", "K2")
async def test_bad_rows_are_told_by_line_and_leave_no_job(place: Place, idle: Served) -> None:
    file = write(place.folder, "bad.csv", 100, "x", 101, "y")
    code, _, err = await create(place, idle, "typed", "--items", file, "--job-id", "job")
    assert code == 2
    lines = [line for line in err.splitlines() if line.startswith("line ")]
    assert [line.split(":")[0] for line in lines] == ["line 3", "line 5"]
    assert "bad.csv: 2 of the first 4 rows cannot be used" in err
    assert "--bad-rows skip" in err
    assert (await idle.ask("GET", "/jobs"))["jobs"] == []
    code, _, err = await create(place, idle, "typed", "--items", file, "--job-id", "job", "--bad-rows", "skip")
    assert (code, err.count("left out: line")) == (0, 2)
    assert (await idle.ask("GET", "/jobs/job/status"))["counts"]["total"] == 2


UNUSABLE = (
    ("twice.csv", b"parcel_id\n100\n101\n100\n", "--duplicates keep-first"),
    ("head.csv", b"parcel\n100\n", "--map parcel_id=COLUMN"),
    ("empty.csv", b"", "empty.csv: is empty"),
    ("latin.csv", b"parcel_id\n100\nM\xfcller\n", "convert it to UTF-8"),
    ("missing.csv", None, "missing.csv: there is no such file"),
)


@pytest.mark.req("Z5", "J6")
async def test_a_file_that_cannot_be_used_leaves_no_job(place: Place, idle: Served) -> None:
    for name, content, told in UNUSABLE:
        if content is not None:
            (place.folder / name).write_bytes(content)
        code, _, err = await create(place, idle, "typed", "--items", name)
        assert code == 2
        assert told in err
        assert "body" not in err
        assert (await idle.ask("GET", "/jobs"))["jobs"] == []


async def test_other_rows_under_the_same_name_are_a_conflict(place: Place, idle: Served) -> None:
    file = write(place.folder, "parcels.csv", 100, 101, 102)
    assert (await create(place, idle, "typed", "--items", file))[0] == 0
    write(place.folder, "parcels.csv", 100, 109, 102)
    code, _, err = await create(place, idle, "typed", "--items", file)
    assert code == 2
    assert "line 3" in err
    assert "give another job id" in err


@pytest.mark.req("Z1")
async def test_a_controller_that_is_killed_amid_a_load_goes_on_with_the_same_command(place: Place) -> None:
    file = write(place.folder, "many.csv", *range(100_000, 100_000 + ROWS))
    words = ("typed", "--items", file, "--job-id", "job")
    async with place.serving("--no-worker", armed=True, SWATH_CRASH_AT="after_load_batch:2") as served:
        code, _, err = await create(place, served, *words)
        assert await asyncio.wait_for(served.process.wait(), 60) == KILLED
    assert code == 1
    assert "nothing is lost: run the same command again" in err
    before = stored_items(place)
    assert 0 < before < ROWS
    async with place.serving("--no-worker") as served:
        assert (await served.ask("GET", "/jobs/job/status"))["loaded_rows"] == before
        # A shorter file is another one, though all of its rows are there already.
        write(place.folder, "many.csv", *range(100_000, 100_000 + BATCH_ROWS))
        code, _, err = await create(place, served, *words)
        assert code == 2
        assert "other items" in err
        write(place.folder, "many.csv", *range(100_000, 100_000 + ROWS))
        code, out, err = await create(place, served, *words, "--json")
        assert code == 0, err
        assert json.loads(out)["counts"]["total"] == ROWS
    assert stored_items(place) == ROWS


async def test_a_refusal_is_heard_while_the_rest_is_still_being_sent(place: Place, idle: Served) -> None:
    notes = (secrets.token_hex(400) for _ in range(40_000))  # 32 MB that do not pack to less than half
    rows = "".join(f"{n + 1_000},{note}\n" for n, note in enumerate(notes))
    (place.folder / "large.csv").write_text(f"parcel_id,note\nx,first\n{rows}")
    code, _, err = await create(place, idle, "typed", "--items", "large.csv")
    assert code == 2, err
    assert "first line 2: parcel_id" in err


async def test_what_is_packed_already_is_sent_as_it_is(place: Place, idle: Served) -> None:
    (place.folder / "p.jsonl.gz").write_bytes(gzip.compress(b'{"parcel_id": "100"}\n{"parcel_id": "101"}\n'))
    code, out, err = await create(place, idle, "typed", "--items", "p.jsonl.gz", "--json")
    assert code == 0, err
    assert json.loads(out)["counts"]["total"] == 2


async def test_what_packs_to_almost_nothing_is_not_taken_for_a_bomb(place: Place, idle: Served) -> None:
    rows = f"100,{'x' * 4_000}\n" * 3_000
    (place.folder / "same.csv").write_text(f"parcel_id,note\n{rows}")
    code, out, err = await create(
        place, idle, "typed", "--items", "same.csv", "--duplicates", "keep-first", "--json", "--quiet"
    )
    assert code == 0, err
    assert json.loads(out)["loaded_rows"] == 3_000


@pytest.mark.req("I5")
async def test_a_key_that_may_not_delete_leaves_the_rows_before_and_says_so(place: Place) -> None:
    async with place.serving("--no-worker") as served:
        code, key, err = await place.run("keys", "create", "loader", "--scope", "submit")
        assert code == 0, err
        place.environment["SWATH_SERVICE_KEY"] = key.strip()
        file = write(place.folder, "bad.csv", 100, "x")
        code, _, err = await create(place, served, "typed", "--items", file, "--job-id", "job")
        assert code == 2
        assert "may not delete it" in err
        write(place.folder, "bad.csv", 100, 101)  # none of it was stored, so the corrected file is taken
        code, _, err = await create(place, served, "typed", "--items", file, "--job-id", "job")
        assert code == 0, err


@pytest.mark.req("N1", "Z7")
async def test_a_callback_that_may_not_be_reached_is_refused_here_as_there(place: Place, idle: Served) -> None:
    file = write(place.folder, "parcels.csv", 100)
    words = ("typed", "--items", file, "--job-id", "job", "--callback-url", "http://10.0.0.1/x")
    there = await create(place, idle, *words)
    here = await place.run("jobs", "create", *words)
    planned = await place.run("jobs", "create", *words, "--dry-run")
    for code, _, err in (there, here, planned):
        assert code == 2
        assert "10.0.0.1:80 is not to be reached from here" in err
    assert (await idle.ask("GET", "/jobs"))["jobs"] == []


@pytest.mark.req("Z7", "N1")
async def test_what_is_secret_in_a_callback_url_is_not_printed(place: Place, idle: Served) -> None:
    file, url = write(place.folder, "parcels.csv", 100), "http://127.0.0.1:9/own?token=geheim"
    words = ("typed", "--items", file, "--job-id", "job", "--callback-url", url, "--json")
    code, out, err = await place.run("jobs", "create", *words, SWATH_ALLOW_PRIVATE="127.0.0.1:9")
    assert code == 0, err
    assert json.loads(out)["callback_url"] == "http://127.0.0.1:9/own"
    for where in ((), ("--server", idle.url)):
        for command in (("status", "job"), ("list",)):
            code, out, err = await place.run("jobs", *command, "--json", *where)
            assert code == 0, err
            assert "/own" in out
            assert "geheim" not in out


@pytest.mark.req("C1")
async def test_both_spellings_of_what_to_do_about_duplicates_are_taken(place: Place) -> None:
    file = write(place.folder, "twice.csv", 100, 100)
    for spelled in ("keep-first", "keep_first"):
        words = ("typed", "--items", file, "--job-id", spelled, "--duplicates", spelled, "--json", "--quiet")
        code, out, err = await place.run("jobs", "create", *words)
        assert code == 0, err
        assert json.loads(out)["counts"]["total"] == 1

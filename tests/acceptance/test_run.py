"""`swath run` as a person uses it: to the end, from stdin, interrupted and gone on with, killed and gone on with."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from swath.demo.county import DemoCountyServer, FaultSettings, exists, parcel
from swath.entrypoints.cli.runtime import SAME_SIGNAL_SECONDS
from tests.acceptance.conftest import SWATH

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

PARCELS = [f"{n:03}-{n % 90:02}-{n * 7 % 900:03}" for n in range(60)]


def _csv(parcels: list[str]) -> str:
    return "\n".join(["parcel_id", *parcels])


def _status(shell: Shell, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shell.swath("jobs", "status", job_id, "--json").stdout)
    return found


@pytest.mark.req("C1", "K5", "R1", "R3", "R4", "J7")
async def test_a_county_is_scraped_truly_and_verifies(shell: Shell, county: DemoCountyServer) -> None:
    county.switches = FaultSettings(failure_rate=0.05, rate_429=0.03, retry_after_seconds=0, drop_rate=0.02, seed=5)
    shell.write("parcels.csv", _csv(PARCELS))
    shell.write("policy.yaml", "retries: {base_delay_seconds: 0.01, max_retries: 20}\nkeep: both\n")
    code, out, err = await shell.run(
        "run", "demo-county", "--items", "parcels.csv", "--job-id", "county", "--policy", "policy.yaml", "--json"
    )
    assert code == 0, err
    status = json.loads(out)
    there = [one for one in PARCELS if exists(one)]
    assert status["status"] == "completed"
    assert status["counts"]["success"] == 60
    assert status["counts"]["not_found"] == 60 - len(there)
    folder = shell.folder / "data" / "results" / "county"
    for one in there:
        record = json.loads((folder / "items" / one / "data.json").read_text())
        assert record["owner"] == parcel(one).owner
    assert (await shell.run("jobs", "verify", "county"))[0] == 0
    metadata = json.loads((folder / "job_metadata.json").read_text())
    assert metadata["counts"]["total"] == 60
    assert metadata["requests"] >= county.counters.requests - 60  # what was lost with a connection is not counted


@pytest.mark.req("J2", "C1")
def test_items_come_from_stdin_too(shell: Shell) -> None:
    lines = "\n".join(json.dumps({"item_id": f"x/{n}", "input": {"n": n}}) for n in range(5))
    done = shell.swath("run", "example-mock", "--items", "-", "--format", "jsonl", "--json", stdin=lines)
    assert done.returncode == 0, done.stderr
    job_id = json.loads(done.stdout)["job_id"]
    assert shell.swath("jobs", "verify", job_id).returncode == 0
    assert (shell.folder / "data" / "results" / job_id / "items" / "x%2F3" / "data.json").exists()


@pytest.mark.req("W2", "C1", "C2")
async def test_interrupted_by_a_person_it_goes_on_with_the_same_command(shell: Shell, county: DemoCountyServer) -> None:
    county.switches = FaultSettings(latency_ms=40)
    shell.write("parcels.csv", _csv(PARCELS))
    command = ("run", "demo-county", "--items", "parcels.csv", "--job-id", "again", "--concurrency", "4")
    first = await shell.start(*command)
    while county.counters.requests < 60:
        await asyncio.sleep(0.01)
    first.send_signal(signal.SIGINT)
    _, err = await asyncio.wait_for(first.communicate(), 60)
    assert first.returncode == 130
    assert b"run the same command again" in err
    half = _status(shell, "again")
    assert 0 < half["counts"]["success"] < 60
    assert half["counts"]["queued"] + half["counts"]["in_progress"] == 0  # everything was handed back
    code, _, err_text = await shell.run(*command)
    assert code == 0, err_text
    assert _status(shell, "again")["counts"]["success"] == 60
    assert (await shell.run("jobs", "verify", "again"))[0] == 0


@pytest.mark.req("Z1", "C1")
async def test_killed_it_goes_on_at_once_with_the_same_command(shell: Shell, county: DemoCountyServer) -> None:
    shell.environment["SWATH_LEASE_SECONDS"] = "600"  # only the dead process's file lock can free its leases in time
    county.switches = FaultSettings(latency_ms=40)
    shell.write("parcels.csv", _csv(PARCELS))
    command = ("run", "demo-county", "--items", "parcels.csv", "--job-id", "killed", "--concurrency", "4")
    first = await shell.start(*command)
    while county.counters.requests < 60:
        await asyncio.sleep(0.01)
    first.kill()
    await first.wait()
    code, _, err = await shell.run(*command)
    assert code == 0, err
    assert _status(shell, "killed")["counts"]["success"] == 60
    assert (await shell.run("jobs", "verify", "killed"))[0] == 0


@pytest.mark.req("J4", "C2")
@pytest.mark.parametrize(("scraper", "expected"), [("example-fail", ("failed", 4)), ("example-mock", ("completed", 0))])
def test_the_exit_code_says_how_the_job_ended(shell: Shell, scraper: str, expected: tuple[str, int]) -> None:
    shell.write("items.jsonl", '{"n": 1}\n{"n": 2}\n')
    shell.write("policy.json", '{"retries": {"max_retries": 1, "base_delay_seconds": 0.01}}')
    done = shell.swath("run", scraper, "--items", "items.jsonl", "--policy", "policy.json", "--json")
    assert (json.loads(done.stdout)["status"], done.returncode) == expected


@pytest.mark.req("R4", "C2")
def test_verify_exits_8_and_lists_what_is_wrong(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n2\n")
    shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "checked")
    assert shell.swath("jobs", "verify", "checked").returncode == 0
    (shell.folder / "data" / "results" / "checked" / "items" / "2" / "data.json").unlink()
    done = shell.swath("jobs", "verify", "checked")
    assert done.returncode == 8
    assert "items/2/data.json" in done.stdout


@pytest.mark.req("K3", "C1")
def test_a_scraper_in_a_file_runs_without_being_installed(shell: Shell) -> None:
    shell.write(
        "mine.py",
        "from swath import HttpScraper, Input, scraper\n\n"
        "class In(Input):\n    n: int\n\n"
        '@scraper("mine", version="3")\n'
        "class Mine(HttpScraper):\n    Input = In\n\n"
        "    async def fetch(self, item, web):\n        return {}\n\n"
        "    def extract(self, pages):\n        return {'answer': 42}\n",
    )
    shell.write("items.csv", "n\n1\n")
    done = shell.swath("run", "./mine.py", "--items", "items.csv", "--job-id", "m", "--json")
    assert done.returncode == 0, done.stderr
    data = shell.folder / "data" / "results" / "m" / "items" / "1" / "data.json"
    assert json.loads(data.read_text()) == {"answer": 42}


@pytest.mark.req("C1")
def test_lists_and_descriptions_are_there_for_people_and_machines(shell: Shell) -> None:
    assert "demo-county" in shell.swath("scraper", "list").stdout
    listed = json.loads(shell.swath("scraper", "list", "--json").stdout)
    assert {"example-mock", "example-http", "example-fail", "demo-county"} <= {one["scraper_id"] for one in listed}
    shown = json.loads(shell.swath("scraper", "show", "demo-county", "--json").stdout)
    assert "parcel_id" in shown["input"]["properties"]
    assert json.loads(shell.swath("jobs", "list", "--json").stdout) == []


@pytest.mark.req("W3")
def test_a_scraper_that_never_stops_costs_its_item_and_the_command_still_ends(shell: Shell) -> None:
    shell.write(
        "stubborn.py",
        "import asyncio\nfrom swath import HttpScraper, scraper\n\n"
        '@scraper("stubborn", version="1")\n'
        "class Stubborn(HttpScraper):\n"
        "    async def fetch(self, item, web):\n"
        "        while True:\n"
        "            try:\n                await asyncio.sleep(1)\n"
        "            except BaseException:\n                pass\n",
    )
    shell.write("items.csv", "n\n1\n")
    shell.write("policy.yaml", "timeouts: {item_seconds: 0.2}\nretries: {max_retries: 0}\n")
    done = shell.swath("run", "./stubborn.py", "--items", "items.csv", "--policy", "policy.yaml", "--json")
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["failures"] == {"timeout": 1}


BLOCKING = """
import time
from swath import HttpScraper, scraper

@scraper("blocking", version="1")
class Blocking(HttpScraper):
    async def fetch(self, item, web):
        open("began", "w").close()
        while True:
            time.sleep(0.01)
"""


@pytest.mark.req("W2", "W3")
async def test_a_second_signal_ends_even_a_worker_whose_scraper_never_lets_go(shell: Shell) -> None:
    shell.write("blocking.py", BLOCKING)
    shell.write("items.csv", "n\n1\n")
    process = await shell.start("run", "./blocking.py", "--items", "items.csv", "--job-id", "stuck")
    while not (shell.folder / "began").exists():
        await asyncio.sleep(0.02)
    process.terminate()
    assert process.stderr is not None
    while b"swath: " not in (line := await process.stderr.readline()):  # until it has heard the first
        assert line
    await asyncio.sleep(2 * SAME_SIGNAL_SECONDS)  # sooner, the second would count as one with the first
    assert process.returncode is None  # the grace period
    process.terminate()
    assert await asyncio.wait_for(process.wait(), 60) == 130


@pytest.mark.req("R4", "C2")
def test_verify_of_a_store_that_cannot_be_read_exits_8_and_says_so(shell: Shell) -> None:
    shell.write("items.csv", "n\n1\n")
    shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "damaged")
    with closing(sqlite3.connect(shell.folder / "data" / "swath.db")) as db, db:
        db.execute("UPDATE outcomes SET ended = '{}'")
    done = shell.swath("jobs", "verify", "damaged", "--json")
    assert done.returncode == 8, done.stderr
    assert json.loads(done.stdout)["found"] == {"store_damaged": 1}


@pytest.mark.req("C2")
def test_closed_standard_files_and_a_foreign_exit_are_no_surprise(shell: Shell) -> None:
    closed = subprocess.run(
        ["/bin/sh", "-c", f"{SWATH} jobs list >&-"],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert closed.returncode in {0, 1}
    shell.write("leaving.py", "import sys\nsys.exit(0)\n")
    shell.write("items.csv", "n\n1\n")
    assert shell.swath("run", "./leaving.py", "--items", "items.csv").returncode in {1, 2}


@pytest.mark.req("C2")
def test_a_reader_that_has_gone_is_no_error_worth_a_line(shell: Shell) -> None:
    piped = subprocess.run(
        ["/bin/sh", "-c", f"{SWATH} --help | true"],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert b"internal" not in piped.stderr

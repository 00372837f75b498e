"""Z10: the store's file under running processes: one is frozen in a transaction, or the file is gone or replaced."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.freezing import freeze_in_transaction

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

pytestmark = pytest.mark.req("Z10", "Z5")

PATIENCE_SECONDS = 90.0

SLOW = """
import asyncio
from swath import HttpScraper, scraper

@scraper("slow", version="1")
class Slow(HttpScraper):
    async def fetch(self, item, web):
        await asyncio.sleep(0.02)
        return {}

    def extract(self, pages):
        return {"text": "x" * 400}
"""


@pytest.fixture
def data(shell: Shell) -> Path:
    """The data folder, beside a slow scraper and a list for it."""
    shell.write("slow.py", SLOW)
    shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(600)))
    return Path(shell.environment["SWATH_DATA"])


async def _until(told: Callable[[], Any], what: str) -> Any:
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while not (found := told()):
        assert asyncio.get_running_loop().time() < deadline, f"waited in vain until {what}"
        await asyncio.sleep(0.02)
    return found


async def _status(shell: Shell, job_id: str) -> Any:
    code, out, err = await shell.run("jobs", "status", job_id, "--json")
    assert code == 0, err
    return json.loads(out)


async def _ended(process: Process) -> tuple[int | None, str, str]:
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    return process.returncode, out.decode(), err.decode()


async def _said(process: Process, wanted: str) -> None:
    """Reads its stderr up to a line that has it."""
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while wanted not in (line := (await process.stderr.readline()).decode()):
            assert line, f"it ended and never said {wanted!r}"


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="only Linux says who holds a lock")
@pytest.mark.req("Z9", "J7", "C2")
async def test_a_worker_frozen_in_a_transaction_is_named_by_all_who_wait_for_it(shell: Shell, data: Path) -> None:
    shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(2_000)))
    loaded = shell.swath("jobs", "create", "./slow.py", "--items", "items.csv", "--job-id", "one", "--concurrency", "8")
    assert loaded.returncode == 0, loaded.stderr
    watcher = await shell.start("jobs", "watch", "one")
    await _said(watcher, "pending")
    worker = await shell.start("worker")
    await _until(lambda: list(data.glob("results/one/items/*")), "items end")
    await asyncio.to_thread(freeze_in_transaction, worker.pid, data / "swath.db")
    named = f"pid {worker.pid} (swath worker), stopped (T)"

    status = await _status(shell, "one")
    assert (status["waiting_for"], status["held_by"]) == ("store", named)
    assert f"waiting for the store, which is held by {named}" in shell.swath("jobs", "status", "one").stdout
    await _said(watcher, named)
    doctor = shell.swath("doctor", "--json")
    assert doctor.returncode == 1
    (found,) = (one for one in json.loads(doctor.stdout)["checks"] if one["check"] == "store")
    assert found["level"] == "fail"
    assert named in found["message"]
    assert f"kill -CONT {worker.pid}" in found["advice"]
    other = shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "other")
    assert other.returncode == 1
    assert f"is locked by {named}" in other.stderr

    second = await shell.start("worker")
    await _said(second, f"waiting_for: store (the store {data / 'swath.db'} is locked by {named}")
    os.kill(worker.pid, signal.SIGCONT)
    code, out, err = await _ended(watcher)
    assert code == 0, err
    assert "2,000 success" in out
    status = await _status(shell, "one")
    assert (status["status"], status["waiting_for"], status["held_by"]) == ("completed", None, None)
    assert shell.swath("jobs", "verify", "one").returncode == 0


def _remove(data: Path) -> None:
    (data / "swath.db").unlink()


def _replace(data: Path) -> None:
    shutil.copy(data / "swath.db", data / "copy.db")
    (data / "copy.db").rename(data / "swath.db")


def _workers(data: Path) -> int:
    return len(list(data.glob("workers/*.lock")))


def _move_folder(data: Path) -> None:
    data.rename(data.with_name("moved"))
    data.mkdir(exist_ok=True)  # the run may have made it meanwhile, and still moves results
    for file in data.with_name("moved").glob("swath.db*"):
        shutil.copy(file, data)


def _empty(data: Path) -> None:
    os.truncate(data / "swath.db", 0)


def _remove_log(data: Path) -> None:
    (data / "swath.db-wal").unlink()


def _stopped_in_one_line(err: str, what: str) -> None:
    lines = [line for line in err.splitlines() if line.startswith("swath: ")]
    assert len(lines) == 1, err
    assert re.search(f"was {what} while it was in use", lines[0]), err
    assert "Traceback" not in err
    assert "ERROR" not in err


@pytest.mark.req("C2", "J4")
@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (_remove, "removed"),
        (_replace, "replaced by another file"),
        (_move_folder, "(removed|replaced by another file)"),
        (_empty, "emptied"),
        (_remove_log, "removed"),
    ],
)
async def test_a_run_whose_store_is_gone_stops_and_reports_nothing(
    shell: Shell, data: Path, harm: Callable[[Path], None], what: str
) -> None:
    command = ("run", "./slow.py", "--items", "items.csv", "--job-id", "one", "--concurrency", "4")
    process = await shell.start(*command)
    await _until(lambda: list(data.glob("results/one/items/*")), "items end")
    harm(data)
    code, out, err = await _ended(process)
    assert (code, out) == (1, ""), err
    _stopped_in_one_line(err, what)
    assert not list(shell.folder.glob("*/results/one/job_metadata.json"))
    if harm is _move_folder:  # all is where it was moved to, and goes on there
        shutil.rmtree(data)
        data.with_name("moved").rename(data)
        again = shell.swath(*command)
        assert again.returncode == 0, again.stderr
        assert shell.swath("jobs", "verify", "one").returncode == 0


@pytest.mark.req("W4")
@pytest.mark.parametrize("arguments", [(), ("--processes", "2")], ids=["one process", "two processes"])
async def test_workers_whose_store_is_gone_stop_and_make_no_new_one(
    shell: Shell, data: Path, arguments: tuple[str, ...]
) -> None:
    loaded = shell.swath("jobs", "create", "./slow.py", "--items", "items.csv", "--job-id", "one")
    assert loaded.returncode == 0, loaded.stderr
    process = await shell.start("worker", *arguments)
    await _until(lambda: list(data.glob("results/one/items/*")), "items end")
    await _until(lambda: _workers(data) == (2 if arguments else 1), "every process has the store open")
    (data / "swath.db").rename(data / "elsewhere.db")
    code, _, err = await _ended(process)
    assert code == 1, err
    assert f"{data / 'swath.db'} was removed while it was in use" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (data / "swath.db").exists()


@pytest.mark.req("W4")
async def test_a_worker_of_another_process_makes_no_new_store(shell: Shell, data: Path) -> None:
    """It may start when the store that its parent has opened is already gone."""
    data.mkdir(exist_ok=True)
    process = await shell.start("worker", "--with-parent")
    code, _, err = await _ended(process)
    assert code == 1, err
    _stopped_in_one_line(err, "removed")
    assert not (data / "swath.db").exists()


@pytest.mark.req("I4")
@pytest.mark.parametrize("arguments", [(), ("--no-worker",), ("--workers", "2")], ids=["one worker", "none", "two"])
async def test_a_controller_whose_store_is_gone_ends(shell: Shell, data: Path, arguments: tuple[str, ...]) -> None:
    process = await shell.start("serve", "--port", "0", *arguments)
    assert process.stdout is not None
    listening = (await asyncio.wait_for(process.stdout.readline(), PATIENCE_SECONDS)).decode()
    url = re.search(r"http://[^;\s]+", listening)
    assert url is not None, listening
    working = 0 if "--no-worker" in arguments else 2 if "--workers" in arguments else 1
    await _until(lambda: _workers(data) >= working, "every process has the store open")
    (data / "swath.db").rename(data / "elsewhere.db")
    said: set[int] = set()
    async with httpx.AsyncClient(base_url=url[0], timeout=PATIENCE_SECONDS) as client:
        with contextlib.suppress(httpx.TransportError):  # it has ended
            while True:
                said.add((await client.get("/readiness")).status_code)
                await asyncio.sleep(0.02)
    assert said <= {200, 503}  # what was known a second ago still counts
    code, _, err = await _ended(process)
    assert code == 1, err
    assert f"{data / 'swath.db'} was removed while it was in use" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert not (data / "swath.db").exists()


@pytest.mark.req("C2")
def test_a_store_without_its_schema_row_is_one_line(shell: Shell, data: Path) -> None:
    assert shell.swath("run", "example-mock", "--items", "items.csv", "--limit", "1").returncode == 0
    with closing(sqlite3.connect(data / "swath.db")) as db, db:
        db.execute("DELETE FROM meta WHERE key = 'schema'")
    for command in (["jobs", "list"], ["run", "example-mock", "--items", "items.csv"], ["worker"]):
        done = shell.swath(*command)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert "is no store of Swath, or a damaged one" in done.stderr

"""J5, C1: what a person does to a job: watch it, pause, resume, change, cancel, retry and delete it."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sqlite3
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from swath.demo.county import DemoCountyServer, FaultSettings
from tests.acceptance.conftest import SWATH

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

PARCELS = [f"{n:03}-{n % 90:02}-{n * 7 % 900:03}" for n in range(120)]


SLOW = """
import asyncio
from pathlib import Path
from swath import HttpScraper, scraper

@scraper("slow", version="1")
class Slow(HttpScraper):
    async def fetch(self, item, web):
        Path("began").touch()
        await asyncio.sleep(1)
        return {}

    def extract(self, pages):
        return {}
"""


def _json(shell: Shell, *command: str) -> Any:
    done = shell.swath(*command, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def _status(shell: Shell, job_id: str) -> dict[str, Any]:
    code, out, err = await shell.run("jobs", "status", job_id, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def _numbers(shell: Shell, items: int) -> None:
    shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(items)))


@pytest.fixture
def parcels(shell: Shell) -> str:
    return str(shell.write("parcels.csv", "\n".join(["parcel_id", *PARCELS])))


@pytest.mark.req("J5", "C1", "S1")
async def test_a_running_job_is_paused_changed_resumed_and_watched_to_its_end(
    shell: Shell, county: DemoCountyServer, parcels: str
) -> None:
    county.switches = FaultSettings(latency_ms=25)
    running = await shell.start("run", "demo-county", "--items", parcels, "--job-id", "j", "--concurrency", "4")
    while county.counters.requests < 20:
        await asyncio.sleep(0.01)
    code, out, err = await shell.run("jobs", "pause", "j")
    assert code == 0, err
    assert "swath jobs resume j" in out
    while (paused := await _status(shell, "j"))["counts"]["in_progress"] + paused["counts"]["queued"]:
        pass
    assert paused["status"] == "paused"
    requests = county.counters.requests
    assert (await shell.run("jobs", "policy", "j", "--concurrency", "2"))[0] == 0
    assert county.counters.requests == requests  # nothing started
    watching = await shell.start("jobs", "watch", "j", "--json")
    assert watching.stdout is not None
    assert json.loads(await asyncio.wait_for(watching.stdout.readline(), 60))["status"] == "paused"
    assert (await shell.run("jobs", "resume", "j"))[0] == 0
    watched, _ = await asyncio.wait_for(watching.communicate(), 60)
    assert watching.returncode == 0
    seen = [json.loads(line) for line in watched.splitlines()]
    assert seen[-1]["status"] == "completed"
    assert all(one["counts"]["queued"] + one["counts"]["in_progress"] <= 2 for one in seen)
    _, told = await asyncio.wait_for(running.communicate(), 60)
    assert running.returncode == 0
    assert b"is paused; waiting for `" in told
    # The command that began it still finds it, although its policy is another one now.
    assert (await shell.run("run", "demo-county", "--items", parcels, "--job-id", "j", "--concurrency", "4"))[0] == 0
    assert (await shell.run("jobs", "verify", "j"))[0] == 0


@pytest.mark.req("C1", "C2")
async def test_an_interrupted_watch_leaves_the_job_alone(shell: Shell) -> None:
    _numbers(shell, 3)
    assert shell.swath("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "w").returncode == 0
    watching = await shell.start("jobs", "watch", "w", "--json")
    assert watching.stdout is not None
    assert json.loads(await watching.stdout.readline())["status"] == "pending"
    watching.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(watching.wait(), 60) == 130
    assert (await _status(shell, "w"))["status"] == "pending"


@pytest.mark.req("J5")
async def test_a_job_is_cancelled_and_ends_with_nobody_working_on_it(shell: Shell) -> None:
    _numbers(shell, 30)
    assert shell.swath("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "c").returncode == 0
    status = _json(shell, "jobs", "cancel", "c")
    assert (status["status"], status["counts"]["cancelled"]) == ("cancelled", 30)
    assert shell.swath("jobs", "verify", "c").returncode == 0
    assert _json(shell, "jobs", "item", "c", "7")["reason"] == "cancelled"
    assert _json(shell, "jobs", "cancel", "c")["status"] == "cancelled"  # again: nothing changes


@pytest.mark.req("J5")
async def test_a_running_job_is_cancelled_what_runs_finishes_and_the_books_balance(
    shell: Shell, county: DemoCountyServer, parcels: str
) -> None:
    """Property 11: cancelling stops what has not started and leaves what runs."""
    county.switches = FaultSettings(latency_ms=25)
    running = await shell.start("run", "demo-county", "--items", parcels, "--job-id", "x", "--concurrency", "4")
    while county.counters.requests < 30:
        await asyncio.sleep(0.01)
    code, out, err = await shell.run("jobs", "cancel", "x", "--json")
    assert code == 0, err
    counts = json.loads(out)["counts"]
    assert json.loads(out)["status"] == "cancelled"
    assert counts["cancelled"] > 0
    assert counts["success"] > 0
    assert counts["failed"] == 0
    assert await asyncio.wait_for(running.wait(), 60) == 3
    assert (await shell.run("jobs", "verify", "x"))[0] == 0


@pytest.mark.req("J5", "J7", "R8")
async def test_failed_items_are_run_again_as_a_new_generation(
    shell: Shell, county: DemoCountyServer, parcels: str
) -> None:
    shell.write("policy.yaml", "retries: {max_retries: 0}\ncircuit_breaker: {failure_threshold_percentage: 1}\n")
    county.switches = FaultSettings(failure_rate=0.1, seed=3)
    code, out, _ = await shell.run(
        "run", "demo-county", "--items", parcels, "--job-id", "r", "--policy", "policy.yaml", "--json"
    )
    first = json.loads(out)
    assert code == 3
    failed = first["counts"]["failed"]
    assert failed > 0
    county.switches = FaultSettings()
    code, out, err = await shell.run("jobs", "retry", "r", "--kind", "server_error")
    assert code == 0, err
    assert "swath run --job-id r" in out
    waiting = await _status(shell, "r")
    assert (waiting["generation"], waiting["status"], waiting["counts"]["pending"]) == (2, "pending", failed)
    code, out, err = await shell.run("run", "--job-id", "r", "--json")
    assert code == 0, err
    second = json.loads(out)
    assert (second["generation"], second["counts"]["success"], second["failures"]) == (2, 120, {})
    assert (await shell.run("jobs", "verify", "r"))[0] == 0
    retried = None
    for parcel in PARCELS:
        item = json.loads((await shell.run("jobs", "item", "r", parcel, "--json"))[1])
        if item["generation"] == 2:
            retried = item
            break
    assert retried is not None
    assert retried["state"] == "success"
    assert [(past["generation"], past["end"]["failure"]["kind"]) for past in retried["earlier"]] == [
        (1, "server_error")
    ]
    told = (await shell.run("jobs", "item", "r", retried["item_id"]))[1]
    assert "generation 1:  failed, server_error" in told
    assert f"{shell.folder}/data/results/r/{retried['artifacts'][0]['key']}" in told


@pytest.mark.req("J5")
def test_items_are_run_again_by_id_and_by_time(shell: Shell) -> None:
    _numbers(shell, 5)
    assert shell.swath("run", "example-mock", "--items", "items.csv", "--job-id", "t").returncode == 0
    wrong = shell.swath("jobs", "retry", "t", "--items", "-", stdin="1\n3\nno-such-item\nnor-this\n")
    assert wrong.returncode == 2
    assert all(part in wrong.stderr for part in ("'no-such-item'", "'nor-this'", "2 of 4 ids"))
    assert "item_id" not in wrong.stderr
    table = shell.swath("jobs", "retry", "t", "--items", "-", stdin="id,why\n1,so\n3,so\n")
    assert table.returncode == 2
    assert "needs one called item_id" in table.stderr
    assert _json(shell, "jobs", "status", "t")["generation"] == 1  # nothing was begun
    by_id = shell.swath("jobs", "retry", "t", "--items", "-", "--json", stdin="1\n3\n")
    assert json.loads(by_id.stdout)["counts"]["pending"] == 2
    assert shell.swath("run", "--job-id", "t").returncode == 0
    nothing = shell.swath("jobs", "retry", "t", "--failed")
    assert nothing.returncode == 2
    assert nothing.stderr.startswith("swath: ")
    again = _json(shell, "jobs", "retry", "t", "--since", "1h", "--run")
    assert (again["generation"], again["status"], again["counts"]["success"]) == (3, "completed", 5)
    assert shell.swath("jobs", "retry", "t", "--since", "2999-01-01").returncode == 2
    assert shell.swath("jobs", "verify", "t").returncode == 0


@pytest.mark.req("J5")
def test_a_job_in_the_store_keeps_what_it_was_loaded_with(shell: Shell) -> None:
    _numbers(shell, 2)
    assert shell.swath("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "s").returncode == 0
    refused = shell.swath("run", "example-mock", "--job-id", "s", "--concurrency", "3")
    assert refused.returncode == 2
    assert "jobs policy s" in refused.stderr
    assert shell.swath("run", "--job-id", "s").returncode == 0


@pytest.mark.req("J5", "C1")
def test_a_policy_is_shown_whole_and_changed_in_part(shell: Shell) -> None:
    _numbers(shell, 2)
    shell.write("policy.yaml", "retries: {max_retries: 7}\n")
    create = ("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "p", "--policy", "policy.yaml")
    assert shell.swath(*create).returncode == 0
    assert _json(shell, "jobs", "policy", "p")["retries"]["max_retries"] == 7
    shown = shell.swath("jobs", "policy", "p").stdout
    assert "max_retries: 7" in shown
    changed = shell.swath("jobs", "policy", "p", "--concurrency", "3")
    assert changed.stdout == "throttling.max_concurrent_workers: 8 → 3\n"
    assert _json(shell, "jobs", "policy", "p")["retries"]["max_retries"] == 7
    assert "already" in shell.swath("jobs", "policy", "p", "--concurrency", "3").stdout
    (shell.folder / "shown.yaml").write_text(shown)
    back = shell.swath("jobs", "policy", "p", "--policy", "shown.yaml")  # what was printed can be given again
    assert back.stdout == "throttling.max_concurrent_workers: 3 → 8\n"


@pytest.mark.req("J5", "C1")
def test_a_job_is_deleted_with_everything_after_asking(shell: Shell) -> None:
    _numbers(shell, 5)
    run = ("run", "example-mock", "--items", "items.csv", "--job-id", "d")
    assert shell.swath(*run).returncode == 0
    refused = shell.swath("jobs", "delete", "d")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert _asked(shell, "n\n") == 0
    assert (shell.folder / "data" / "results" / "d").exists()
    assert _asked(shell, "y\n") == 0
    assert not (shell.folder / "data" / "results" / "d").exists()
    assert shell.swath("jobs", "status", "d").returncode == 7
    assert shell.swath(*run).returncode == 0  # the id is free again
    assert _json(shell, "jobs", "delete", "d", "--yes") == {"job_id": "d", "deleted": True}


def _asked(shell: Shell, answer: str) -> int:
    """The command on a terminal, with a person who answers."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [str(SWATH), "jobs", "delete", "d"],
            cwd=shell.folder,
            env=shell.environment,
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.write(ours, answer.encode())
        return process.wait(timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.req("J5")
def test_a_job_that_has_not_ended_is_not_deleted(shell: Shell) -> None:
    _numbers(shell, 5)
    assert shell.swath("jobs", "create", "example-mock", "--items", "items.csv", "--job-id", "d").returncode == 0
    refused = shell.swath("jobs", "delete", "d", "--yes")
    assert refused.returncode == 2
    assert "cancel" in refused.stderr


@pytest.mark.req("S4", "C2")
def test_a_circuit_that_pauses_ends_the_command_with_5_and_what_to_do(shell: Shell) -> None:
    _numbers(shell, 10)
    shell.write(
        "policy.yaml",
        "circuit_breaker: {min_requests: 5, failure_threshold_percentage: 0.8, on_open: pause}\n"
        "retries: {max_retries: 0}\n",
    )
    run = ("run", "example-fail", "--items", "items.csv", "--job-id", "p", "--policy", "policy.yaml")
    first = shell.swath(*run)
    assert first.returncode == 5, first.stderr
    assert first.stdout == ""
    told = first.stderr.splitlines()[-1]
    assert "circuit open: 5 of the last 5 items failed" in told
    assert "swath jobs resume p" in told
    assert shell.swath(*run).returncode == 5  # nothing changes by itself
    assert shell.swath("jobs", "watch", "p").returncode == 5
    assert _json(shell, "jobs", "resume", "p")["circuit"] == {"state": "closed", "reason": None}
    last = shell.swath(*run, "--json")
    status = json.loads(last.stdout)
    assert (last.returncode, status["status"], status["counts"]["failed"]) == (5, "failed", 10)


@pytest.mark.req("J5", "C2")
def test_a_deletion_that_nobody_goes_on_with_is_said_with_what_finishes_it(shell: Shell) -> None:
    _numbers(shell, 1)
    run = ("run", "example-mock", "--items", "items.csv", "--job-id", "my job")
    assert shell.swath(*run).returncode == 0
    with closing(sqlite3.connect(shell.folder / "data" / "swath.db")) as db, db:  # as if the process had died
        db.execute("UPDATE jobs SET deleting = 1, delete_at = 0")
    for command in (run, ("jobs", "retry", "my job", "--since", "1h")):
        refused = shell.swath(*command)
        assert refused.returncode == 2
        assert "`swath jobs delete 'my job' --yes`" in refused.stderr
    deleted = shell.swath("jobs", "delete", "my job", "--yes")
    assert deleted.stdout == "job my job is deleted: 1 item and all their files\n"
    assert shell.swath(*run).returncode == 0


@pytest.mark.req("W3", "C2")
async def test_two_signals_at_once_are_one_wish(shell: Shell) -> None:
    """GNU `timeout` signals the command, and then its whole group."""
    shell.write("slow.py", SLOW)
    _numbers(shell, 1)
    process = await shell.start("run", "./slow.py", "--items", "items.csv", "--job-id", "two")
    while not (shell.folder / "began").exists():
        await asyncio.sleep(0.02)
    process.terminate()
    process.send_signal(signal.SIGINT)  # two of a kind that wait together would be heard as one
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert b"stopped at once" not in err
    assert err.count(b"swath: stopping") == 1
    assert (await _status(shell, "two"))["counts"]["success"] == 1  # what ran had time to finish

"""A job whose end kills every worker that tries it: real processes, killed at a step of the ending each time."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from harness.armed_cli import KILLED
from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.job import EndingStep
from swath.domain.transitions import JobState
from tests.acceptance.conftest import Shell

pytestmark = pytest.mark.req("S6", "Z10", "J7")

DEATHS = 5  # from so many on some ten minutes pass before the next try


def a_list(shell: Shell, name: str, column: str = "parcel_id", items: int = 3) -> str:
    (shell.folder / name).write_text(f"{column}\n" + "".join(f"100-10-00{n}\n" for n in range(items)))
    return name


def status(shell: Shell, job_id: str) -> dict[str, Any]:
    found = shell.swath("jobs", "status", job_id, "--json")
    assert found.returncode == 0, found.stderr
    shown: dict[str, Any] = json.loads(found.stdout)
    return shown


async def deadly_worker(shell: Shell) -> asyncio.subprocess.Process:
    """A worker that dies when it comes to remove what a retry has replaced."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "harness.armed_cli", "--", "worker"),
        cwd=shell.folder,
        env=shell.environment | {"SWATH_CRASH_AT": "before_pack_removal:1"},
        stderr=asyncio.subprocess.DEVNULL,
    )


async def test_an_ending_that_kills_its_worker_is_put_off_and_other_jobs_go_on(shell: Shell) -> None:
    given = a_list(shell, "parcels.csv")
    words = ("--items", given, "--job-id", "deadly", "--layout", "warc")
    assert shell.swath("run", "example-mock", *words, "--quiet").returncode == 0
    retried = shell.swath("jobs", "retry", "deadly", "--items", a_list(shell, "ids.csv", "item_id"))
    assert retried.returncode == 0, retried.stderr
    store = SqliteStore.open(shell.folder / "data", SystemClock())
    async with asyncio.timeout(150):
        for _ in range(DEATHS):
            worker = await deadly_worker(shell)
            while worker.returncode is None:
                await store.resume("deadly")  # or this would take minutes
                await asyncio.sleep(0.05)
            assert worker.returncode == KILLED
        created = shell.swath("jobs", "create", "example-mock", "--items", given, "--job-id", "other")
        assert created.returncode == 0, created.stderr
        worker = await deadly_worker(shell)
        while (await store.status("other")).state is not JobState.COMPLETED:
            assert worker.returncode is None, "the ending was tried again at once"
            await asyncio.sleep(0.05)
        assert worker.returncode is None
        worker.terminate()
        await worker.wait()
    ending = (await store.status("deadly")).ending
    await store.close()
    assert ending is not None
    assert (ending.step, ending.deaths) == (EndingStep.PUT_OFF, DEATHS)
    told = shell.swath("jobs", "status", "deadly").stdout
    assert f"its ending has killed a worker {DEATHS} times" in told
    assert "jobs resume deadly" in told
    _goes_on_when_a_person_says_so(shell)


def _goes_on_when_a_person_says_so(shell: Shell) -> None:
    assert shell.swath("jobs", "resume", "deadly").returncode == 0
    ran = shell.swath("run", "--job-id", "deadly", "--quiet")
    assert ran.returncode == 0, ran.stderr
    assert status(shell, "deadly")["ending"] is None
    verified = shell.swath("jobs", "verify", "deadly")
    assert verified.returncode == 0, verified.stdout

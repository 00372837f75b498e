"""Z10: a process that was stopped or suspended for long goes on when it wakes up."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from typing import TYPE_CHECKING

import pytest

from tests.support.freezing import is_stopped, until

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

DELETES = """
import asyncio, sys
from pathlib import Path
from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore

async def main(folder, lease_seconds):
    store = SqliteStore.open(Path(folder), SystemClock(), float(lease_seconds))
    await store.delete("job")
    assert await store.claim_deletion("deleter", "job") is not None
    print("claimed", flush=True)
    sys.stdin.read()

asyncio.run(main(*sys.argv[1:]))
"""
STANDSTILL_SECONDS = 6.0  # a busy machine may keep an import from giving the loop back for some seconds
SHORT = {"SWATH_STANDSTILL_SECONDS": str(STANDSTILL_SECONDS), "SWATH_HEARTBEAT_SECONDS": "0.2"}


async def _says(process: Process, wanted: str) -> None:
    """Reads its stderr up to a line that has it."""
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while wanted not in (line := (await process.stderr.readline()).decode()):
            assert line, f"it ended without {wanted!r}"


def _freeze_for_long(processes: list[Process]) -> None:
    for process in processes:
        os.kill(process.pid, signal.SIGSTOP)
    for process in processes:
        until(lambda pid=process.pid: is_stopped(pid), "it stops")  # type: ignore[misc]
    over = time.clock_gettime(time.CLOCK_BOOTTIME) + 2 * STANDSTILL_SECONDS
    until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > over, "a standstill would be over")
    for process in processes:
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.req("Z10", "W4")
async def test_a_worker_and_a_controller_that_were_frozen_for_long_go_on(shell: Shell) -> None:
    items = shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(20)))
    worker = await shell.start("worker", "--metrics-port", "0", SWATH_SCRAPERS="", **SHORT)
    await _says(worker, "metrics on")
    controller = await shell.start("serve", "--port", "0", SWATH_LOG_LEVEL="INFO", **SHORT)
    await _says(controller, "http://")
    await asyncio.to_thread(_freeze_for_long, [worker, controller])
    code, _, err = await shell.run("jobs", "create", "example-mock", "--items", str(items), "--job-id", "job")
    assert code == 0, err
    code, _, err = await shell.run("jobs", "watch", "job")
    assert code == 0, err
    assert json.loads((await shell.run("jobs", "status", "job", "--json"))[1])["counts"]["success"] == 20
    for process in (worker, controller):
        process.terminate()
        _, told = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, told.decode()
        assert "blocks the event loop" not in told.decode()


@pytest.mark.req("Z10", "J7")
@pytest.mark.parametrize(("number", "lease_seconds"), [(signal.SIGKILL, "36000"), (signal.SIGSTOP, "3")])
async def test_a_deletion_is_taken_over_at_once_from_the_dead_and_says_that_it_waits_for_the_frozen(
    shell: Shell, number: signal.Signals, lease_seconds: str
) -> None:
    items = shell.write("items.csv", "n\n1\n2\n")
    assert (await shell.run("run", "example-mock", "--items", str(items), "--job-id", "job", "--quiet"))[0] == 0
    first = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DELETES, str(shell.folder / "data"), lease_seconds, stdin=PIPE, stdout=PIPE
    )
    try:
        assert first.stdout is not None
        assert await asyncio.wait_for(first.stdout.readline(), 60) == b"claimed\n"
        first.send_signal(number)
        if number is signal.SIGKILL:
            await first.wait()
        code, out, err = await shell.run("jobs", "delete", "job", "--yes")
        assert (code, out.strip()) == (0, "job job is deleted: 2 items and all their files"), err
        told = "waiting for another process that deletes job job"
        assert (told in err) == (number is signal.SIGSTOP), err
        if number is signal.SIGSTOP:
            assert re.search(r"its lease is over by \d\d:\d\d:\d\d UTC", err)
            assert "the lease of deleter is over; deleting job job" in err
    finally:
        if first.returncode is None:
            first.kill()
        await asyncio.wait_for(first.communicate(), 60)

"""W4: one command that works in several processes, replaces those that die, and leaves none behind."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

SLEEPER = """
import asyncio
from swath import HttpScraper, scraper

@scraper("sleeper", version="1")
class Sleeper(HttpScraper):
    async def fetch(self, item, web):
        await asyncio.sleep(0.02)
        return None
"""


def _workers(shell: Shell) -> frozenset[int]:
    """The processes that have a lock file and are alive: a worker's id ends in its process and a little chance."""
    pids = {int(path.stem.split("-")[-2]) for path in (shell.folder / "data" / "workers").glob("*.lock")}
    return frozenset(pid for pid in pids if not _is_gone(pid))


def _is_gone(pid: int) -> bool:
    with suppress(OSError):  # a zombie is gone too
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


async def _until_workers(shell: Shell, number: int, without: frozenset[int] = frozenset()) -> frozenset[int]:
    async with asyncio.timeout(60):
        while len(found := _workers(shell) - without) != number:
            await asyncio.sleep(0.02)
    return found


async def _create(shell: Shell, items: int) -> None:
    shell.write("sleeper.py", SLEEPER)
    shell.write("items.csv", "\n".join(["n", *map(str, range(items))]))
    order = (
        "jobs",
        "create",
        "sleeper.py",
        "--items",
        "items.csv",
        "--job-id",
        "many",
        "--concurrency",
        "6",
        "--quiet",
    )
    code, _, err = await shell.run(*order)
    assert code == 0, err


async def _ended(shell: Shell) -> tuple[str, int, set[str]]:
    """State, successes, and which workers had a hand in it."""
    store = SqliteStore.open(shell.folder / "data", SystemClock())
    try:
        async with asyncio.timeout(250):
            while not (status := await store.status("many")).state.terminal:
                await asyncio.sleep(0.05)
        items = await store.items("many")
        return status.state.value, status.counts.success, {item.attempts[-1].worker for item in items}
    finally:
        await store.close()


@pytest.mark.req("W4", "W2")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_several_processes_share_a_job_and_stop_with_the_command(shell: Shell, number: signal.Signals) -> None:
    process = await shell.start("worker", "--processes", "3")
    pids = await _until_workers(shell, 3)
    await _create(shell, 1_000)
    state, success, workers = await _ended(shell)
    assert (state, success, len(workers)) == ("completed", 1_000, 3)
    process.send_signal(number)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err
    assert not _workers(shell) & pids
    assert "worker 1" not in err.decode()  # a death is worth a line, a proper end is not
    assert (await shell.run("jobs", "verify", "many"))[0] == 0


@pytest.mark.req("W4", "Z7")
async def test_no_process_imports_what_somebody_has_put_into_the_current_folder(shell: Shell) -> None:
    """As another user may in /tmp, for whoever starts a command there."""
    await _create(shell, 20)
    planted = f"open({str(shell.folder / 'imported')!r}, 'a').write(__name__)"
    (shell.folder / "swath").mkdir()
    for name in ("click.py", "msgspec.py", "swath/__init__.py"):
        shell.write(name, planted)
    process = await shell.start("worker", "--processes", "2")
    assert (await _ended(shell))[:2] == ("completed", 20)
    process.terminate()
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err
    assert not (shell.folder / "imported").exists()


@pytest.mark.req("W4", "Z1")
async def test_a_process_that_dies_is_replaced_and_nothing_is_lost(shell: Shell) -> None:
    await _create(shell, 300)
    process = await shell.start("worker", "--processes", "2")
    pids = await _until_workers(shell, 2)
    victim = min(pids)
    os.kill(victim, signal.SIGKILL)
    await _until_workers(shell, 1, without=pids)
    state, success, _ = await _ended(shell)
    assert (state, success) == ("completed", 300)
    process.terminate()
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    (line,) = [line for line in err.decode().splitlines() if "was killed" in line]
    assert f"(process {victim}) was killed by SIGKILL; starting another in 0.1 s" in line
    assert (await shell.run("jobs", "verify", "many"))[0] == 0


@pytest.mark.req("W4")
async def test_workers_do_not_outlive_the_command_however_it_ends(shell: Shell) -> None:
    await _create(shell, 3)
    process = await shell.start("worker", "--processes", "2")
    await _until_workers(shell, 2)
    process.kill()
    await process.wait()
    await _until_workers(shell, 0)


@pytest.mark.req("W4", "C2")
def test_a_mistake_is_said_once_before_anything_is_started(shell: Shell) -> None:
    done = shell.swath("worker", "--processes", "3", "--job", "nobody")
    assert done.returncode == 7
    assert done.stderr.count("\n") == 1
    assert shell.swath("worker", "--processes", "0").returncode == 2

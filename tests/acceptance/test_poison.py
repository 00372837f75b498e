"""S6: an input that kills its worker costs that one item and a handful of deaths, and nobody else is blamed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.failure import FailureKind
from swath.domain.transitions import ItemState, JobState

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

ITEMS = 400
POISON = 123

SCRAPER = f"""
import asyncio, os, sys, time
from swath import HttpScraper, Input, scraper

class In(Input):
    n: int

@scraper("deadly", version="1")
class Deadly(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        await asyncio.sleep(0.005)
        if item.n == {POISON}:
            await self.die()
        return None

    async def die(self):
        HOW
"""

HOW = {
    "at once": "os._exit(66)",
    "by a task that exits": "asyncio.create_task(self.exit()); await asyncio.sleep(5)\n\n    async def exit(self):\n"
    "        sys.exit(66)",
}


@pytest.mark.req("S6", "W4", "Z1")
@pytest.mark.parametrize("how", HOW)
async def test_one_deadly_input_among_many_ends_as_poison(shell: Shell, how: str) -> None:
    shell.write("deadly.py", SCRAPER.replace("HOW", HOW[how]))
    shell.write("items.csv", "\n".join(["n", *map(str, range(1, ITEMS + 1))]))
    code, _, err = await shell.run("jobs", "create", "deadly.py", "--items", "items.csv", "--job-id", "p", "--quiet")
    assert code == 0, err
    process = await shell.start("worker", "--processes", "2")
    store = SqliteStore.open(shell.folder / "data", SystemClock())
    try:
        async with asyncio.timeout(60):
            while not (status := await store.status("p")).state.terminal:
                await asyncio.sleep(0.05)
        items = await store.items("p")
    finally:
        await store.close()
    process.terminate()
    _, told = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    assert (status.state, status.failures) == (JobState.PARTIALLY_COMPLETED, {"poison": 1})
    deadly = items[POISON - 1]
    assert deadly.failure is not None
    assert (deadly.state, deadly.failure.kind, deadly.tries.crashes) == (ItemState.FAILED, FailureKind.POISON, 3)
    others = [item for item in items if item.seq != POISON]
    assert {item.state for item in others} == {ItemState.SUCCESS}
    assert {item.tries.crashes for item in others} == {0}
    assert 4 <= told.decode().count("; starting another in") <= 5
    assert (await shell.run("jobs", "verify", "p"))[0] == 0


@pytest.mark.req("S6", "W3", "W4")
async def test_an_input_that_never_gives_the_process_back_ends_as_poison_too(shell: Shell) -> None:
    shell.write("deadly.py", SCRAPER.replace("HOW", "time.sleep(1_000)"))
    shell.write("items.csv", "\n".join(["n", *map(str, range(POISON - 5, POISON + 5))]))
    shell.write("policy.yaml", "timeouts: {item_seconds: 3}")  # wide enough for items that are well, on a busy machine
    create = ("jobs", "create", "deadly.py", "--items", "items.csv", "--job-id", "p", "--policy", "policy.yaml")
    code, _, err = await shell.run(*create, "--quiet")
    assert code == 0, err
    process = await shell.start(
        "worker", "--processes", "2", SWATH_STANDSTILL_SECONDS="5", SWATH_HEARTBEAT_SECONDS="0.2"
    )
    store = SqliteStore.open(shell.folder / "data", SystemClock())
    try:
        async with asyncio.timeout(200):
            while not (status := await store.status("p")).state.terminal:
                await asyncio.sleep(0.05)
    finally:
        await store.close()
    process.terminate()
    _, told = await asyncio.wait_for(process.communicate(), 60)
    assert (status.counts.success, status.failures) == (9, {"poison": 1})
    assert 4 <= told.decode().count("; starting another in") <= 5

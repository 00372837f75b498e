"""S6: an input that kills its worker costs that one item and a handful of deaths, and nobody else is blamed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from swath.backends.clock import SystemClock
from swath.backends.embedded.store import EmbeddedStore
from swath.domain.failure import FailureKind
from swath.domain.transitions import ItemState, JobState

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

ITEMS = 400
POISON = 123

SCRAPER = f"""
import asyncio, os
from swath import HttpScraper, Input, scraper

class In(Input):
    n: int

@scraper("deadly", version="1")
class Deadly(HttpScraper):
    Input = In

    async def fetch(self, item, web):
        await asyncio.sleep(0.005)
        if item.n == {POISON}:
            os._exit(66)
        return None
"""


@pytest.mark.req("S6", "W4", "Z1")
async def test_one_deadly_input_among_many_ends_as_poison(shell: Shell) -> None:
    shell.write("deadly.py", SCRAPER)
    shell.write("items.csv", "\n".join(["n", *map(str, range(1, ITEMS + 1))]))
    code, _, err = await shell.run("jobs", "create", "deadly.py", "--items", "items.csv", "--job-id", "p", "--quiet")
    assert code == 0, err
    process = await shell.start("worker", "--processes", "2")
    store = EmbeddedStore.open(shell.folder / "data", SystemClock())
    try:
        async with asyncio.timeout(60):
            while not (status := await store.status("p")).state.terminal:
                await asyncio.sleep(0.05)
        items = await store.items("p")
    finally:
        await store.close()
    process.terminate()
    _, told = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    assert (status.state, status.failures) == (JobState.PARTIALLY_COMPLETED, {"poison": 1})
    deadly = items[POISON - 1]
    assert deadly.failure is not None
    assert (deadly.state, deadly.failure.kind, deadly.tries.crashes) == (ItemState.FAILED, FailureKind.POISON, 3)
    others = [item for item in items if item.seq != POISON]
    assert {item.state for item in others} == {ItemState.SUCCESS}
    assert {item.tries.crashes for item in others} == {0}
    assert 4 <= told.decode().count("exited with status 66") <= 5
    assert (await shell.run("jobs", "verify", "p"))[0] == 0

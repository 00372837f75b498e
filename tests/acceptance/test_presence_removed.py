"""Z10: lock files that are removed under living workers cost nothing: a missing file proves no death."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.demo.county import DemoCountyServer, FaultSettings
from swath.domain.transitions import JobState

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell

ITEMS = 60
LIMIT = 4


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def replace_by_pipes(folder: Path) -> None:
    """Whoever opens one to read waits for somebody who writes."""
    for file in folder.glob("*.lock"):
        file.unlink()
        os.mkfifo(file)


def put_back(folder: Path) -> None:
    """Files that their workers have given up, as from a backup that has kept their numbers."""
    kept = [(file, file.rename(file.with_suffix(".kept"))) for file in folder.glob("*.lock")]
    deadline = time.monotonic() + 60
    while not all(file.exists() for file, _ in kept) and time.monotonic() < deadline:
        time.sleep(0.01)
    for file, aside in kept:
        aside.rename(file)


REMOVALS = (remove, replace_by_pipes, put_back, remove)


@asynccontextmanager
async def two_workers(shell: Shell, county: DemoCountyServer, lease_seconds: str) -> AsyncIterator[list[Process]]:
    """At work on a job of many items, of which no more than LIMIT may run at once."""
    county.switches = FaultSettings(latency_ms=20, count_parcels=True, seed=5)
    fast = "{rate: {tokens: 1000, per_seconds: 1}, breaker: {window: 1000, failures: 1000}}"
    shell.environment["SWATH_SITES"] = str(shell.write("fast-sites.yaml", f"sites: {{demo-county: {fast}}}\n"))
    rows = "\n".join(["parcel_id", *(f"{n:03}-{n % 90:02}-{n * 7 % 900:03}" for n in range(ITEMS))])
    items = shell.write("parcels.csv", rows)
    arguments = ("--items", str(items), "--job-id", "job", "--concurrency", str(LIMIT))
    code, _, err = await shell.run("jobs", "create", "demo-county", *arguments)
    assert code == 0, err
    county.counters.reset()
    yield [await shell.start("worker", SWATH_LEASE_SECONDS=lease_seconds) for _ in range(2)]


async def until(condition: Callable[[], bool], what: str) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
    assert condition(), what


async def ended(folder: Path) -> JobState:
    store = SqliteStore.open(folder, SystemClock())
    try:
        async with asyncio.timeout(300):
            while not (status := await store.status("job")).state.terminal:
                await asyncio.sleep(0.05)
        assert status.counts.success == ITEMS
        return status.state
    finally:
        await store.close()


def fetched(county: DemoCountyServer) -> dict[str, int]:
    """How often the page of each parcel was asked for."""
    return max(county.counters.by_parcel.values(), key=len)


@pytest.mark.req("Z10", "Z1", "S1", "Q2")
async def test_workers_whose_lock_files_are_removed_go_on_and_write_them_again(
    shell: Shell, county: DemoCountyServer
) -> None:
    """No lease ends by itself here, so no item has a reason to be fetched twice."""
    folder = shell.folder / "data" / "workers"
    async with two_workers(shell, county, lease_seconds="60") as workers:
        for removal in REMOVALS:
            await until(lambda: len(list(folder.glob("*.lock"))) == len(workers), f"files before {removal.__name__}")
            seen = county.counters.requests
            await until(lambda seen=seen: county.counters.requests > seen, "requests")  # type: ignore[misc]
            await asyncio.to_thread(removal, folder)
        assert await ended(shell.folder / "data") is JobState.COMPLETED
        for worker in workers:
            worker.terminate()
        assert [await asyncio.wait_for(worker.wait(), 60) for worker in workers] == [0, 0]
    assert county.counters.peak_open_items <= LIMIT
    assert set(fetched(county).values()) == {1}
    assert list(folder.glob("*.lock")) == []


@pytest.mark.req("Z10", "Z1", "W5", "Q2")
async def test_a_worker_that_is_killed_without_its_lock_file_is_missed_when_its_leases_are_over(
    shell: Shell, county: DemoCountyServer
) -> None:
    folder = shell.folder / "data" / "workers"
    async with two_workers(shell, county, lease_seconds="6") as workers:
        await until(lambda: len(list(folder.glob("*.lock"))) == len(workers), "both are there")
        await until(lambda: county.counters.requests > 20, "requests")
        shutil.rmtree(folder)
        workers[0].kill()
        assert await ended(shell.folder / "data") is JobState.COMPLETED
    assert county.counters.peak_open_items <= LIMIT
    assert (await shell.run("jobs", "verify", "job"))[0] == 0


@pytest.mark.req("Z10", "O4", "C2")
async def test_a_file_in_place_of_the_workers_folder_is_named_with_its_remedy(shell: Shell) -> None:
    folder = shell.folder / "data" / "workers"
    items = shell.write("items.csv", "n\n" + "".join(f"{n}\n" for n in range(40)))
    worker = await shell.start("worker")
    await until(lambda: bool(list(folder.glob("*.lock"))), "the worker is there")
    shutil.rmtree(folder)
    folder.touch()
    create = ("jobs", "create", "example-mock", "--items", str(items), "--job-id", "job")
    assert (await shell.run(*create))[0] == 0
    store = SqliteStore.open(shell.folder / "data", SystemClock())  # the worker looks at its file at each claim
    async with asyncio.timeout(60):
        while not (await store.status("job")).state.terminal:
            await asyncio.sleep(0.01)
    await store.close()

    code, _, err = await shell.run("run", "example-mock", "--items", str(items), "--job-id", "refused")
    assert code != 0
    assert f"{folder} is not a folder" in err
    assert f"move {folder} away" in err
    code, out, _ = await shell.run("doctor", "--json")
    (found,) = (one for one in json.loads(out)["checks"] if one["check"] == "data folder")
    assert (code, found["level"]) == (1, "fail")
    assert f"{folder} is not a folder" in found["message"]
    assert f"move {folder} away" in found["advice"]

    folder.unlink()
    await until(lambda: bool(list(folder.glob("*.lock"))), "the worker has written its file again")
    worker.terminate()
    _, log = await asyncio.wait_for(worker.communicate(), 60)
    warnings = [line for line in log.decode().splitlines() if "lock file" in line]
    assert [f"move {folder} away" in line for line in warnings] == [True, False], warnings
    assert "written again" in warnings[1]

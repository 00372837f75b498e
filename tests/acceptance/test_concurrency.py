"""S1: never more items at once than the policy allows, counted at the site and in the status, over all processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.demo.county import DemoCountyServer, FaultSettings

if TYPE_CHECKING:
    from tests.acceptance.conftest import Shell


def _parcels(items: int) -> str:
    return "\n".join(["parcel_id", *(f"{n:03}-{n % 90:02}-{n * 7 % 900:03}" for n in range(items))])


async def _peak_in_status(folder: Path, job_id: str) -> int:
    """Reads the status as fast as it can until the job has ended."""
    store = SqliteStore.open(folder, SystemClock())
    peak = 0
    try:
        while True:
            status = await store.status(job_id)
            peak = max(peak, status.counts.queued + status.counts.in_progress)
            if status.state.terminal:
                assert status.counts.success == status.counts.total
                return peak
            await asyncio.sleep(0.005)
    finally:
        await store.close()


@pytest.mark.req("S1", "W1", "Q2")
@pytest.mark.parametrize("workers", [1, 3])
async def test_fifty_items_three_at_once(shell: Shell, county: DemoCountyServer, workers: int) -> None:
    county.switches = FaultSettings(latency_ms=25, latency_jitter_ms=25, seed=3)
    items = shell.write("parcels.csv", _parcels(50))
    code, _, err = await shell.run(
        "jobs", "create", "demo-county", "--items", str(items), "--job-id", "fifty", "--concurrency", "3"
    )
    assert code == 0, err
    processes = [await shell.start("worker") for _ in range(workers)]
    peak_in_status = await asyncio.wait_for(_peak_in_status(shell.folder / "data", "fifty"), 60)
    for process in processes:
        process.terminate()
    assert [await process.wait() for process in processes] == [0] * workers
    assert county.counters.peak_open_items == 3
    assert 1 <= peak_in_status <= 3

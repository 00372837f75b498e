"""`make fairness`: whether several worker processes on one store share its work, and what that costs (W4).

Runs one job of quick items by one process and by several, and prints items per process, the spread (least against
most), and items per second. It is a measurement, and nothing depends on its time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from swath.backends.clock import SystemClock
from swath.backends.sqlite.store.store import SqliteStore
from swath.domain.job import JobStatus

__all__ = ["main"]

JOB = "fairness"
LOOK_SECONDS = 0.05
COMMAND = (sys.executable, "-m", "swath.entrypoints.cli.main")


class Measured(msgspec.Struct, frozen=True):
    """One run. `per_process` counts items by the worker that ended them; `seconds` begin when all have started."""

    per_process: tuple[int, ...]
    seconds: float

    @property
    def spread(self) -> float:
        """The least busy process against the busiest."""
        return min(self.per_process) / max(self.per_process)

    @property
    def items_per_second(self) -> float:
        """Over all processes."""
        return sum(self.per_process) / self.seconds


def main() -> None:
    """Prints one line for each number of processes."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.fairness")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--limit", type=int, default=30, help="max_concurrent_workers")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 3])
    options = parser.parse_args()
    for processes in options.processes:
        with tempfile.TemporaryDirectory() as folder:
            measured = asyncio.run(measure(Path(folder), processes, options.items, options.limit))
        print(
            f"{processes} processes: {' / '.join(f'{items:,}' for items in measured.per_process)} items, "
            f"spread {measured.spread:.2f}, {measured.items_per_second:,.0f} items/s",
            flush=True,
        )


async def measure(folder: Path, processes: int, items: int, limit: int) -> Measured:
    """Loads a job, lets so many processes run it while nobody else does, and counts who did what."""
    environment = {**os.environ, "SWATH_DATA": str(folder / "data")}
    file, policy = folder / "items.csv", folder / "policy.yaml"
    file.write_text("n\n" + "\n".join(map(str, range(items))), encoding="utf-8")
    policy.write_text(f"keep: data\nthrottling: {{max_concurrent_workers: {limit}}}\n", encoding="utf-8")
    order = ("jobs", "create", "example-mock", "--items", str(file), "--job-id", JOB, "--policy", str(policy))
    if await (await _start(environment, *order, "--quiet")).wait():
        raise SystemExit("the job could not be created")
    store = SqliteStore.open(folder / "data", SystemClock())
    try:
        await store.pause(JOB)  # until all processes are there, or the first to come would have a head start
        workers = await _start(environment, "worker", "--processes", str(processes))
        await _until_present(folder / "data" / "workers", processes)
        await store.resume(JOB)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (status := await store.status(JOB)).counts.remaining:  # noqa: ASYNC110 a store has no events
            await asyncio.sleep(LOOK_SECONDS)
        seconds = loop.time() - began
        workers.terminate()
        await workers.wait()
        return Measured(await _per_process(store, status, processes), seconds)
    finally:
        await store.close()


async def _start(environment: dict[str, str], *arguments: str) -> asyncio.subprocess.Process:
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(*COMMAND, *arguments, env=environment, stdout=quiet, stderr=quiet)


async def _until_present(folder: Path, processes: int) -> None:
    while not folder.exists() or len(list(folder.glob("*.lock"))) < processes:  # noqa: ASYNC110, ASYNC240 no events
        await asyncio.sleep(LOOK_SECONDS)


async def _per_process(store: SqliteStore, status: JobStatus, processes: int) -> tuple[int, ...]:
    ended: Counter[str] = Counter()
    after = 0
    while records := await store.items(status.job.job_id, after):
        ended.update(record.attempts[-1].worker for record in records)
        after = records[-1].seq
    counted = sorted(ended.values(), reverse=True)
    return (*counted, *[0] * (processes - len(counted)))


if __name__ == "__main__":
    main()

"""`make slots`: how much of the allowed concurrency a job really uses, measured at the site (S1).

Serves the demo county with slow pages, lets real worker processes scrape it, and adds up how many items had a request
open. Prints the share; it is a measurement, and nothing depends on its time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from swath.testing.demo_county import DemoCounty, Switches

__all__ = ["main"]

LOOK_SECONDS = 0.002
PAGE_MS = 200.0
COMMAND = (sys.executable, "-m", "swath.entrypoints.cli.main")


def main() -> None:
    """Prints one line for each number of worker processes."""
    parser = argparse.ArgumentParser(prog="python -m swath.testing.slot_use")
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--limit", type=int, default=8, help="max_concurrent_workers")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    for workers in options.workers:
        with tempfile.TemporaryDirectory() as folder:
            print(asyncio.run(_measure(Path(folder), workers, options.items, options.limit)), flush=True)


async def _measure(folder: Path, workers: int, items: int, limit: int) -> str:
    async with DemoCounty(Switches(latency_ms=PAGE_MS)) as county:
        environment = {**os.environ, "SWATH_DATA": str(folder / "data"), "SWATH_DEMO_URL": county.base_url}
        file = folder / "items.csv"
        file.write_text("n\n" + "\n".join(map(str, range(items))), encoding="utf-8")
        order = ("jobs", "create", "example-http", "--items", str(file), "--job-id", "slots", "--quiet")
        create = await _start(environment, *order, "--concurrency", str(limit))
        if await create.wait():
            raise SystemExit("the job could not be created")
        before = county.counters.requests  # the order itself asks for robots.txt
        process = await _start(environment, "worker", "--processes", str(workers))
        used, seconds = await _watch(county, before, before + items, limit)
        process.terminate()
        await process.wait()
        return (
            f"{workers} worker processes, {items} items of {PAGE_MS:g} ms, limit {limit}: {used:.1%} of slots used, "
            f"{seconds:.2f} s from the first request to the last (ideal {items / limit * PAGE_MS / 1000:.2f} s), "
            f"most at once {county.counters.peak_open_items}"
        )


async def _start(environment: dict[str, str], *arguments: str) -> asyncio.subprocess.Process:
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(*COMMAND, *arguments, env=environment, stdout=quiet, stderr=quiet)


async def _watch(county: DemoCounty, before: int, after: int, limit: int) -> tuple[float, float]:
    """The share of `limit` that was in use between the first request and the last answer, and how long that took."""
    loop = asyncio.get_running_loop()
    while county.counters.requests == before:  # noqa: ASYNC110 the site has counters and no events
        await asyncio.sleep(LOOK_SECONDS)
    began = last = loop.time()
    area = 0.0
    while county.counters.requests < after or county.counters.open_requests:
        await asyncio.sleep(LOOK_SECONDS)
        now = loop.time()
        area += county.counters.open_items * (now - last)
        last = now
    return area / (limit * (last - began)), last - began


if __name__ == "__main__":
    main()

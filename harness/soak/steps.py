"""`python -m harness.soak.steps STEP FOLDER ITEMS`: one step of a soak, in a process with memory of its own.

Prints one line of JSON: seconds, CPU seconds, peak memory and what the step found.

Started by supervisor.py. `work` goes on until SIGTERM; the others do one thing and leave.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import uvloop

from harness.soak import bare_loops, count, store_work
from harness.soak.job import CONCURRENCY, JOB_ID, SoakJob
from swath.bootstrap.scrapers import make_registry
from swath.bootstrap.services import Services, open_services
from swath.bootstrap.workers import make_worker
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.job import Job
from swath.domain.storage_keys import Layout
from swath.pipeline.ingest.load import load
from swath.pipeline.ingest.sources.file_and_stream import FileSource
from swath.pipeline.ingest.validate import RowChecker
from swath.pipeline.results.verify.verifier import verify
from swath.settings import load_settings

__all__ = ["main"]

SCRAPER: Final = "example-mock"


def main() -> None:
    """Runs the step that is named and prints what it cost."""
    step, folder, items = sys.argv[1:]
    job = SoakJob(folder=Path(folder), items=int(items))
    began, cpu_began = time.perf_counter(), time.process_time()
    found = STEPS[step](job)
    cost = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu_began,
        "peak_bytes": _peak_bytes(),
    }
    print(json.dumps(cost | found))


def _peak_bytes() -> int:
    """The most memory that was resident at once, of this program alone."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _with_services(
    act: Callable[[Services, SoakJob], Awaitable[dict[str, Any]]],
) -> Callable[[SoakJob], dict[str, Any]]:
    async def run(job: SoakJob) -> dict[str, Any]:
        async with open_services(load_settings()) as services:
            return await act(services, job)

    return lambda job: uvloop.run(run(job))


async def _load(services: Services, job: SoakJob) -> dict[str, Any]:
    policy = ExecutionPolicy.model_validate({"keep": "data", "throttling": {"max_concurrent_workers": CONCURRENCY}})
    now = services.clock.now()
    order = Job(job_id=JOB_ID, scraper_id=SCRAPER, policy=policy, layout=Layout.WARC, created_at=now)
    scraper = make_registry(services.settings).get(SCRAPER, None)
    began, cpu_began = time.perf_counter(), time.process_time()
    report = await load(services.store, order, FileSource(job.items_file), RowChecker(scraper.Input))
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    return {"items": report.items, "seconds": seconds, "cpu_seconds": cpu_seconds}


async def _work(services: Services, _: SoakJob) -> dict[str, Any]:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with make_worker(services, make_registry(services.settings), JOB_ID) as worker:
        await worker.run(stop)
    return {}


async def _verify(services: Services, _: SoakJob) -> dict[str, Any]:
    report = await verify(services.store, services.storage, JOB_ID)
    return {"ok": report.ok, "state": report.state.value, "artifacts": report.artifacts, "found": report.found}


def _bare_load(job: SoakJob) -> dict[str, Any]:
    return {"items": bare_loops.load(job.items_file, job.folder / "bare.db")}


def _bare_manifests(job: SoakJob) -> dict[str, Any]:
    folder = job.folder / "bare-manifests"
    checksums = bare_loops.manifests(job.database, folder)
    shutil.rmtree(folder)
    return {"same_bytes": checksums == count.part_checksums(job)}


def _count(job: SoakJob) -> dict[str, Any]:
    return {"problems": count.problems(job)}


def _store_work(job: SoakJob) -> dict[str, Any]:
    return uvloop.run(store_work.measure(job))


STEPS: Final[dict[str, Callable[[SoakJob], dict[str, Any]]]] = {
    "bare-load": _bare_load,
    "load": _with_services(_load),
    "work": _with_services(_work),
    "store-work": _store_work,
    "bare-manifests": _bare_manifests,
    "verify": _with_services(_verify),
    "count": _count,
}


if __name__ == "__main__":
    main()

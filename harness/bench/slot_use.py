"""`make slots`: how much of the allowed concurrency a job really uses, measured at the site (S1).

Serves the demo county with slow pages, lets real worker processes scrape it, and adds up how many items had a request
open. Prints the share; it is a measurement, and nothing depends on its time. With `--aws` the workers share a table of
DynamoDB Local instead of files; fleet/ measures more of that.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.fakes.aws import running_servers
from harness.fakes.aws.endpoints import DISTURBING
from swath.demo.county import DemoCountyServer, FaultSettings

__all__ = ["SlotPlan", "Used", "main", "measure"]

LOOK_SECONDS = 0.002
PAGE_MS = 200.0
COMMAND = (sys.executable, "-m", "swath.entrypoints.cli.main")


@dataclass(frozen=True, kw_only=True)
class SlotPlan:
    """One measurement. `limit` is the job's; `max_items` is what a worker takes on at once, if less than its default.

    `worker_command` is what a worker process is started by.
    """

    workers: int
    items: int
    limit: int = 8
    max_items: int | None = None
    worker_command: Sequence[str] = COMMAND


@dataclass(frozen=True, kw_only=True)
class Used:
    """`share` is of the limit, between the first request of the workers and the last answer."""

    plan: SlotPlan
    share: float
    seconds: float
    peak_items: int

    @property
    def items_per_second(self) -> float:
        """Of all workers together."""
        return self.plan.items / self.seconds

    def __str__(self) -> str:
        plan = self.plan
        return (
            f"{plan.workers} worker processes, {plan.items} items of {PAGE_MS:g} ms, limit {plan.limit}: "
            f"{self.share:.1%} of slots used, {self.seconds:.2f} s from the first request to the last "
            f"(ideal {plan.items / plan.limit * PAGE_MS / 1000:.2f} s), most at once {self.peak_items}"
        )


def main() -> None:
    """Prints one line for each number of worker processes."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.slot_use")
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--limit", type=int, default=8, help="max_concurrent_workers")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--aws", action="store_true", help="with a store on local AWS servers")
    options = parser.parse_args()
    with ExitStack() as stack:
        aws = stack.enter_context(running_servers()).endpoints.environment if options.aws else None
        for workers in options.workers:
            plan = SlotPlan(workers=workers, items=options.items, limit=options.limit)
            with tempfile.TemporaryDirectory() as folder:
                print(asyncio.run(measure(Path(folder), plan, aws)), flush=True)


async def measure(folder: Path, plan: SlotPlan, aws: Mapping[str, str] | None = None) -> Used:
    """Runs one job. `aws` is the environment that leads to the services, if they are to be used; results are files."""
    async with DemoCountyServer(FaultSettings(latency_ms=PAGE_MS)) as county:
        environment = _environment(folder, plan, county.base_url, aws)
        file = folder / "items.csv"
        file.write_text("n\n" + "\n".join(map(str, range(plan.items))), encoding="utf-8")
        if aws is not None:
            await _must(environment, "aws", "init")
        order = ("jobs", "create", "example-http", "--items", str(file), "--job-id", "slots", "--quiet")
        await _must(environment, *order, "--concurrency", str(plan.limit))
        before = county.counters.requests  # the order itself asks for robots.txt
        workers = [await _start(environment, plan.worker_command, "worker") for _ in range(plan.workers)]
        share, seconds = await _watch(county, before, before + plan.items, plan.limit)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            await worker.wait()
        return Used(plan=plan, share=share, seconds=seconds, peak_items=county.counters.peak_open_items)


def _environment(folder: Path, plan: SlotPlan, url: str, aws: Mapping[str, str] | None) -> dict[str, str]:
    disturbing = () if aws is None else DISTURBING
    bound = {} if plan.max_items is None else {"SWATH_MAX_ITEMS": str(plan.max_items)}
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SWATH_", *disturbing))},
        **(aws or {}),
        **({} if aws is None else {"SWATH_STORE": f"dynamodb://slots-{secrets.token_hex(4)}"}),
        **bound,
        "SWATH_DATA": str(folder / "data"),
        "SWATH_DEMO_URL": url,
    }


async def _must(environment: Mapping[str, str], *arguments: str) -> None:
    pipe = asyncio.subprocess.PIPE
    done = await asyncio.create_subprocess_exec(*COMMAND, *arguments, env=environment, stdout=pipe, stderr=pipe)
    said = b"".join(await done.communicate()).decode()
    if done.returncode:
        raise SystemExit(f"swath {' '.join(arguments)}: exit code {done.returncode}\n{said}")


async def _start(environment: Mapping[str, str], command: Sequence[str], *arguments: str) -> asyncio.subprocess.Process:
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(*command, *arguments, env=environment, stdout=quiet, stderr=quiet)


async def _watch(county: DemoCountyServer, before: int, after: int, limit: int) -> tuple[float, float]:
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

"""`make pacing`: whether sites are visited no faster and no more at once than their policy says, measured there (Z3).

Serves the demo county, lets real worker processes of two jobs scrape it under one site policy, kills some of them, and
looks at the site's own time stamps: the worst window of all, and the most requests that were open at once. With
`--aws` the workers share a table of DynamoDB Local instead of files.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import secrets
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.fakes.aws import running_servers
from harness.fakes.aws.endpoints import DISTURBING
from harness.wall_clocks import ShiftedClock
from swath.demo.county import DemoCountyServer, FaultSettings

__all__ = ["Measured", "Plan", "main", "measure", "worst_window"]

COMMAND = (sys.executable, "-m", "swath.entrypoints.cli.main")
PAGE_MS = 200.0
LATE_SECONDS = 0.05  # what Z3 allows a request to be late
LOOK_SECONDS = 0.002
JOBS = ("first", "second")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One measurement. With a `rate` it is about that, else about concurrency. `processes` are those of each host."""

    processes: int
    items: int
    concurrency: int = 8
    rate: float | None = None
    kills: int = 0
    seed: int = 0
    haste: float = 1.0  # the workers are told a rate so many times as high: a build that does not keep to its policy
    skews: tuple[float, ...] = ()  # of the hosts' clocks; the first host begins alone. Without any there is one host


@dataclass(frozen=True, kw_only=True)
class Measured:
    """`excess` is by how many requests the worst window was above what is allowed: 0 or less is well.

    `lag_seconds` is how long the site itself was away from its sockets at the worst: so late may its time stamps be,
    and that much is allowed on top. `used` is the share of the limit that was in use while there was demand.
    """

    plan: Plan
    requests: int
    excess: float
    lag_seconds: float
    peak_open: int
    used: float
    seconds: float

    @property
    def well(self) -> bool:
        """Whether the policy was kept. Requests of workers that were killed may still be open at the site."""
        return self.excess <= 0 and (self.plan.kills > 0 or self.peak_open <= self.plan.concurrency)


def worst_window(stamps: Sequence[float], rate: float, lag_seconds: float = 0.0) -> float:
    """How many requests the worst window of a second or more has above rate · T + 1 + rate · 50 ms.

    A window is worst when it begins and ends at a request. With d_i = i - rate · t_i the excess of the window from
    request i to j is d_j - d_i + 1 less the allowance, so the least d seen a second before is all that must be kept.
    """
    allowance = 1 + rate * (LATE_SECONDS + lag_seconds)
    ordered = sorted(stamps)
    worst, least, begin = float("-inf"), float("inf"), 0
    for end, stamp in enumerate(ordered):
        while begin < end and stamp - ordered[begin] >= 1.0:
            least = min(least, begin - rate * ordered[begin])
            begin += 1
        worst = max(worst, end - rate * stamp - least + 1 - allowance)
        within = end - begin + 1  # a window of a second that holds these has room for its own length at least
        worst = max(worst, within - rate * 1.0 - allowance)
    return worst


async def measure(folder: Path, plan: Plan, aws: Mapping[str, str] | None = None) -> Measured:
    """Runs both jobs to their end. `aws` is the environment that leads to its services, if they are to be used."""
    async with DemoCountyServer(FaultSettings(latency_ms=PAGE_MS)) as county:
        environment = _environment(folder, plan, county.base_url, aws or {})
        if aws is not None:
            init = await _start(environment, "aws", "init")
            if await init.wait():
                raise SystemExit("the table could not be made")
        for job in JOBS:
            file = folder / f"{job}.csv"
            file.write_text("n\n" + "\n".join(map(str, range(plan.items))), encoding="utf-8")
            order = ("jobs", "create", "example-http", "--items", str(file), "--job-id", job, "--quiet")
            create = await _start(environment, *order, "--concurrency", "1000")
            if await create.wait():
                raise SystemExit("the job could not be created")
        before = county.counters.requests  # the orders themselves ask for robots.txt
        workers = ("worker", "--processes", str(plan.processes))
        first, *others = _hosts(folder, plan, environment)
        processes = [await _start(first, *workers)]
        try:
            for each in others:
                while county.counters.requests < before + plan.items * len(JOBS) // 3:  # noqa: ASYNC110 as in _watch
                    await asyncio.sleep(LOOK_SECONDS)
                processes.append(await _start(each, *workers))
            return await _watch(county, plan, before, processes[0])
        finally:
            for process in processes:
                process.terminate()
                await process.wait()


def _hosts(folder: Path, plan: Plan, environment: dict[str, str]) -> list[dict[str, str]]:
    """The environment of each host's worker."""
    hosts = []
    for number, skew in enumerate(plan.skews):
        clock = ShiftedClock(folder / f"clock-{number}")
        clock.set(skew)
        hosts.append(clock.environment(environment) | {"SWATH_DATA": str(folder / f"host-{number}")})
    return hosts or [environment]


def _environment(folder: Path, plan: Plan, url: str, aws: Mapping[str, str]) -> dict[str, str]:
    policy = folder / "sites.yaml"
    policy.write_text(
        "sites:\n  demo-county:\n"
        f"    rate: {{tokens: {(plan.rate or 10_000) * plan.haste}, per_seconds: 1}}\n"
        f"    concurrency: {plan.concurrency}\n",
        encoding="utf-8",
    )
    disturbing = DISTURBING if aws else ()
    store = {"SWATH_STORE": f"dynamodb://pacing-{secrets.token_hex(4)}"} if aws else {}
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SWATH_", *disturbing))},
        **aws,
        **store,
        "SWATH_DATA": str(folder / "data"),
        "SWATH_DEMO_URL": url,
        "SWATH_SITES": str(policy),
        "SWATH_LEASE_SECONDS": "10" if aws else "3",  # a loaded machine does not answer as fast as AWS does
    }


async def _watch(county: DemoCountyServer, plan: Plan, before: int, process: asyncio.subprocess.Process) -> Measured:
    loop, chance = asyncio.get_running_loop(), random.Random(plan.seed)  # noqa: S311 a repeatable choice of victims
    expected, killed, lag, area = before + plan.items * len(JOBS), 0, 0.0, 0.0
    while county.counters.requests == before:  # noqa: ASYNC110 the site has counters and no events
        await asyncio.sleep(LOOK_SECONDS)
    began = last = loop.time()
    while county.counters.requests < expected or county.counters.open_requests:
        await asyncio.sleep(LOOK_SECONDS)
        now = loop.time()
        lag = max(lag, now - last - LOOK_SECONDS)
        area += county.counters.open_requests * (now - last)
        last = now
        if killed < plan.kills and county.counters.requests > expected * (killed + 1) / (plan.kills + 2):
            killed += _kill_one(process.pid, chance)
        if now - began > 600:
            raise SystemExit("the jobs did not end within ten minutes")
    seconds = last - began
    stamps = list(county.counters.timestamps)
    rate = plan.rate or 10_000
    used = (len(stamps) - before) / (rate * seconds) if plan.rate else area / (plan.concurrency * seconds)
    return Measured(
        plan=plan,
        requests=len(stamps),
        excess=worst_window(stamps, rate, lag),
        lag_seconds=lag,
        peak_open=county.counters.peak_open_requests,
        used=used,
        seconds=seconds,
    )


async def measure_until_well(
    folder: Path, plan: Plan, aws: Mapping[str, str] | None = None, times: int = 3
) -> Measured:
    """Up to so many times: on a busy machine a worker may sleep between its permit and its request, which the site
    sees as a burst. Whoever does not keep to the rate is seen every time."""
    for number in range(times):
        own = folder / str(number)
        own.mkdir()
        found = await measure(own, plan, aws)
        if found.well:
            break
    return found


def _kill_one(supervisor: int, chance: random.Random) -> int:
    """Kills one of the worker processes that we started, if one is there."""
    task = Path(f"/proc/{supervisor}/task/{supervisor}/children")
    children = [int(pid) for pid in task.read_text(encoding="ascii").split()]
    if not children:
        return 0
    os.kill(chance.choice(children), signal.SIGKILL)
    return 1


async def _start(environment: dict[str, str], *arguments: str) -> asyncio.subprocess.Process:
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(*COMMAND, *arguments, env=environment, stdout=quiet, stderr=quiet)


def _line(found: Measured) -> str:
    plan = found.plan
    limit = f"rate {plan.rate:g}/s" if plan.rate else f"{plan.concurrency} requests at once"
    return (
        f"{'well ' if found.well else 'BROKEN'} {plan.processes} processes, 2 jobs, {plan.kills} kills, {limit}: "
        f"{found.requests} requests in {found.seconds:.1f} s, {found.used:.1%} of the limit used, "
        f"worst window {found.excess:+.2f} of what is allowed, at most {found.peak_open} open, "
        f"the site itself was away for {found.lag_seconds * 1000:.0f} ms"
    )


def main() -> None:
    """Prints one line for each number of processes and each kind of limit."""
    parser = argparse.ArgumentParser(prog="python -m harness.bench.pacing")
    parser.add_argument("--items", type=int, default=500, help="of each of the two jobs")
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--aws", action="store_true", help="on the local AWS servers")
    options = parser.parse_args()
    with ExitStack() as stack:
        aws = stack.enter_context(running_servers()).endpoints.environment if options.aws else None
        sys.exit(not _all_well(options, aws))


def _all_well(options: argparse.Namespace, aws: Mapping[str, str] | None) -> bool:
    well = True
    for processes, rate in itertools.product(options.processes, (options.rate, None)):
        plan = Plan(
            processes=processes,
            items=options.items,
            concurrency=64 if rate else options.concurrency,
            rate=rate,
            kills=options.kills if rate else 0,
            seed=options.seed,
        )
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure(Path(folder), plan, aws))
        print(_line(found), flush=True)
        well = well and found.well
    return well


if __name__ == "__main__":
    main()

"""Runs one job from its load to its end by some worker processes, and measures what that took."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from harness.fleet.measured_job import JOB_ID, MeasuredJob, MeasuredProgress, cpu_seconds
from harness.fleet.meters import MeteredRequests, read_meters

__all__ = ["JobCost", "MeasuredPlan", "run_job"]

LOOK_SECONDS: Final = 0.1
START_SECONDS: Final = 60.0
STALL_SECONDS: Final = 120.0
LEAVE_SECONDS: Final = 40.0


@dataclass(frozen=True, kw_only=True)
class MeasuredPlan:
    """What is run."""

    scraper: str
    items: int
    workers: int
    concurrency: int
    keep: str = "both"
    layout: str = "files"


@dataclass(frozen=True, kw_only=True)
class JobCost:
    """Seconds and CPU until the last item had ended, and of the ending after it. Without AWS nothing was asked.

    `asked_to_load` is what the order itself took, `asked` everything after it.
    """

    order: MeasuredPlan
    seconds: float
    cpu_seconds: float
    ending_seconds: float
    ending_cpu_seconds: float
    asked_to_load: MeteredRequests | None = None
    asked: MeteredRequests | None = None

    @property
    def items_per_second(self) -> float:
        """Until the last item had ended."""
        return self.order.items / self.seconds

    @property
    def cpu_each(self) -> float:
        """CPU seconds of the workers for each item, the ending included."""
        return (self.cpu_seconds + self.ending_cpu_seconds) / self.order.items


def run_job(place: MeasuredJob, order: MeasuredPlan) -> JobCost:
    """Raises SystemExit when nothing happens any more, or not every item has ended."""
    place.write_items(order.items)
    policy = place.folder / "policy.yaml"
    throttling = f"{{max_concurrent_workers: {order.concurrency}}}"
    policy.write_text(f"keep: {order.keep}\nthrottling: {throttling}\n", encoding="utf-8")
    if place.endpoints is not None:
        place.must("aws", "init")
    how = ("--items", str(place.items_file), "--policy", str(policy), "--layout", order.layout)
    place.must("jobs", "create", order.scraper, *how, "--job-id", JOB_ID, "--quiet", meters="load")
    place.must("jobs", "pause", JOB_ID)
    with _workers(place, order.workers) as workers:
        begun_cpu = _cpu(workers)
        place.must("jobs", "resume", JOB_ID)
        began = _until(place, workers, lambda seen: seen.done > 0)
        items_ended = _until(place, workers, lambda seen: seen.done >= order.items)
        items_cpu = _cpu(workers)
        job_ended = _until(place, workers, lambda seen: seen.over)
        job_cpu = _cpu(workers)
        _stop(workers)
    on_aws = place.endpoints is not None
    return JobCost(
        order=order,
        seconds=items_ended - began,
        cpu_seconds=items_cpu - begun_cpu,
        ending_seconds=job_ended - items_ended,
        ending_cpu_seconds=job_cpu - items_cpu,
        asked_to_load=read_meters(place.meters("load"), order.items) if on_aws else None,
        asked=read_meters(place.meters("run"), order.items) if on_aws else None,
    )


_Workers = list[subprocess.Popen[bytes]]


@contextmanager
def _workers(place: MeasuredJob, count: int) -> Iterator[_Workers]:
    """All of them have asked the store for the first time; whatever happens, none is left."""
    workers = [place.start("worker", meters="run") for _ in range(count)]
    try:
        until = time.monotonic() + START_SECONDS
        while len(list((place.data / "workers").glob("*.lock"))) < count:
            _check(place, workers)
            if time.monotonic() > until:
                raise SystemExit(f"the workers did not come up: see {place.log}")
            time.sleep(LOOK_SECONDS)
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _until(place: MeasuredJob, workers: _Workers, reached: Callable[[MeasuredProgress], bool]) -> float:
    """When it was so, on the monotonic clock."""
    last, moved = MeasuredProgress("", 0, 0), time.monotonic()
    while not reached(seen := place.look()):
        _check(place, workers)
        if seen != last:
            last, moved = seen, time.monotonic()
        if time.monotonic() - moved > STALL_SECONDS:
            raise SystemExit(f"nothing has happened for {STALL_SECONDS:g} s: see {place.log}")
        time.sleep(LOOK_SECONDS)
    return time.monotonic()


def _check(place: MeasuredJob, workers: _Workers) -> None:
    for worker in workers:
        if worker.poll() is not None:
            raise SystemExit(f"a worker ended by itself with code {worker.returncode}: see {place.log}")


def _cpu(workers: _Workers) -> float:
    return sum(cpu_seconds(worker.pid) for worker in workers)


def _stop(workers: _Workers) -> None:
    """In good order, because they write down their meters at the very end."""
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        worker.wait(LEAVE_SECONDS)

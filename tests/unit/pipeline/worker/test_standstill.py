"""A worker whose own event loop stands still gives its leases up in the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from swath.domain.job import Job
from swath.domain.lease import Lease
from swath.pipeline.worker.heartbeat import CHECK_SECONDS
from swath.pipeline.worker.parts import WorkerOptions
from swath.pipeline.worker.worker import RECENT_COMMIT_FRACTION, Worker
from tests.support.clock import FakeClock

ITEM_SECONDS = 60.0  # the default


def _worker(clock: FakeClock, told: list[str]) -> Worker:
    """With one lease, heard of long ago."""
    parts: Any = SimpleNamespace(
        clock=clock, book=None, queue=None, storage=None, sites=None, network=None, sweeper=None
    )
    worker = Worker(parts, WorkerOptions(worker_id="w"), lambda: told.append("it stands still"))
    lease = Lease(fence=7, job=Job(job_id="j", scraper_id="x"), worker_id="w")
    runner: Any = SimpleNamespace(lease=lease, heard_at=clock.boot())
    worker._runners[7] = runner
    clock.advance(WorkerOptions(worker_id="w").heartbeat_seconds)
    worker._standstill.look()
    return worker


def _look_for(worker: Worker, clock: FakeClock, seconds: float) -> None:
    for _ in range(round(seconds / CHECK_SECONDS)):
        clock.advance(CHECK_SECONDS)
        worker._standstill.look()


@pytest.mark.req("W3", "W4")
async def test_leases_are_renewed_while_an_item_may_take_its_time_and_not_for_ever() -> None:
    clock, told = FakeClock(), list[str]()
    worker = _worker(clock, told)
    allowed = ITEM_SECONDS + WorkerOptions(worker_id="w").standstill_seconds
    _look_for(worker, clock, allowed)
    assert (worker._to_renew(), told) == ([7], [])
    _look_for(worker, clock, CHECK_SECONDS)
    assert (worker._to_renew(), told) == ([], ["it stands still"])
    _look_for(worker, clock, 100)
    assert told == ["it stands still"]
    worker._standstill.tick()
    _look_for(worker, clock, allowed)
    assert (worker._to_renew(), told) == ([7], ["it stands still"])
    _look_for(worker, clock, 2 * CHECK_SECONDS)
    assert (worker._to_renew(), told) == ([], ["it stands still"] * 2)


@pytest.mark.req("W3", "W4", "Z10")
async def test_time_in_which_the_process_did_not_run_is_no_standstill() -> None:
    clock, told = FakeClock(), list[str]()
    worker = _worker(clock, told)
    for _ in range(20):
        clock.advance(86_400.0)
        worker._standstill.look()
    assert (worker._to_renew(), told) == ([7], [])


@pytest.mark.req("W4", "Q3")
async def test_a_lease_that_the_store_has_just_heard_of_is_not_renewed_and_one_beat_later_it_is() -> None:
    clock = FakeClock()
    parts: Any = SimpleNamespace(
        clock=clock, book=None, queue=None, storage=None, sites=None, network=None, sweeper=None
    )
    options = WorkerOptions(worker_id="w", heartbeat_seconds=10.0)
    worker = Worker(parts, options)
    lease = Lease(fence=7, job=Job(job_id="j", scraper_id="x"), worker_id="w", lease_seconds=30.0)
    runner: Any = SimpleNamespace(lease=lease, heard_at=clock.boot())
    worker._runners[7] = runner
    clock.advance(RECENT_COMMIT_FRACTION * options.heartbeat_seconds - 0.1)
    assert worker._to_renew() == []
    clock.advance(options.heartbeat_seconds)
    assert worker._to_renew() == [7]
    assert clock.boot() - runner.heard_at <= lease.lease_seconds / 2, "half of its time is left, should that fail"

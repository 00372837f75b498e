"""A worker whose own event loop stands still gives its leases up in the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from swath.domain.job import Job
from swath.domain.lease import Lease
from swath.pipeline.execute.parts import WorkerOptions
from swath.pipeline.execute.worker import FRESH_PART, Worker
from swath.testing.clock import FakeClock

ITEM_SECONDS = 60.0  # the default


@pytest.mark.req("W3", "W4")
async def test_leases_are_renewed_while_an_item_may_take_its_time_and_not_for_ever() -> None:
    clock = FakeClock()
    parts: Any = SimpleNamespace(
        clock=clock, book=None, queue=None, storage=None, sites=None, network=None, sweeper=None
    )
    told: list[str] = []
    worker = Worker(parts, WorkerOptions(worker_id="w"), lambda: told.append("it stands still"))
    lease = Lease(fence=7, job=Job(job_id="j", scraper_id="x"), worker_id="w")
    runner: Any = SimpleNamespace(lease=lease, heard_at=clock.boot())
    worker._runners[7] = runner
    clock.advance(ITEM_SECONDS + WorkerOptions(worker_id="w").standstill_seconds)
    assert worker._to_renew() == [7]
    assert told == []
    clock.advance(0.1)
    assert worker._to_renew() == []
    assert told == ["it stands still"]


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
    clock.advance(FRESH_PART * options.heartbeat_seconds - 0.1)
    assert worker._to_renew() == []
    clock.advance(options.heartbeat_seconds)
    assert worker._to_renew() == [7]
    assert clock.boot() - runner.heard_at <= lease.lease_seconds / 2, "half of its time is left, should that fail"

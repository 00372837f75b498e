"""A worker whose own event loop stands still gives its leases up in the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from swath.domain.job import Job
from swath.domain.lease import Lease
from swath.pipeline.execute.parts import WorkerOptions
from swath.pipeline.execute.worker import Worker
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
    runner: Any = SimpleNamespace(lease=Lease(fence=7, job=Job(job_id="j", scraper_id="x"), worker_id="w"))
    worker._runners[7] = runner
    clock.advance(ITEM_SECONDS + WorkerOptions(worker_id="w").standstill_seconds)
    assert worker._to_renew() == [7]
    assert told == []
    clock.advance(0.1)
    assert worker._to_renew() == []
    assert told == ["it stands still"]

"""Rates over real worker processes that share a table, measured at the site."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.bench.pacing import Plan, measure, measure_until_well
from harness.fakes.aws import Endpoints


@pytest.mark.req("Z3", "S2", "D2")
async def test_rate_holds_at_the_site_over_processes_jobs_and_a_kill(aws: Endpoints, tmp_path: Path) -> None:
    plan = Plan(processes=2, items=60, rate=20.0, concurrency=64, kills=1)
    found = await asyncio.wait_for(measure_until_well(tmp_path, plan, aws.environment), 250)
    assert found.requests >= 120
    assert found.well, found


@pytest.mark.req("Z3", "Z10", "S1")
async def test_hosts_whose_clocks_disagree_keep_to_the_limits_together(aws: Endpoints, tmp_path: Path) -> None:
    """The second host comes when the first has reserved the next ten seconds for itself, and all slots."""
    plan = Plan(processes=1, items=140, rate=15.0, concurrency=4, skews=(-40.0, 40.0))
    found = await asyncio.wait_for(measure_until_well(tmp_path, plan, aws.environment), 250)
    assert found.requests >= 280
    assert found.well, found


@pytest.mark.long
@pytest.mark.req("Z3")
async def test_workers_that_do_not_keep_to_the_rate_are_found_out(aws: Endpoints, tmp_path: Path) -> None:
    """At once; that they are every time is shown without AWS (tests/harness/test_pacing.py)."""
    hasty = Plan(processes=1, items=40, rate=20.0, concurrency=64, haste=1.5)
    assert not (await asyncio.wait_for(measure(tmp_path, hasty, aws.environment), 250)).well

"""Lanes and a far-away site book together, on a fake clock: the whole rate, over hosts, for few requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from swath.backends.aws.sites import site_table
from swath.domain.token_bucket import LATE_INSTANT_SECONDS
from swath.fetch.sites.policies import Site
from swath.fetch.sites.rate_limiter import RateLimiter
from swath.ports.site_state import SHARE_SECONDS
from tests.integration.aws.simulated_fleet import HostClock, SlowTable, host_book
from tests.support.clock import FakeClock
from tests.unit.fetch.sites.simulation import Visits, excess, play, site

ROUND_TRIP_SECONDS = 0.01


@contextlib.asynccontextmanager
async def running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert ended is None or isinstance(ended, asyncio.CancelledError), repr(ended)


class Fleet:
    """Workers on hosts of their own, started at different times, whose clocks differ by `skew_seconds` at most."""

    def __init__(self, workers: int, skew_seconds: float = 0.0, round_trip_seconds: float = ROUND_TRIP_SECONDS) -> None:
        self.clock = FakeClock()
        self.table = SlowTable(self.clock, round_trip_seconds)
        self.visits = Visits(self.clock)
        self.hosts = [
            HostClock(self.clock, 1_234.5 * number, skew_seconds * number / max(1, workers - 1))
            for number in range(workers)
        ]
        self.pacers = [
            RateLimiter(host_book(self.table, host), host, f"worker {number}") for number, host in enumerate(self.hosts)
        ]

    def busy(self, where: Site, page_seconds: float, each: int) -> contextlib.AbstractAsyncContextManager[None]:
        """All workers visit the site, with so many requests each as soon as they may."""
        visits, pacers = self.visits, self.pacers
        return running(*(visits.keep_visiting(pacer, where, page_seconds) for pacer in pacers for _ in range(each)))

    async def play(self, seconds: float) -> int:
        """How many requests were sent meanwhile."""
        before = len(self.visits.sent)
        await play(self.clock, seconds)
        return len(self.visits.sent) - before


@pytest.fixture(autouse=True)
def _no_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_table, "_PAUSE_SECONDS", (0.0, 0.0))


@pytest.mark.req("S2", "D2", "Z3")
@pytest.mark.parametrize("workers", [1, 3, 4])
@pytest.mark.parametrize("rate", [0.5, 10.0, 75.0])
async def test_the_whole_rate_is_used_and_no_more(workers: int, rate: float) -> None:
    fleet = Fleet(workers)
    async with fleet.busy(site(rate=rate, concurrency=64), 0.1, each=12):
        await fleet.play(10)
        assert await fleet.play(20) >= 0.95 * rate * 20
    assert excess(fleet.visits.sent, rate) <= 0


@pytest.mark.req("S1", "Z3")
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
@pytest.mark.parametrize(("rate", "page_seconds", "aim"), [(1_000.0, 0.2, 0.95), (10.0, 2.0, 0.9)])
async def test_the_whole_concurrency_is_used_and_no_more(
    workers: int, rate: float, page_seconds: float, aim: float
) -> None:
    """Where instants are few, a slot that is free waits for the next one of its own worker."""
    fleet = Fleet(workers)
    async with fleet.busy(site(rate=rate, concurrency=8), page_seconds, each=16):
        await fleet.play(10)
        assert await fleet.play(20) >= aim * 8 * 20 / page_seconds
    assert fleet.visits.most_open == 8


@pytest.mark.req("S2")
async def test_at_usual_settings_less_than_fifty_writes_are_paid_for_a_thousand_requests() -> None:
    fleet = Fleet(4)
    async with fleet.busy(site(rate=10, concurrency=8), 0.2, each=4):
        await fleet.play(10)
        assert fleet.table.requests["write"] < 50, "until all have found their shares"
        fleet.table.requests.clear()
        sent = await fleet.play(100)
    assert sent >= 975
    assert fleet.table.requests["write"] / sent < 0.05
    assert fleet.table.requests["read"] / sent < 0.25


@pytest.mark.req("Z3")
async def test_clocks_that_differ_by_what_is_left_of_the_allowance_do_no_harm() -> None:
    """Z3 allows 50 ms; what may be sent late takes 20 of them."""
    fleet, where = Fleet(4, skew_seconds=0.025), site(rate=50, concurrency=64)
    async with fleet.busy(where, 0.1, each=8):
        assert await fleet.play(30) >= 0.95 * 50 * 30
    assert excess(fleet.visits.sent, 50, slack_seconds=0.05 - LATE_INSTANT_SECONDS) <= 0


@pytest.mark.req("Z3")
async def test_a_host_that_is_an_hour_ahead_stops_nobody() -> None:
    fleet = Fleet(2, skew_seconds=3_600)
    async with fleet.busy(site(rate=10, concurrency=64), 0.1, each=8):
        await fleet.play(30)
        sent = await fleet.play(20)
    assert sent >= 190
    assert excess(fleet.visits.sent[-sent:], 10.0) <= 5, "half a second: what it cannot tell from time that has passed"


@pytest.mark.req("S1", "S2")
async def test_a_newcomer_has_its_share_of_slots_and_of_the_rate_within_a_round() -> None:
    fleet, where = Fleet(2), site(rate=10, concurrency=8)
    first, second = fleet.pacers
    late = Visits(fleet.clock)
    async with running(*(fleet.visits.keep_visiting(first, where, 0.2) for _ in range(8))):
        await fleet.play(30)
        async with running(*(late.keep_visiting(second, where, 0.2) for _ in range(8))):
            await fleet.play(12)
            assert late.sent
            before = len(fleet.visits.sent), len(late.sent)
            await fleet.play(20)
            mine, theirs = len(fleet.visits.sent) - before[0], len(late.sent) - before[1]
            assert 80 <= theirs <= 120
            assert mine + theirs >= 190


@pytest.mark.req("S2")
async def test_who_has_nothing_left_to_send_leaves_its_part_to_the_others_within_the_round() -> None:
    fleet, where = Fleet(2), site(rate=10, concurrency=8)
    first, second = fleet.pacers
    async with running(*(fleet.visits.keep_visiting(first, where, 0.2) for _ in range(4))):
        async with running(*(fleet.visits.keep_visiting(second, where, 0.2) for _ in range(4))):
            await fleet.play(30.5)
        await fleet.play(3.5)
        assert await fleet.play(5) >= 48, "though the round in which both had parts is not over"
    assert excess(fleet.visits.sent, 10) <= 0


@pytest.mark.req("S7", "D2", "property 26")
async def test_a_complaint_halves_the_rate_of_all_hosts_soon() -> None:
    fleet, where = Fleet(3), site(rate=30, concurrency=64, slow_down_seconds=60)
    async with fleet.busy(where, 0.1, each=8):
        await fleet.play(20)
        for pause_seconds in (0.0, 0.0, 0.0, 0.0, 0.001, 0.1):  # what was under way says the same thing once
            fleet.pacers[0].slow_down(where, fleet.hosts[0].boot() - 0.1)
            await fleet.play(pause_seconds)
        await fleet.play(3)
        assert 0.8 * 15 * 4 <= await fleet.play(4) <= 1.1 * 15 * 4, "what was reserved before is thinned out, once"
        await fleet.play(8)
        assert 0.95 * 15 * 20 <= await fleet.play(20) <= 1.02 * 15 * 20
        await fleet.play(120)
        assert await fleet.play(10) >= 0.95 * 30 * 10, "and it has come back"
    assert excess(fleet.visits.sent, 30) <= 0


@pytest.mark.req("Z3")
async def test_nothing_is_sent_for_longer_than_was_reserved_when_the_table_is_gone() -> None:
    fleet, where = Fleet(2), site(rate=20, concurrency=8)
    async with fleet.busy(where, 0.1, each=8):
        await fleet.play(20)
        fleet.table.round_trip_seconds = 1e9
        await fleet.play(SHARE_SECONDS)
        assert await fleet.play(60) == 0
    assert excess(fleet.visits.sent, 20) <= 0


@pytest.mark.req("S2")
async def test_a_job_may_lower_the_rate_for_itself_over_all_hosts() -> None:
    fleet, where, slow = Fleet(2), site(rate=20, concurrency=64), ("slow", 5.0)
    async with running(
        *(fleet.visits.keep_visiting(pacer, where, 0.05, slow) for pacer in fleet.pacers for _ in "123")
    ):
        await fleet.play(10)
        assert await fleet.play(20) >= 0.8 * 5 * 20
    assert excess(fleet.visits.sent, 5.0) <= 1
    assert fleet.table.requests["write"] / len(fleet.visits.sent) < 0.35

"""Z3 over hosts whose clocks disagree: they go by the clock of DynamoDB, and no limit of a site is exceeded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swath.backends.aws.sites import site_table
from swath.fetch.sites.policies import Site
from swath.fetch.sites.rate_limiter import RateLimiter
from tests.integration.aws.simulated_fleet import HostClock, SlowTable, host_book
from tests.support.clock import FakeClock
from tests.unit.fetch.sites.simulation import Visits, excess, play, site

ROUND_TRIP_SECONDS = 0.006
PAGE_SECONDS = 0.2
skews = st.one_of(st.floats(-1.5, 1.5), st.floats(-120.0, 120.0), st.floats(-4e7, 4e7))


@pytest.fixture(autouse=True)
def _no_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_table, "_PAUSE_SECONDS", (0.0, 0.0))


class Host:
    """A worker on a host of its own, visiting the site as often as it may until it dies."""

    def __init__(self, clock: FakeClock, table: SlowTable, visits: Visits, skew_seconds: float, number: int) -> None:
        own = HostClock(clock, 1_234.5 * number, skew_seconds)
        self._pacer = RateLimiter(host_book(table, own, by_store_time=True), own, f"worker {number}")
        self._visits = visits

    @contextlib.asynccontextmanager
    async def busy(self, where: Site, each: int = 6) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._visits.keep_visiting(self._pacer, where, PAGE_SECONDS)) for _ in range(each)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(ended, asyncio.CancelledError), repr(ended)


async def visited(skew_seconds: Sequence[float], rate: float, alone_seconds: float, fraction: float) -> Visits:
    """One host after the other begins; together they are busy for a while."""
    clock = FakeClock(now=1_750_000_000.0 + fraction)
    table, visits = SlowTable(clock, ROUND_TRIP_SECONDS), Visits(clock)
    where = site(rate=rate, concurrency=4)
    async with contextlib.AsyncExitStack() as stack:
        for number, skew in enumerate(skew_seconds):
            await stack.enter_async_context(Host(clock, table, visits, skew, number).busy(where))
            await play(clock, alone_seconds)
        before = len(visits.sent)
        await play(clock, 12.0)
        assert len(visits.sent) - before >= 0.5 * 12.0 * rate, "nothing stands still"
    return visits


@pytest.mark.req("Z3", "Z10", "S1", "property 22")
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    skew_seconds=st.lists(skews, min_size=2, max_size=3),
    rate=st.sampled_from([2.0, 10.0, 18.0]),
    alone_seconds=st.floats(2.0, 14.0),
    fraction=st.floats(0.0, 0.999),
)
def test_hosts_with_any_clocks_exceed_neither_the_rate_nor_the_concurrency(
    skew_seconds: list[float], rate: float, alone_seconds: float, fraction: float
) -> None:
    """Each host comes while the others hold instants and slots, of which it sees the times by another clock."""
    visits = asyncio.run(visited(skew_seconds, rate, alone_seconds, fraction))
    assert excess(visits.sent, rate) <= 0
    assert visits.most_open <= 4

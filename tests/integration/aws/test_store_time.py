"""The store's time: what answers with whole seconds tell of it, over any clocks and any delays."""

from __future__ import annotations

import asyncio
import logging
import random
from email.utils import formatdate
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.fakes.aws import Endpoints
from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.client.shared_clock import ERROR_SECONDS, ServerClock
from swath.backends.clock import SystemClock
from swath.domain.errors import StoreUnavailable
from swath.domain.job import WaitingFor
from tests.integration.aws.simulated_fleet import HostClock
from tests.support.bounds import HANGING_SECONDS
from tests.support.clock import FakeClock
from tests.unit.fetch.sites.simulation import play

HALF_AN_HOUR = 1_800.0
skews = st.one_of(st.just(0.0), st.floats(-2.0, 2.0), st.floats(-4e7, 4e7))
delays = st.lists(st.tuples(st.floats(0.001, 8.0), st.floats(0.0, 3.0), st.floats(0.0, 3.0)), min_size=1, max_size=60)


class Store:
    """Answers requests, with the true time, in whole seconds."""

    def __init__(self, clock: FakeClock, round_trip_seconds: float) -> None:
        self._clock = clock
        self._round_trip_seconds = round_trip_seconds
        self.asked = 0

    async def ask(self, time: ServerClock) -> None:
        self.asked += 1
        sent_at = time.boot()
        await self._clock.sleep(self._round_trip_seconds / 2)
        date = formatdate(self._clock.now(), usegmt=True)
        await self._clock.sleep(self._round_trip_seconds / 2)
        time.heard(date, sent_at)


async def settled(clock: FakeClock, time: ServerClock, store: Store, seconds: float = 10.0) -> None:
    task = asyncio.create_task(time.settle(lambda: store.ask(time)))
    await play(clock, seconds)
    assert task.done()
    await task


@pytest.mark.req("Z3", "Z10")
@given(skew_seconds=skews, fraction=st.floats(0.0, 0.999), asked=delays)
def test_whatever_the_delays_the_true_time_lies_within_the_error(
    skew_seconds: float, fraction: float, asked: list[tuple[float, float, float]]
) -> None:
    clock = FakeClock(now=1_750_000_000.0 + fraction)
    host = HostClock(clock, 77.7, skew_seconds)
    time = ServerClock(host)
    for pause, there, back in asked:
        clock.advance(pause)
        sent_at = time.boot()
        clock.advance(there)
        date = formatdate(clock.now(), usegmt=True)
        clock.advance(back)
        before = time.error_seconds
        time.heard(date, sent_at)
        assert time.error_seconds <= before
        assert abs(time.from_boot(host.boot()) - clock.now()) <= time.error_seconds + 1e-6


@pytest.mark.req("Z3", "Z10")
@settings(max_examples=25, deadline=None)
@given(skew_seconds=skews, fraction=st.floats(0.0, 0.999), round_trip=st.floats(0.0005, 0.012))
def test_a_process_knows_the_time_to_some_milliseconds_after_a_second_or_two(
    skew_seconds: float, fraction: float, round_trip: float
) -> None:
    async def run() -> None:
        clock = FakeClock(now=1_750_000_000.0 + fraction)
        host = HostClock(clock, -500.0, skew_seconds)
        time, store = ServerClock(host), Store(clock, round_trip)
        await settled(clock, time, store, seconds=2.5)
        assert time.error_seconds <= 1.1 * ERROR_SECONDS, "it grows again while nothing is asked"
        assert abs(time.from_boot(host.boot()) - clock.now()) <= 1.1 * ERROR_SECONDS
        assert store.asked <= 40

    asyncio.run(run())


@pytest.mark.req("Z3")
async def test_the_time_is_kept_exact_in_the_background_and_nobody_waits_for_it() -> None:
    clock = FakeClock()
    host = HostClock(clock, 0.0, skew_seconds=-90.0)
    time, store = ServerClock(host), Store(clock, 0.004)
    await settled(clock, time, store)
    asked = store.asked
    for _ in range(int(HALF_AN_HOUR / 10)):
        await play(clock, 10.0)
        await asyncio.wait_for(time.settle(lambda: store.ask(time)), HANGING_SECONDS)
        assert time.error_seconds < 0.05
    assert 0 < store.asked - asked < HALF_AN_HOUR / 5


@pytest.mark.req("Z3", "Z10")
async def test_when_the_clock_of_the_store_is_set_it_is_followed() -> None:
    clock = FakeClock()
    host = HostClock(clock, 0.0)
    time, store = ServerClock(host), Store(clock, 0.004)
    await settled(clock, time, store)
    clock.jump_wall(-40.0)
    answer = asyncio.create_task(store.ask(time))
    await play(clock, 1.0)
    await answer
    assert time.error_seconds > 0.3, "what was known before is worth nothing"
    await settled(clock, time, store)
    assert abs(time.from_boot(host.boot()) - clock.now()) <= 1.1 * ERROR_SECONDS


@pytest.mark.req("Z3")
async def test_a_store_that_answers_slowly_or_without_a_date_holds_nobody_up_for_long() -> None:
    clock = FakeClock()
    slow = ServerClock(HostClock(clock, 0.0))
    store = Store(clock, 0.8)
    await settled(clock, slow, store)
    assert slow.error_seconds < 0.6
    asked = store.asked
    await asyncio.wait_for(slow.settle(lambda: store.ask(slow)), HANGING_SECONDS)
    assert store.asked == asked, "it does not try again at once"

    mute = ServerClock(HostClock(clock, 0.0, skew_seconds=7.0))

    async def unanswered() -> None:
        mute.heard(None, mute.boot())
        mute.heard("nonsense", mute.boot())

    await asyncio.wait_for(mute.settle(unanswered), HANGING_SECONDS)
    assert mute.from_boot(0.0) == clock.now() - clock.boot() + 7.0, "then its own clock is all that there is"


async def test_what_is_wrong_with_the_store_is_raised() -> None:
    async def down() -> None:
        raise StoreUnavailable("it is away", WaitingFor.STORE)

    time = ServerClock(FakeClock())
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="it is away"):
            await time.settle(down)


async def test_a_wall_clock_that_is_wrong_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    time, store = ServerClock(HostClock(clock, 0.0, skew_seconds=61.0)), Store(clock, 0.004)
    with caplog.at_level(logging.WARNING, "swath.aws"):
        for _ in range(3):
            await settled(clock, time, store)
            await play(clock, 1_000.0)
    assert [record.getMessage() for record in caplog.records] == [
        "this host's clock is 61.0 s ahead of the clock of DynamoDB; set it by NTP"
    ]


@pytest.mark.req("Z3", "Z10")
async def test_dynamodb_tells_its_time_to_every_process(aws: Endpoints) -> None:
    """Over the real connection: hosts with clocks hours apart agree on it."""
    del aws
    clock, luck = SystemClock(), random.Random(1)
    for _ in range(2):
        host = HostClock(clock, luck.uniform(-1e6, 1e6), luck.uniform(-1e6, 1e6))  # type: ignore[arg-type]  # it is read
        time = ServerClock(host)
        clients = AwsClients(time=time)
        try:
            await asyncio.wait_for(time.settle(partial(clients.call, "dynamodb", "list_tables")), 60)
            assert time.error_seconds < 0.5
            assert abs(time.from_boot(time.boot()) - clock.now()) <= time.error_seconds
        finally:
            await clients.close()

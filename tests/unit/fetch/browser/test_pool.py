"""The pool's own decisions, with browsers that are none: who gets what, what is replaced, and what is waited for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import Failed
from swath.domain.failure import FailureKind
from swath.fetch.browser.pool.health import HealthMonitor
from swath.fetch.browser.pool.instance import (
    BrowserSlot,
    BrowserUsage,
    PoolExhausted,
    PoolOptions,
    is_pool_exhausted,
    replacement_reason,
)
from swath.fetch.browser.pool.pool import BrowserPool
from tests.support.clock import FakeClock

if TYPE_CHECKING:
    from patchright.async_api import Browser

pytestmark = pytest.mark.req("B1")


class StandIn:
    """A browser that is none, and keeps book of what was done to it."""

    def __init__(self) -> None:
        self.browser = cast("Browser", object())
        self.version = "1.2.3"
        self.user: int | None = None
        self.downloads = Path("/nonexistent")
        self.gone = asyncio.Event()
        self.ended = ""
        self.answering = True
        self.bytes = 0
        self.served = 0  # by the test

    def admit(self, window: str) -> None:
        """It has none."""

    async def answers(self) -> bool:
        return self.answering

    async def memory_bytes(self) -> int:
        return self.bytes

    async def close(self) -> None:
        self.ended = self.ended or "closed"

    async def kill(self) -> None:
        self.ended = self.ended or "killed"


class Factory:
    """Starts stand-ins; fails as often as it is told to; waits while it is told to."""

    def __init__(self) -> None:
        self.started: list[StandIn] = []
        self.tries = 0
        self.failures = 0
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self) -> StandIn:
        self.tries += 1
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("no room")
        self.started.append(StandIn())
        return self.started[-1]

    @property
    def living(self) -> list[StandIn]:
        return [one for one in self.started if not one.ended]


class World:
    def __init__(self, **options: Any) -> None:
        self.clock = FakeClock()
        self.factory = Factory()
        self.pool = BrowserPool(PoolOptions(**options), self.clock, self.factory)
        self.keeper = HealthMonitor(self.pool, self.clock, lambda: 0)


@asynccontextmanager
async def world(**options: Any) -> AsyncIterator[World]:
    made = World(**options)
    try:
        yield made
    finally:
        await made.pool.close()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def of(place: BrowserSlot) -> StandIn:
    assert isinstance(place.running, StandIn)
    return place.running


@pytest.mark.req("property 12")
@settings(max_examples=150, deadline=None)
@given(
    browsers=st.integers(1, 3),
    concurrency=st.integers(1, 6),
    most_pages=st.integers(1, 5),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 2)), max_size=60),
)
def test_a_browser_is_recycled_when_it_has_served_its_page_limit(
    browsers: int, concurrency: int, most_pages: int, steps: list[tuple[bool, int, int]]
) -> None:
    asyncio.run(_page_limit(browsers, concurrency, most_pages, steps))


async def _page_limit(browsers: int, concurrency: int, most_pages: int, steps: list[tuple[bool, int, int]]) -> None:
    async with world(browsers=browsers, concurrency=concurrency, most_pages=most_pages) as it:
        held: list[BrowserSlot] = []
        for take, which, pages in steps:
            if take and len(held) < concurrency:
                async with asyncio.timeout(60):  # there is a free place, so nobody has to wait for another's work
                    place = await it.pool.acquire()
                # Nobody gets a place in a browser that has served its limit, or will have when all in it are done.
                assert of(place).served + sum(1 for other in held if of(other) is of(place)) < most_pages
                assert not of(place).ended
                held.append(place)
            elif held:
                place = held.pop(which % len(held))
                of(place).served += pages
                it.pool.release(place, pages=pages)
            await settle()
            assert it.pool.stats.in_use == len(held) <= concurrency
            assert len(it.factory.living) <= browsers + len({of(place) for place in held})
            for one in it.factory.started:
                inside = sum(1 for other in held if of(other) is one)
                if one.served >= most_pages and not inside:
                    assert one.ended == "closed"  # in good order, since nothing was wrong with it
                if inside:
                    assert not one.ended  # nobody loses the browser that he works in
        stats = it.pool.stats
        assert stats.recycled_count == sum(1 for one in it.factory.started if one.ended)
        assert stats.pages_processed == sum(one.served for one in it.factory.started)
        assert stats.total == stats.available + stats.in_use == concurrency


@given(pages=st.integers(0, 300), in_use=st.integers(0, 8), mib=st.integers(0, 3_000), age=st.floats(0, 5_000))
def test_a_browser_is_due_by_pages_memory_or_age_and_by_nothing_else(
    pages: int, in_use: int, mib: int, age: float
) -> None:
    due = replacement_reason(
        PoolOptions(), BrowserUsage(pages=pages, in_use=in_use, memory_bytes=mib << 20, age_seconds=age)
    )
    assert (due is not None) == (pages + in_use >= 100 or mib >= 1_024 or age >= 1_800)


async def test_nothing_is_started_before_somebody_asks() -> None:
    async with world(browsers=3) as it:
        await it.keeper.run_once()
        assert it.factory.tries == 0


async def test_places_are_spread_over_the_browsers() -> None:
    async with world(browsers=2, concurrency=4) as it:
        first = [await it.pool.acquire(), await it.pool.acquire()]
        await settle()
        second = [await it.pool.acquire(), await it.pool.acquire()]
        assert len({of(place) for place in (*first, *second)}) == 2
        loads = [sum(1 for place in (*first, *second) if of(place) is one) for one in it.factory.started]
        assert loads == [2, 2]


async def test_who_was_in_a_browser_before_gets_it_again_if_there_is_a_choice() -> None:
    async with world(browsers=2, concurrency=4) as it:
        places = [await it.pool.acquire(), await it.pool.acquire()]
        await settle()
        for place in places:
            it.pool.release(place)
        for one in it.factory.started:
            place = await it.pool.acquire(near=one)
            assert of(place) is one
            it.pool.release(place)


async def test_who_asks_first_is_served_first() -> None:
    async with world(browsers=1) as it:
        held = await it.pool.acquire()
        served: list[int] = []

        async def ask(number: int) -> None:
            place = await it.pool.acquire()
            served.append(number)
            it.pool.release(place)

        tasks = []
        for number in range(5):
            tasks.append(asyncio.create_task(ask(number)))
            await settle()
        it.pool.release(held)
        await asyncio.gather(*tasks)
        assert served == [0, 1, 2, 3, 4]


async def test_an_exhausted_pool_says_so_after_ten_seconds_and_not_before() -> None:
    async with world(browsers=1) as it:
        await it.pool.acquire()
        late = asyncio.create_task(it.pool.acquire())
        await settle()
        it.clock.advance(9.9)
        await settle()
        assert not late.done()
        it.clock.advance(0.2)
        with pytest.raises(PoolExhausted, match=r"^browser_crash: pool_exhausted: .*10 s") as caught:
            await late
        assert caught.value.failure.kind is FailureKind.BROWSER_CRASH
        assert is_pool_exhausted(caught.value.failure)
        assert it.pool.stats.waiting == 0


async def test_who_stops_waiting_leaves_no_place_taken() -> None:
    async with world(browsers=1) as it:
        held = await it.pool.acquire()
        waits = asyncio.create_task(it.pool.acquire())
        await settle()
        it.pool.release(held)  # the place is his now, and in the same moment he is told to stop
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert it.pool.stats.in_use == 0
        assert (await it.pool.acquire()).running is held.running


@pytest.mark.parametrize("how", ["dies", "broken", "silent", "hog"])
async def test_a_browser_that_fails_is_replaced_and_its_places_are_lost_at_once(how: str) -> None:
    async with world(browsers=1, concurrency=2, most_memory_bytes=100) as it:
        one, other = await it.pool.acquire(), await it.pool.acquire()
        if how == "dies":
            of(one).gone.set()
        elif how == "broken":
            it.pool.release(one, broken=True)
        elif how == "silent":
            of(one).answering = False
            await it.keeper.run_once()
        else:
            of(one).bytes = 200
            await it.keeper.run_once()
        await settle()
        assert other.lost.is_set()
        with pytest.raises(Failed, match="browser_crash"):
            _ = other.browser
        assert of(one).ended == "killed"
        it.pool.release(other)
        it.pool.release(one)
        again = await it.pool.acquire()
        assert of(again) is not of(one)
        assert (it.pool.stats.crashed_count, it.pool.stats.recycled_count) == (1, 0)


async def test_a_browser_that_has_grown_is_replaced_when_nobody_is_in_it() -> None:
    async with world(browsers=1, concurrency=2, most_memory_bytes=100) as it:
        place = await it.pool.acquire()
        of(place).bytes = 150
        await it.keeper.run_once()
        assert not place.lost.is_set()
        successor = await it.pool.acquire()
        assert of(successor) is not of(place)
        it.pool.release(place)
        await settle()
        assert of(place).ended == "closed"
        assert it.pool.stats.recycled_count == 1


async def test_a_browser_that_has_grown_old_takes_nobody() -> None:
    async with world(browsers=1, most_age_seconds=60) as it:
        place = await it.pool.acquire()
        it.pool.release(place)
        it.clock.advance(61)
        assert of(await it.pool.acquire()) is not of(place)
        await settle()
        assert of(place).ended == "closed"


async def test_an_old_browser_that_nobody_uses_is_closed_and_none_started() -> None:
    async with world(browsers=1, most_age_seconds=60) as it:
        it.pool.release(await it.pool.acquire())
        it.clock.advance(61)
        await it.keeper.run_once()
        await settle()
        assert it.factory.living == []
        assert it.factory.tries == 1


async def test_the_successor_starts_while_the_last_page_is_still_loading() -> None:
    async with world(browsers=1, most_pages=1) as it:
        place = await it.pool.acquire()
        await settle()
        assert len(it.factory.living) == 2
        it.pool.release(place)
        assert of(await it.pool.acquire()) is it.factory.started[1]


async def test_starts_that_fail_are_tried_again_later_and_later() -> None:
    async with world(browsers=2, acquire_seconds=1_000) as it:
        it.factory.failures = 5
        waits = asyncio.create_task(it.pool.acquire())
        tried = []
        for _ in range(40):
            await settle()
            tried.append(it.factory.tries)
            it.clock.advance(1)
        assert tried[:8] == [1, 2, 2, 3, 3, 3, 3, 4]  # after 1, 2, 4 … seconds
        of(await waits)
        assert it.pool.stats.trouble is None


async def test_who_cannot_be_served_in_time_hears_at_once_why() -> None:
    async with world(browsers=1, first_backoff_seconds=20) as it:
        it.factory.failures = 9
        for _ in range(3):
            with pytest.raises(PoolExhausted, match="browsers do not start: OSError: no room") as caught:
                await it.pool.acquire()
            assert caught.value.failure.retry_after_seconds == pytest.approx(20)
        assert it.factory.tries == 1
        assert it.pool.stats.trouble == "OSError: no room"


@pytest.mark.req("I4")
async def test_no_place_counts_as_available_while_a_start_takes_longer_than_anyone_waits() -> None:
    async with world(browsers=1, acquire_seconds=10) as it:
        assert it.pool.stats.available == 1
        it.factory.open.clear()
        waits = asyncio.create_task(it.pool.acquire())
        await settle()
        assert it.pool.stats.available == 1
        it.clock.advance(10)
        with pytest.raises(PoolExhausted):
            await waits
        assert (it.pool.stats.available, it.pool.stats.in_use) == (0, 0)
        it.factory.open.set()
        await settle()
        assert it.pool.stats.available == 1


@pytest.mark.req("I4", "I1")
async def test_a_check_is_over_before_an_item_would_have_waited_in_vain() -> None:
    """So that an order over HTTP is refused within ten seconds, all that is done beside it included."""
    async with world(browsers=1) as it:
        it.factory.open.clear()
        checks = asyncio.create_task(it.pool.check())
        await settle()
        it.clock.advance(9)
        with pytest.raises(PoolExhausted, match="no browser came free within 9 s"):
            await checks
        assert it.pool.stats.available == 0


async def test_browsers_that_die_as_soon_as_they_start_are_not_started_in_a_tight_loop() -> None:
    async with world(browsers=1) as it:
        for _ in range(50):
            waits = asyncio.create_task(it.pool.acquire())
            await settle()
            for one in it.factory.started:
                one.gone.set()
            await settle()
            waits.cancel()
            await asyncio.gather(waits, return_exceptions=True)
            it.clock.advance(0.1)
        assert it.factory.tries <= 6  # in five seconds


async def test_close_ends_everything_and_fails_those_who_wait() -> None:
    it = World(browsers=1)
    place = await it.pool.acquire()
    waits = asyncio.create_task(it.pool.acquire())
    await settle()
    await it.pool.close()
    with pytest.raises(Failed, match="closed"):
        await waits
    with pytest.raises(Failed, match="closed"):
        await it.pool.acquire()
    assert place.lost.is_set()
    assert it.factory.living == []


async def test_close_does_not_wait_for_a_browser_that_never_starts() -> None:
    it = World(browsers=1)
    it.factory.open.clear()
    waits = asyncio.create_task(it.pool.acquire())
    await settle()
    await it.pool.close()
    with pytest.raises(Failed, match="closed"):
        await waits
    assert it.factory.started == []


async def test_the_keeper_looks_for_orphans_at_the_start_and_every_minute() -> None:
    looks: list[float] = []
    it = World(browsers=1)

    def look() -> int:
        looks.append(it.clock.boot())
        return 0

    keeper = HealthMonitor(it.pool, it.clock, look)
    began = it.clock.boot()
    for _ in range(37):
        await keeper.run_once()
        it.clock.advance(5)
    assert [at - began for at in looks] == [0, 60, 120, 180]
    await it.pool.close()

"""The pacer on a fake clock: rate and concurrency over several workers, stalls, outages and cancellations."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.errors import LeaseLost, StoreUnavailable, UserError
from swath.domain.job import WaitingFor
from swath.fetch.sites.policies import Site
from swath.fetch.sites.rate_limiter import RateLimiter
from swath.ports.site_state import SHARE_SECONDS, SiteShareGrant, SiteShareRequest
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState
from tests.unit.fetch.sites.simulation import Visits, excess, play, settle, site


class Book(MemorySiteState):
    """Counts what it is asked, and can be out of reach."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.asks: list[SiteShareRequest] = []
        self.gone = False

    async def ask(self, name: str, worker_id: str, ask: SiteShareRequest) -> SiteShareGrant:
        if self.gone:
            raise StoreUnavailable("locked", WaitingFor.STORE)
        self.asks.append(ask)
        return await super().ask(name, worker_id, ask)


@contextlib.asynccontextmanager
async def running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            assert ended is None or isinstance(ended, asyncio.CancelledError), repr(ended)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def book(clock: FakeClock) -> Book:
    return Book(clock)


@pytest.mark.req("S2", "D2", "Z3")
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("rate", [2.0, 10.0, 75.0])
async def test_the_whole_rate_is_used_and_no_more(workers: int, rate: float, clock: FakeClock, book: Book) -> None:
    pacers = [RateLimiter(book, clock, f"w{number}") for number in range(workers)]
    visits, where = Visits(clock), site(rate=rate, concurrency=100)
    async with running(*(visits.keep_visiting(pacer, where, 0.01) for pacer in pacers for _ in range(12))):
        await play(clock, 6)
    assert len(visits.sent) >= 0.95 * rate * 6
    assert excess(visits.sent, rate) <= 0


@pytest.mark.req("S1", "Z3")
@pytest.mark.parametrize("workers", [1, 2, 4])
async def test_the_whole_concurrency_is_used_and_no_more(workers: int, clock: FakeClock, book: Book) -> None:
    pacers = [RateLimiter(book, clock, f"w{number}") for number in range(workers)]
    visits, where = Visits(clock), site(rate=1_000, concurrency=8)
    async with running(*(visits.keep_visiting(pacer, where, 0.2) for pacer in pacers for _ in range(16))):
        await play(clock, 2)  # shares have found their places
        before = len(visits.sent)
        await play(clock, 6)
    assert visits.most_open == 8
    assert len(visits.sent) - before >= 0.95 * 8 * 6 / 0.2


@pytest.mark.req("property 22")
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_property_22_grants_never_exceed_the_bucket_and_sites_do_not_affect_each_other(data: st.DataObject) -> None:
    asyncio.run(_random_traffic(data))


async def _random_traffic(data: st.DataObject) -> None:
    clock = FakeClock()
    book = Book(clock)
    pacers = [RateLimiter(book, clock, f"w{number}") for number in range(data.draw(st.integers(1, 3), "workers"))]
    rates, limits = st.floats(0.5, 60), st.integers(1, 12)
    sites = [site(name, rate=data.draw(rates), concurrency=data.draw(limits)) for name in ("a", "b")]
    seen = {where.name: Visits(clock) for where in sites}

    async def one(number: int) -> None:
        where = data.draw(st.sampled_from(sites), f"site {number}")
        await clock.sleep(data.draw(st.floats(0, 3), f"begins {number}"))
        patience = data.draw(st.sampled_from([None, 0.01, 0.5]), f"patience {number}")
        work = seen[where.name].visit(pacers[number % len(pacers)], where, data.draw(st.floats(0, 0.4)))
        if patience is None:
            await work
            return
        task = asyncio.create_task(work)
        await clock.sleep(patience)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async with running(*(one(number) for number in range(data.draw(st.integers(1, 60), "requests")))) as tasks:
        await play(clock, 4)
        clock.advance(data.draw(st.floats(0, 2), "stall"))
        await play(clock, 200)
        assert all(task.done() for task in tasks)
    for where in sites:
        assert excess(seen[where.name].sent, where.policy.rate.per_second) <= 0
        assert seen[where.name].most_open <= where.policy.concurrency
        assert seen[where.name].open == 0
    assert {state.open_requests for state in (await book.states()).values()} <= {0}, "a share was leaked"


@pytest.mark.req("D2")
async def test_a_site_that_is_slow_holds_no_other_up(clock: FakeClock, book: Book) -> None:
    pacer, slow, quick = RateLimiter(book, clock, "w"), site("slow", rate=0.01), site("quick", rate=10)
    visits = Visits(clock)
    async with running(*(visits.keep_visiting(pacer, slow, 0.0) for _ in range(5))):
        await play(clock, 1)
        met = Visits(clock)
        async with running(*(met.visit(pacer, quick, 0.0) for _ in range(5))):
            await play(clock, 1)
        assert len(met.sent) == 5


@pytest.mark.req("Z3")
async def test_after_a_stall_of_the_loop_instants_are_lost_and_not_made_up_for(clock: FakeClock, book: Book) -> None:
    pacer, visits, where = RateLimiter(book, clock, "w"), Visits(clock), site(rate=100, concurrency=100)
    async with running(*(visits.keep_visiting(pacer, where, 0.001) for _ in range(40))):
        for _ in range(8):
            await play(clock, 1)
            before = len(visits.sent)
            clock.advance(0.09)  # nobody was served meanwhile, though a slice of ten instants was at hand
            await settle()
            assert len(visits.sent) - before <= 3, "those of the last 20 ms"
    assert excess(visits.sent, 100) <= 0


@pytest.mark.req("Z3")
async def test_a_request_that_was_let_go_but_did_not_get_the_processor_is_late(clock: FakeClock, book: Book) -> None:
    pacer, where = RateLimiter(book, clock, "w"), site(rate=10)
    await pacer.acquire(where)
    waiting = asyncio.create_task(pacer.acquire(where))
    await play(clock, 0.095)
    book.gone = True  # so that there is no other instant to be had
    clock.advance(0.005)  # its own comes: the alarm rings, it is let go …
    while pacer._lanes["county"]._share.in_use != 2:
        await asyncio.sleep(0)
    clock.advance(0.05)  # … and the loop is busy with other things before it can send
    await settle()
    assert not waiting.done()
    assert pacer._lanes["county"]._share.in_use == 1
    book.gone = False
    await play(clock, 1)
    waiting.result().release()


@pytest.mark.req("D2")
async def test_a_lower_rate_that_becomes_known_while_the_site_is_busy_holds_from_then_on(
    clock: FakeClock, book: Book
) -> None:
    pacer, where, sent = RateLimiter(book, clock, "w"), site(rate=10), list[float]()

    async def keep_asking() -> None:
        while True:
            (await pacer.acquire(where, rate=None if clock.boot() < start + 2 else 1.0)).release()
            sent.append(clock.boot())

    start = clock.boot()
    async with running(keep_asking()):
        await play(clock, 12)
    late = [at for at in sent if at > start + 3]
    assert 19 <= sum(at <= start + 2 for at in sent) <= 22
    assert 8 <= len(late) <= 10


@pytest.mark.req("D2")
async def test_who_comes_first_goes_first(clock: FakeClock, book: Book) -> None:
    pacer, where, order = RateLimiter(book, clock, "w"), site(rate=10), list[int]()

    async def go(number: int) -> None:
        permit = await pacer.acquire(where)
        order.append(number)
        permit.release()

    async with running(*(go(number) for number in range(9))):
        await play(clock, 2)
    assert order == sorted(order) == list(range(9))


@pytest.mark.req("Z3")
async def test_cancelled_waiters_leave_nothing_behind(clock: FakeClock, book: Book) -> None:
    pacer, where = RateLimiter(book, clock, "w"), site(rate=100, concurrency=2)
    first, second = await pacer.acquire(where), asyncio.create_task(pacer.acquire(where))
    await play(clock, 0.1)
    waiting = [asyncio.create_task(pacer.acquire(where)) for _ in range(10)]
    await play(clock, 0.1)
    for task in waiting[:9]:
        task.cancel()
    first.release()
    await play(clock, 0.1)
    assert waiting[9].done(), "the one that is left has the slot"
    waiting[9].result().release()
    second.result().release()
    await play(clock, 3)
    assert not pacer._lanes, "and when all are gone, so is the lane"
    assert (await book.states())["county"].open_requests == 0


@pytest.mark.req("Z3")
async def test_a_waiter_that_is_cancelled_in_the_moment_it_is_let_go_gives_its_slot_back(
    clock: FakeClock, book: Book
) -> None:
    pacer, where = RateLimiter(book, clock, "w"), site(rate=10, concurrency=5)
    (await pacer.acquire(where)).release()
    waiting = asyncio.create_task(pacer.acquire(where))
    await settle()
    clock.advance(0.1)
    while not pacer._lanes["county"]._share.in_use:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert pacer._lanes["county"]._share.in_use == 0


@pytest.mark.req("Z3")
async def test_a_permit_can_be_given_back_twice(clock: FakeClock, book: Book) -> None:
    pacer, where = RateLimiter(book, clock, "w"), site(rate=100, concurrency=5)
    first, second = await pacer.acquire(where), asyncio.create_task(pacer.acquire(where))
    await play(clock, 0.1)
    first.release()
    first.release()
    assert pacer._lanes["county"]._share.in_use == 1
    second.result().release()


@pytest.mark.req("Z3")
async def test_nothing_is_sent_while_the_book_is_out_of_reach(clock: FakeClock, book: Book) -> None:
    pacer, visits, where = RateLimiter(book, clock, "w"), Visits(clock), site(rate=50)
    async with running(*(visits.keep_visiting(pacer, where, 0.01) for _ in range(5))):
        await play(clock, 2)
        book.gone = True
        await play(clock, 0.2)  # what is left of the slice at hand
        before = len(visits.sent)
        await play(clock, 30)
        assert len(visits.sent) == before
        book.gone = False
        await play(clock, 3)
        assert len(visits.sent) >= before + 50
    assert excess(visits.sent, 50) <= 0


@pytest.mark.req("Z3")
async def test_a_share_that_the_book_has_not_confirmed_for_too_long_is_not_used(clock: FakeClock, book: Book) -> None:
    where = site(rate=0.05, concurrency=4)
    (await RateLimiter(book, clock, "other").acquire(where)).release()
    waiting = asyncio.create_task(RateLimiter(book, clock, "w").acquire(where))
    await play(clock, 1)
    book.gone = True
    await play(clock, SHARE_SECONDS + 10)  # the instant that was reserved has come and gone
    assert not waiting.done()
    book.gone = False
    await play(clock, 30)
    waiting.result().release()


@pytest.mark.req("S1")
async def test_a_newcomer_gets_its_share_from_a_worker_that_has_all(clock: FakeClock, book: Book) -> None:
    first, second, where = RateLimiter(book, clock, "a"), RateLimiter(book, clock, "b"), site(rate=1_000, concurrency=6)
    old, new = Visits(clock), Visits(clock)
    async with running(*(old.keep_visiting(first, where, 0.1) for _ in range(20))):
        await play(clock, 3)
        assert old.open == 6
        async with running(*(new.keep_visiting(second, where, 0.1) for _ in range(20))):
            await play(clock, 0.6)
            assert (old.open, new.open) == (3, 3)
        await play(clock, 1.5)
        assert old.open == 6


@pytest.mark.req("Z3", "S1")
async def test_an_idle_worker_gives_its_share_up(clock: FakeClock, book: Book) -> None:
    first, second, where = RateLimiter(book, clock, "a"), RateLimiter(book, clock, "b"), site(rate=1_000, concurrency=4)
    permits = [await first.acquire(where)]
    for _ in range(3):
        task = asyncio.create_task(first.acquire(where))
        await play(clock, 0.1)
        permits.append(task.result())
    late = [asyncio.create_task(second.acquire(where)) for _ in range(4)]
    await play(clock, 1)
    assert not any(task.done() for task in late)
    for permit in permits:
        permit.release()
    await play(clock, 0.5)
    assert all(task.done() for task in late)
    assert "county" not in first._lanes


@pytest.mark.req("S7", "D2")
async def test_a_complaint_halves_the_rate_of_all_workers(clock: FakeClock, book: Book) -> None:
    pacers = [RateLimiter(book, clock, name) for name in "ab"]
    visits, where = Visits(clock), site(rate=40, concurrency=50, slow_down_seconds=30)
    async with running(*(visits.keep_visiting(pacer, where, 0.01) for pacer in pacers for _ in range(5))):
        await play(clock, 3)
        for _ in range(10):  # many answers to what was under way say the same thing once
            pacers[0].slow_down(where, clock.boot() - 0.01)
        await play(clock, 0.2)
        before = len(visits.sent)
        await play(clock, 10)
        assert 0.95 * 200 <= len(visits.sent) - before <= 1.05 * 200
        await play(clock, 90)
        before = len(visits.sent)
        await play(clock, 5)
        assert len(visits.sent) - before >= 0.95 * 200, "and it has come back"


@pytest.mark.req("H5", "S2")
async def test_a_crawl_delay_lowers_the_rate_and_a_short_one_does_not_raise_it(clock: FakeClock, book: Book) -> None:
    pacer, where, sent = RateLimiter(book, clock, "w"), site(rate=10), list[float]()

    async def keep_visiting(rate: float) -> None:
        while True:
            (await pacer.acquire(where, rate=rate)).release()
            sent.append(clock.boot())

    async with running(keep_visiting(2.0), keep_visiting(1_000.0)):
        await play(clock, 10)
    assert 19 <= len(sent) <= 21


@pytest.mark.req("D2")
async def test_calm_traffic_asks_the_book_seldom(clock: FakeClock, book: Book) -> None:
    pacer, visits, where = RateLimiter(book, clock, "w"), Visits(clock), site(rate=200, concurrency=100)
    async with running(*(visits.keep_visiting(pacer, where, 0.5) for _ in range(30))):
        await play(clock, 10)
    assert len(visits.sent) > 500
    assert len(book.asks) < 350


async def test_a_mistake_in_the_book_is_heard_by_whoever_waits(clock: FakeClock, book: Book) -> None:
    async def broken(name: str, worker_id: str, ask: SiteShareRequest) -> SiteShareGrant:
        raise ZeroDivisionError

    book.ask = broken  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        await RateLimiter(book, clock, "w").acquire(site())


@pytest.mark.req("Z3")
async def test_closing_gives_up_all_shares(clock: FakeClock, book: Book) -> None:
    pacer, where = RateLimiter(book, clock, "w"), site()
    permit = await pacer.acquire(where)
    permit.release()
    await pacer.close()
    assert (await book.states())["county"].open_requests == 0
    assert clock.sleeping == 0 or all(task is asyncio.current_task() for task in asyncio.all_tasks())


async def test_nothing_is_left_behind_by_what_outlives_the_end(clock: FakeClock, book: Book) -> None:
    async def gone(worker_ids: object) -> None:
        raise UserError("there is no table")

    book.forget = gone  # type: ignore[method-assign]
    pacer, where = RateLimiter(book, clock, "w"), site()
    permit = await pacer.acquire(where)
    await pacer.close()
    permit.release()
    pacer.slow_down(where, clock.boot())
    with pytest.raises(LeaseLost):
        await pacer.acquire(where)
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def _job_site(name: str = "county") -> Site:
    return site(name, rate=20, concurrency=50)


@pytest.mark.req("S2")
@pytest.mark.parametrize("workers", [1, 2])
async def test_a_job_may_lower_the_rate_for_itself(workers: int, clock: FakeClock, book: Book) -> None:
    pacers = [RateLimiter(book, clock, f"w{number}") for number in range(workers)]
    slow, other, where = Visits(clock), Visits(clock), _job_site()
    async with running(
        *(slow.keep_visiting(pacer, where, 0.01, ("slow", 5.0)) for pacer in pacers for _ in range(4)),
        *(other.keep_visiting(pacer, where, 0.01) for pacer in pacers for _ in range(4)),
    ):
        await play(clock, 20)
    assert len(slow.sent) >= 0.8 * 5 * 20
    assert excess(slow.sent, 5.0) <= workers - 1
    assert len(slow.sent) + len(other.sent) >= 0.95 * 20 * 20
    assert excess([*slow.sent, *other.sent], 20.0) <= 0


@pytest.mark.req("S2")
async def test_a_job_cannot_raise_the_rate(clock: FakeClock, book: Book) -> None:
    pacer, visits, where = RateLimiter(book, clock, "w"), Visits(clock), _job_site()
    async with running(*(visits.keep_visiting(pacer, where, 0.01, ("greedy", 500.0)) for _ in range(9))):
        await play(clock, 5)
    assert excess(visits.sent, 20.0) <= 0


@pytest.mark.req("S2")
async def test_requests_of_a_slow_job_do_not_pile_up_at_a_site_that_is_busy(clock: FakeClock, book: Book) -> None:
    pacer, visits, where = RateLimiter(book, clock, "w"), Visits(clock), site(rate=50, concurrency=1)
    long = await pacer.acquire(where)
    async with running(*(visits.keep_visiting(pacer, where, 0.0, ("slow", 2.0)) for _ in range(8))):
        await play(clock, 10)
        assert not visits.sent
        long.release()
        await play(clock, 10)
    assert excess(visits.sent, 2.0) <= 0
    assert len(visits.sent) >= 18


@pytest.mark.req("S2")
async def test_a_site_that_keeps_a_job_waiting_does_not_keep_it_from_other_sites(clock: FakeClock, book: Book) -> None:
    pacer, visits = RateLimiter(book, clock, "w"), Visits(clock)
    busy, free = site("busy", rate=50, concurrency=1), _job_site("free")
    held = await pacer.acquire(busy)
    async with running(
        *(visits.keep_visiting(pacer, busy, 0.0, ("slow", 2.0)) for _ in range(3)),
        visits.keep_visiting(pacer, free, 0.0, ("slow", 2.0)),
    ):
        await play(clock, 5)
        assert 8 <= len(visits.sent) <= 12
    held.release()


@pytest.mark.req("H5", "S2")
async def test_a_crawl_delay_holds_for_a_job_with_a_rate_of_its_own_too(clock: FakeClock, book: Book) -> None:
    pacer, where, sent = RateLimiter(book, clock, "w"), _job_site(), list[float]()

    async def visit(number: int) -> None:
        (await pacer.acquire(where, rate=1.0, job=(f"job {number}", 0.5))).release()
        sent.append(clock.boot())

    async with running(*(visit(number // 3) for number in range(12))):
        await play(clock, 30)
    assert len(sent) == 12
    assert excess(sent, 1.0) <= 0

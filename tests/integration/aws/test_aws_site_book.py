"""The site book on DynamoDB: shared by hosts, whoever writes at the same time, and whatever becomes of requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from harness.fakes.aws_faults import Faults, Rates
from swath.backends.aws.client.client import AwsClients
from swath.backends.aws.client.event_loop_thread import EventLoopThread
from swath.backends.aws.client.rows import Key, Put
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.sites import site_state, site_table
from swath.backends.aws.sites.site_state import AwsSiteState
from swath.domain.circuit_breaker import CircuitState, SiteCircuit
from swath.domain.errors import StoreDamaged, StoreUnavailable
from swath.domain.job import WaitingFor
from swath.domain.site_policy import Breaker
from swath.domain.token_bucket import RateSlice
from swath.ports.clock import Clock
from swath.ports.site_state import SHARE_SECONDS, CachedRobots, SiteShareGrant, SiteShareRequest, SiteState
from tests.contract.suites.site_state import SiteStateContract
from tests.contract.suites.site_state_rate import instants, over_rate, slices
from tests.integration.aws.simulated_fleet import HostClock
from tests.support.clock import FakeClock

BREAKER = Breaker(window=2, failures=1, reopen_seconds=600)
PART = SiteShareRequest(rate=10.0, requests=99, part=True, concurrency=8, demand=4)
ONE = SiteShareRequest(rate=10.0, requests=1, concurrency=8, ceiling=8, demand=4)


class Host:
    """One process: a bridge of its own, and clients that live behind it."""

    def __init__(self, name: str, clock: Clock, faults: Faults | None, patience_seconds: float) -> None:
        self.clients = AwsClients(intercept=faults, patience_seconds=patience_seconds)
        self.bridge = EventLoopThread()
        self.book = AwsSiteState(self.bridge, Table(self.clients, name), clock)

    async def close(self) -> None:
        await self.book.close()
        await self.bridge.run(self.clients.close)
        self.bridge.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def hosts(table: Table) -> AsyncIterator[Callable[..., Host]]:
    """Makes processes that share one table."""
    opened: list[Host] = []

    def start(clock: Clock, faults: Faults | None = None, patience_seconds: float = 30.0) -> Host:
        opened.append(Host(table.name, clock, faults, patience_seconds))
        return opened[-1]

    yield start
    for host in opened:
        await host.close()


@pytest.fixture
async def book(hosts: Callable[..., Host], clock: FakeClock) -> SiteState:
    return hosts(clock).book


@pytest.mark.req("Q1", "S2", "S7", "D2", "D3", "Z3", "property 22", "property 26", "property 29")
class TestAwsSiteBook(SiteStateContract):
    """Every sentence of the port."""


# -- hosts -------------------------------------------------------------------------------------------------------------


async def in_true_time(
    asks: list[tuple[AwsSiteState, HostClock, str]], clock: FakeClock, ask: SiteShareRequest, seconds: float
) -> list[RateSlice]:
    """What hosts reserve together in a while, on the one clock that is right."""
    end, taken, ceilings = clock.boot() + seconds, list[RateSlice](), dict.fromkeys((name for *_, name in asks), 0)
    while clock.boot() < end:
        for book, host, name in asks:
            terms = await book.ask("a.example", name, msgspec.structs.replace(ask, ceiling=ceilings[name]))
            ceilings[name] = terms.slots
            ahead = clock.boot() - host.boot()
            taken += [msgspec.structs.replace(each, first=each.first + ahead) for each in slices([terms])]
        clock.advance(0.3)
    return taken


@pytest.mark.req("Z3", "S2", "property 22")
@pytest.mark.parametrize("part", [True, False])
async def test_hosts_that_were_started_at_different_times_share_a_rate_exactly(
    part: bool, hosts: Callable[..., Host], clock: FakeClock
) -> None:
    ask = SiteShareRequest(rate=10.0, requests=2, part=part, concurrency=8, demand=2)
    clocks = [HostClock(clock, 0.0), HostClock(clock, 5_000_000.25), HostClock(clock, -990.0)]
    asks = [(hosts(each).book, each, f"worker {number}") for number, each in enumerate(clocks)]
    begun = clock.boot()
    sent = [at for at in instants(await in_true_time(asks, clock, ask, 12.0)) if begun + 2 <= at < begun + 12]
    assert over_rate(sent, 10.0) == 0
    assert len(sent) >= 0.9 * 10 * 10
    assert min(sent) >= begun


@pytest.mark.req("Z3")
async def test_the_times_of_a_circuit_are_those_of_the_host_that_looks(
    hosts: Callable[..., Host], clock: FakeClock
) -> None:
    here, there = HostClock(clock, 0.0), HostClock(clock, 7_777.0)
    mine, theirs = hosts(here).book, hosts(there).book
    opened = await mine.record("a.example", BREAKER, [False], 0)
    assert opened.opened_at == pytest.approx(here.boot())
    clock.advance(100)
    held = await theirs.admit("a.example", "w", BREAKER, 10.0)
    assert held.wait_seconds == pytest.approx(500)
    assert theirs.glance("a.example").opened_at == pytest.approx(there.boot() - 100)
    slowed = await theirs.slow_down("a.example", there.boot() - 0.1, 60.0)
    assert slowed.slowed_at == pytest.approx(there.boot())
    seen = (await mine.states())["a.example"]
    assert seen.bucket.slowed_at == pytest.approx(here.boot())
    assert seen.circuit.opened_at == pytest.approx(here.boot() - 100)


@pytest.mark.req("Z3")
async def test_a_host_whose_clock_is_behind_goes_by_the_others_and_nothing_stands_still(
    hosts: Callable[..., Host], clock: FakeClock
) -> None:
    """Instants that a clock an hour ahead has taken would otherwise lie an hour ahead for everybody else."""
    ahead, right = HostClock(clock, 0.0, skew_seconds=3_600), HostClock(clock, 50.0)
    await hosts(ahead).book.ask("a.example", "1", ONE)
    terms = await hosts(right).book.ask("a.example", "2", ONE)
    assert terms.slice is not None
    assert terms.slice.first - right.boot() == pytest.approx(0.1)


@pytest.mark.req("D3")
async def test_what_one_host_records_another_sees_soon_and_never_waits_for_it(
    hosts: Callable[..., Host], clock: FakeClock
) -> None:
    mine, theirs = hosts(clock).book, hosts(clock).book
    await theirs.ask("a.example", "w", ONE)
    opened = await mine.record("a.example", BREAKER, [False], 0)
    assert theirs.glance("a.example") == SiteCircuit(), "as last seen"
    clock.advance(site_state.GLANCE_SECONDS + 0.1)
    theirs.glance("a.example")
    async with asyncio.timeout(60):
        while theirs.glance("a.example") == SiteCircuit():
            await asyncio.sleep(0.005)
    assert theirs.glance("a.example") == opened
    third = hosts(clock).book
    assert third.glance("a.example") == SiteCircuit()
    await third.ask("a.example", "x", ONE)
    assert third.glance("a.example") == opened, "whoever asks knows it at once"


@pytest.mark.req("S1")
async def test_shares_of_workers_that_another_host_had_seen_are_freed_by_it(
    hosts: Callable[..., Host], clock: FakeClock
) -> None:
    mine, theirs, elsewhere = (hosts(clock).book for _ in range(3))
    await mine.ask("a.example", "dead", msgspec.structs.replace(ONE, demand=8))
    assert (await theirs.ask("a.example", "alive", ONE)).slots == 0
    await elsewhere.forget(["dead"])
    assert (await theirs.ask("a.example", "alive", ONE)).slots == 0, "it has never met it, and would have to look"
    await theirs.forget(["dead"])
    assert (await theirs.ask("a.example", "alive", ONE)).slots == 4
    assert (await mine.ask("a.example", "dead", msgspec.structs.replace(ONE, demand=8))).slots == 4


# -- at the same time --------------------------------------------------------------------------------------------------


@pytest.mark.req("Z3", "S1", "property 22")
@pytest.mark.parametrize("rates", [Rates(), Rates(throttled=0.1, server_error=0.1, lost_answer=0.1, conflict=0.1)])
async def test_hosts_that_write_at_once_never_get_more_than_there_is(
    rates: Rates, hosts: Callable[..., Host], clock: FakeClock
) -> None:
    """Also when requests are throttled and answers lost: what an answer took with it is unused, and not doubled."""
    books = [hosts(clock, Faults(seed, rates)).book for seed in range(4)]
    answers: list[SiteShareGrant] = []

    async def keep_asking(book: AwsSiteState, name: str) -> None:
        ceiling = 0
        for number in range(10):
            ask = ONE if number % 2 else PART
            terms = await book.ask("a.example", name, msgspec.structs.replace(ask, ceiling=ceiling))
            ceiling = terms.slots
            answers.append(terms)

    await asyncio.gather(*(keep_asking(book, f"worker {number}") for number, book in enumerate(books)))
    assert len(answers) == 40
    assert over_rate(instants(slices(answers)), 10.0) == 0
    assert len(slices(answers)) >= 10
    state = (await books[0].states())["a.example"]
    assert state.open_requests <= 8


@pytest.mark.req("D3", "property 29")
async def test_of_all_hosts_one_is_the_probe(hosts: Callable[..., Host], clock: FakeClock) -> None:
    books = [hosts(clock).book for _ in range(4)]
    await books[0].record("a.example", BREAKER, [False], 0)
    clock.advance(600)
    answers = await asyncio.gather(*(book.admit("a.example", "w", BREAKER, 30.0) for book in books for _ in range(2)))
    assert [answer.probe for answer in answers].count(True) == 1
    assert {answer.circuit.state for answer in answers} == {CircuitState.HALF_OPEN}
    fetches = await asyncio.gather(*(book.robots("http://a", 5.0) for book in books for _ in range(2)))
    assert fetches.count(CachedRobots(0)) == 1
    assert fetches.count(None) == 7


@pytest.mark.req("Z9")
async def test_a_row_that_others_change_all_the_time_is_given_up_after_a_while(
    hosts: Callable[..., Host], clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_table, "_PAUSE_SECONDS", (0.0, 0.0))
    host = hosts(clock)

    async def never(*_: Put) -> bool:
        return False

    monkeypatch.setattr(Table, "commit", never)
    with pytest.raises(StoreUnavailable, match=r"too many write of site 'a\.example' at once") as raised:
        await host.book.ask("a.example", "w", ONE)
    assert raised.value.waiting_for is WaitingFor.STORE


# -- out of reach ------------------------------------------------------------------------------------------------------


@pytest.mark.req("Z9", "D3")
async def test_while_dynamodb_is_down_a_glance_shows_what_was_seen_and_all_else_says_so(
    hosts: Callable[..., Host], clock: FakeClock
) -> None:
    faults = Faults(1, Rates())
    book = hosts(clock, faults, patience_seconds=0.5).book
    opened = await book.record("a.example", BREAKER, [False], 0)
    faults.down.add("dynamodb")
    clock.advance(10.0)
    assert book.glance("a.example") == opened
    asks = [
        book.ask("a.example", "w", ONE),
        book.slow_down("a.example", clock.boot(), 60.0),
        book.admit("a.example", "w", BREAKER, 1.0),
        book.record("a.example", BREAKER, [True], 1),
        book.robots("http://a", 1.0),
        book.keep_robots("http://a", CachedRobots(200), 1.0),
        book.remember_tier("a.example", "residential"),
        book.states(),
    ]
    for told in await asyncio.gather(*asks, return_exceptions=True):
        assert isinstance(told, StoreUnavailable), told
        assert told.waiting_for is WaitingFor.STORE
    assert book.glance("a.example") == opened
    faults.down.clear()
    assert (await book.ask("a.example", "w", ONE)).slots == 4
    assert (await book.states())["a.example"].tier is None, "nothing was changed meanwhile"


@pytest.mark.req("Z9")
async def test_a_row_that_cannot_be_read_is_named(hosts: Callable[..., Host], clock: FakeClock, table: Table) -> None:
    await table.commit(Put(Key("site/a.example", "state"), b"nonsense", 1))
    await table.commit(Put(Key("robots/http://a", "robots"), b"nonsense", 1))
    book = hosts(clock).book
    with pytest.raises(StoreDamaged, match=r"the row of site 'a\.example' in the table cannot be read"):
        await book.ask("a.example", "w", ONE)
    with pytest.raises(StoreDamaged, match=r"the row of robots\.txt of http://a in the table cannot be read"):
        await book.robots("http://a", 1.0)
    assert book.glance("a.example") == SiteCircuit()


async def test_a_closed_book_looks_at_nothing_any_more(hosts: Callable[..., Host], clock: FakeClock) -> None:
    book = hosts(clock).book
    await book.record("a.example", BREAKER, [False], 0)
    clock.advance(10.0)
    book.glance("a.example")
    await book.close()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()]


# -- what it costs -----------------------------------------------------------------------------------------------------


async def test_words_that_change_nothing_cost_a_look_now_and_then(hosts: Callable[..., Host], clock: FakeClock) -> None:
    host = hosts(clock)
    terms = await host.book.ask("a.example", "w", PART)
    host.clients.meter.requests.clear()
    for _ in range(8):
        clock.advance(1.0)
        quiet = msgspec.structs.replace(PART, requests=0, ceiling=terms.slots)
        terms = await host.book.ask("a.example", "w", quiet)
        assert terms.slots == 4
    assert dict(host.clients.meter.requests) == {"dynamodb.get_item": 4}
    clock.advance(2.0)
    await host.book.ask("a.example", "w", msgspec.structs.replace(PART, requests=0, ceiling=terms.slots))
    assert host.clients.meter.requests["dynamodb.update_item"] == 1, "its share is renewed in time"
    clock.advance(SHARE_SECONDS - 0.1)
    assert (await hosts(clock).book.ask("a.example", "other", msgspec.structs.replace(ONE, demand=8))).slots == 4


async def test_an_ask_is_one_write_and_a_look_when_others_are_there(
    hosts: Callable[..., Host], clock: FakeClock
) -> None:
    host = hosts(clock)
    await host.book.ask("a.example", "1", ONE)
    host.clients.meter.requests.clear()
    await host.book.ask("a.example", "1", ONE)
    assert dict(host.clients.meter.requests) == {"dynamodb.update_item": 1}
    await hosts(clock).book.ask("a.example", "2", ONE)
    await host.book.ask("a.example", "1", ONE)  # meets the other one, and finds out
    host.clients.meter.requests.clear()
    host.clients.meter.write_units = 0.0
    await host.book.ask("a.example", "1", ONE)
    assert dict(host.clients.meter.requests) == {"dynamodb.get_item": 1, "dynamodb.update_item": 1}
    assert host.clients.meter.write_units == 1.0, "the row is small"


async def test_a_robots_txt_that_no_row_can_hold_is_fetched_by_everybody(
    hosts: Callable[..., Host], clock: FakeClock
) -> None:
    book = hosts(clock).book
    await book.keep_robots("http://a", CachedRobots(200, b"Disallow: /x\n" * 40_000, 1.0), 60.0)
    assert (await book.robots("http://a", 5.0) or CachedRobots(0)).status == 200, "text is smaller when it is packed"
    await book.keep_robots("http://b", CachedRobots(200, random.Random(1).randbytes(500 * 1024), 1.0), 60.0)
    assert await book.robots("http://b", 5.0) == CachedRobots(0)

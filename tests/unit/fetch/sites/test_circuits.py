"""Site circuits as the worker meets them: what is let through, what is held and for how long, and what is written."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.circuit_breaker import CircuitAdmission, CircuitState, SiteCircuit
from swath.domain.errors import SiteUnavailable, StoreUnavailable
from swath.domain.job import WaitingFor
from swath.domain.site_policy import AllowedHours, Breaker, SitePolicy, Window
from swath.fetch.sites.circuit_breaker import SiteCircuitBreaker
from swath.fetch.sites.policies import Site
from tests.support.clock import FakeClock
from tests.support.memory.site_state import MemorySiteState

GOOD, BAD = True, False


class Book(MemorySiteState):
    """Counts what is written, and can be out of reach."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.recorded: list[list[bool]] = []
        self.admissions = 0
        self.gone = False

    async def admit(self, name: str, worker_id: str, breaker: Breaker, probe_seconds: float) -> CircuitAdmission:
        self.admissions += 1
        return await super().admit(name, worker_id, breaker, probe_seconds)

    async def withdraw(self, name: str, epoch: int) -> SiteCircuit:
        if self.gone:
            raise StoreUnavailable("locked", WaitingFor.STORE)
        return await super().withdraw(name, epoch)

    async def record(self, name: str, breaker: Breaker, outcomes: Sequence[bool], epoch: int) -> SiteCircuit:
        if self.gone:
            raise StoreUnavailable("locked", WaitingFor.STORE)
        self.recorded.append(list(outcomes))
        return await super().record(name, breaker, outcomes, epoch)


class Visitor:
    """Comes to one site, and leaves it again."""

    def __init__(self, breaker: Breaker | None = None) -> None:
        self.clock = FakeClock()
        self.book = Book(self.clock)
        self.circuits = SiteCircuitBreaker(self.book, self.clock, "w", chance=lambda: 1.0)
        self.site = Site("county", SitePolicy(breaker=breaker or Breaker()))

    async def attempt(self, good: bool | None) -> None:
        ticket = await self.circuits.enter(self.site, 60)
        self.circuits.check(ticket)
        self.circuits.leave(ticket, good)
        await self.circuits.close()

    async def open(self) -> None:
        for _ in range(self.site.policy.breaker.failures):
            await self.attempt(BAD)

    def state(self) -> CircuitState:
        return self.book.glance("county").state


@pytest.mark.req("D3", "property 27")
@settings(deadline=None)
@given(st.integers(1, 12), st.data())
def test_property_27_the_circuit_opens_exactly_at_its_threshold(window: int, data: st.DataObject) -> None:
    failures = data.draw(st.integers(1, window))
    outcomes = data.draw(st.lists(st.sampled_from([GOOD, GOOD, BAD, None]), max_size=60))

    async def run() -> None:
        visitor = Visitor(Breaker(window=window, failures=failures))
        told: list[bool] = []
        for outcome in outcomes:
            await visitor.attempt(outcome)
            told += [] if outcome is None else [outcome]
            reached = told[-window:].count(BAD) >= failures
            assert visitor.state() is (CircuitState.OPEN if reached else CircuitState.CLOSED)
            if reached:
                return

    asyncio.run(run())


@pytest.mark.req("D3", "property 28")
@settings(deadline=None)
@given(st.lists(st.floats(0, 30), max_size=12))
def test_property_28_an_open_circuit_rejects_at_once(pauses: list[float]) -> None:
    async def run() -> None:
        visitor = Visitor()
        await visitor.open()
        opened_at, asked = visitor.clock.boot(), visitor.book.admissions
        for pause in pauses:
            visitor.clock.advance(pause)
            if visitor.clock.boot() >= opened_at + 120:
                return
            entering = visitor.circuits.enter(visitor.site, 60)
            with pytest.raises(SiteUnavailable):
                entering.send(None)  # it does not even wait for the event loop
            assert visitor.book.admissions == asked, "nor is anything written"

    asyncio.run(run())


@pytest.mark.req("D3")
async def test_who_is_held_is_told_how_long_a_little_more_than_needed() -> None:
    visitor = Visitor()
    await visitor.open()
    visitor.clock.advance(20)
    with pytest.raises(SiteUnavailable) as held:
        await visitor.circuits.enter(visitor.site, 60)
    assert (held.value.site, held.value.why) == ("county", "its circuit is open")
    assert held.value.wait_seconds == pytest.approx(110)


@pytest.mark.req("D3")
async def test_of_many_one_is_the_probe_and_the_others_look_again_soon() -> None:
    visitor = Visitor()
    await visitor.open()
    visitor.clock.advance(120)
    probe = await visitor.circuits.enter(visitor.site, 60)
    for _ in range(5):
        with pytest.raises(SiteUnavailable, match="a probe is under way") as held:
            await visitor.circuits.enter(visitor.site, 60)
        assert held.value.wait_seconds < 0.5
    visitor.circuits.check(probe)  # which itself goes on
    visitor.circuits.leave(probe, GOOD)
    await visitor.circuits.close()
    assert visitor.state() is CircuitState.CLOSED
    visitor.circuits.check(await visitor.circuits.enter(visitor.site, 60))


@pytest.mark.req("D3")
async def test_the_longer_a_probe_takes_the_later_others_look_again() -> None:
    visitor = Visitor()
    await visitor.open()
    visitor.clock.advance(120)
    await visitor.circuits.enter(visitor.site, 60)
    waits = []
    for _ in range(5):
        with pytest.raises(SiteUnavailable) as held:
            await visitor.circuits.enter(visitor.site, 60)
        waits.append(held.value.wait_seconds)
        visitor.clock.advance(held.value.wait_seconds)
    assert waits == sorted(waits)
    assert waits[-1] <= 1.1 * visitor.book.tempo.probe_seconds


@pytest.mark.req("D3")
async def test_a_probe_that_says_nothing_of_the_site_is_given_back_at_once() -> None:
    visitor = Visitor()
    await visitor.open()
    visitor.clock.advance(120)
    for _ in range(3):  # nobody has to wait in between
        await visitor.attempt(None)
    assert visitor.state() is CircuitState.OPEN
    assert visitor.circuits.failed_probes("county") == 0
    stale = await visitor.circuits.enter(visitor.site, 60)
    visitor.circuits.leave(stale, None)
    await visitor.attempt(GOOD)
    assert visitor.state() is CircuitState.CLOSED


@pytest.mark.req("D3")
async def test_failed_probes_are_counted_until_one_succeeds() -> None:
    visitor = Visitor()
    await visitor.open()
    for failed in range(1, 4):
        visitor.clock.advance(120)
        await visitor.attempt(BAD)
        assert visitor.circuits.failed_probes("county") == failed
    visitor.clock.advance(120)
    await visitor.attempt(GOOD)
    assert visitor.circuits.failed_probes("county") == 0


@pytest.mark.req("D3")
async def test_a_probe_that_cannot_be_given_back_is_replaced_when_its_time_is_over() -> None:
    visitor = Visitor()
    await visitor.open()
    visitor.clock.advance(120)
    visitor.book.gone = True
    await visitor.attempt(None)
    visitor.book.gone = False
    assert visitor.state() is CircuitState.HALF_OPEN
    with pytest.raises(SiteUnavailable):
        await visitor.attempt(GOOD)
    visitor.clock.advance(60)
    await visitor.attempt(GOOD)
    assert visitor.state() is CircuitState.CLOSED
    assert visitor.circuits.failed_probes("county") == 0


@pytest.mark.req("D3")
async def test_an_attempt_under_way_sends_nothing_more_when_the_circuit_has_opened() -> None:
    visitor = Visitor()
    ticket = await visitor.circuits.enter(visitor.site, 60)
    await visitor.open()
    with pytest.raises(SiteUnavailable):
        visitor.circuits.check(ticket)
    visitor.clock.advance(120)
    old = await visitor.circuits.enter(visitor.site, 60)
    visitor.clock.advance(61)  # the probe took too long, and another one took its place
    await visitor.circuits.enter(visitor.site, 60)
    with pytest.raises(SiteUnavailable):
        visitor.circuits.check(old)


@pytest.mark.req("D3")
async def test_good_outcomes_are_written_with_the_next_failure_and_only_as_many_as_count() -> None:
    visitor = Visitor()
    for _ in range(500):
        await visitor.attempt(GOOD)
    assert visitor.book.recorded == []
    await visitor.attempt(BAD)
    await visitor.attempt(GOOD)
    await visitor.attempt(BAD)
    assert visitor.book.recorded == [[GOOD] * 9 + [BAD], [GOOD, BAD]]


@pytest.mark.req("D3")
async def test_good_outcomes_are_written_at_once_while_traffic_comes_back() -> None:
    visitor = Visitor()
    await visitor.open()
    visitor.clock.advance(120)
    await visitor.attempt(GOOD)
    before = len(visitor.book.recorded)
    for _ in range(3):
        await visitor.attempt(GOOD)
    assert visitor.book.recorded[before:] == [[GOOD]] * 3
    assert visitor.book.glance("county").ramp == 4


@pytest.mark.req("D3")
async def test_nobody_enters_while_the_failure_that_may_open_the_circuit_is_being_written() -> None:
    visitor = Visitor(Breaker(window=1, failures=1))
    ticket = await visitor.circuits.enter(visitor.site, 60)
    visitor.circuits.leave(ticket, BAD)
    with pytest.raises(SiteUnavailable):
        await visitor.circuits.enter(visitor.site, 60)


@pytest.mark.req("D3")
async def test_a_failure_that_could_not_be_written_is_written_with_the_next_outcome() -> None:
    visitor = Visitor()
    visitor.book.gone = True
    await visitor.attempt(BAD)
    visitor.book.gone = False
    await visitor.attempt(GOOD)
    assert visitor.book.recorded == [[BAD, GOOD]]


@pytest.mark.req("D3")
async def test_what_was_begun_before_the_circuit_opened_decides_nothing_afterwards() -> None:
    visitor = Visitor()
    early = [await visitor.circuits.enter(visitor.site, 60) for _ in range(20)]
    await visitor.open()
    visitor.clock.advance(120)
    probe = await visitor.circuits.enter(visitor.site, 60)
    for ticket in early[:10]:
        visitor.circuits.leave(ticket, GOOD)
    await visitor.circuits.close()
    assert visitor.state() is CircuitState.HALF_OPEN
    visitor.circuits.leave(probe, GOOD)
    for ticket in early[10:]:
        visitor.circuits.leave(ticket, BAD)
    await visitor.circuits.close()
    assert visitor.state() is CircuitState.CLOSED


@pytest.mark.req("D3")
async def test_sites_have_circuits_of_their_own() -> None:
    visitor = Visitor()
    await visitor.open()
    await visitor.circuits.enter(Site("other", SitePolicy()), 60)


# -- allowed hours -----------------------------------------------------------------------------------------------------

EIGHT = 1_750_060_800.0  # on a Monday, UTC
HOUR = 3_600


def office() -> Site:
    window = Window.model_validate({"from": "08:00", "until": "18:00"})
    return Site("office", SitePolicy(allowed_hours=AllowedHours(windows=(window,), drain_seconds=600)))


@pytest.mark.req("S8")
async def test_outside_its_hours_a_site_is_held_until_they_begin() -> None:
    circuits = Visitor().circuits
    circuits.may_start(office(), EIGHT)
    for ask in (circuits.may_start, circuits.may_send):
        with pytest.raises(SiteUnavailable, match="allowed hours") as held:
            ask(office(), EIGHT - HOUR)
        assert HOUR <= held.value.wait_seconds <= HOUR + 10


@pytest.mark.req("S8")
async def test_shortly_before_the_end_nothing_starts_and_what_has_started_goes_on() -> None:
    circuits = Visitor().circuits
    almost_six = EIGHT + 10 * HOUR - 300
    circuits.may_send(office(), almost_six)
    with pytest.raises(SiteUnavailable) as held:
        circuits.may_start(office(), almost_six)
    assert held.value.wait_seconds >= 14 * HOUR


@pytest.mark.req("S8")
async def test_a_site_without_hours_is_always_open() -> None:
    circuits = Visitor().circuits
    circuits.may_start(Site("any", SitePolicy()), EIGHT - HOUR)
    circuits.may_send(Site("any", SitePolicy()), EIGHT - HOUR)

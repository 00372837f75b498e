"""What SiteState promises of circuits, robots.txt and proxy tiers. Part of SiteStateContract."""

from __future__ import annotations

import asyncio

from swath.domain.circuit_breaker import CircuitState, SiteCircuit
from swath.domain.site_policy import Breaker
from swath.ports.site_state import CachedRobots, SiteHold, SiteShareRequest, SiteState
from tests.support.clock import FakeClock

__all__ = ["SiteCircuitContract"]

BREAKER = Breaker(window=4, failures=2, reopen_seconds=30)
PROBE_SECONDS = 10.0
ROBOTS = CachedRobots(200, b"User-agent: *\nDisallow: /x\n\xff\x00", 1_750_000_000.5)


class SiteCircuitContract:
    """Fixture to give: `book` on `clock`."""

    async def test_a_site_that_nobody_has_met_is_open_to_all(self, book: SiteState) -> None:
        assert book.glance("never.example") == SiteCircuit()
        admission = await book.admit("never.example", "w", BREAKER, PROBE_SECONDS)
        assert (admission.circuit, admission.probe, admission.wait_seconds) == (SiteCircuit(), False, None)

    async def test_outcomes_add_up_over_all_who_record_them(self, book: SiteState) -> None:
        await book.record("a", BREAKER, [True, False], 0)
        assert book.glance("a").state is CircuitState.CLOSED
        told = await book.record("a", BREAKER, [True, False], 0)
        assert told.state is CircuitState.OPEN
        assert book.glance("a") == told
        assert book.glance("b") == SiteCircuit(), "another site is not affected"

    async def test_nobody_passes_an_open_circuit_and_one_probe_the_half_open(
        self, book: SiteState, clock: FakeClock
    ) -> None:
        await book.record("a", BREAKER, [False, False], 0)
        clock.advance(10)
        held = await book.admit("a", "w", BREAKER, PROBE_SECONDS)
        assert (held.probe, held.wait_seconds) == (False, 20.0)
        clock.advance(20)
        answers = await asyncio.gather(*(book.admit("a", "w", BREAKER, PROBE_SECONDS) for _ in range(5)))
        assert [answer.probe for answer in answers].count(True) == 1
        assert {answer.wait_seconds for answer in answers if not answer.probe} == {PROBE_SECONDS}
        assert book.glance("a").state is CircuitState.HALF_OPEN

    async def test_the_probe_alone_decides(self, book: SiteState, clock: FakeClock) -> None:
        """Property 29."""
        opened = await book.record("a", BREAKER, [False, False], 0)
        clock.advance(30)
        probe = await book.admit("a", "w", BREAKER, PROBE_SECONDS)
        for stale in (0, opened.epoch):
            for outcome in (True, False):
                assert await book.record("a", BREAKER, [outcome] * 9, stale) == probe.circuit
        failed = await book.record("a", BREAKER, [False], probe.circuit.epoch)
        assert (failed.state, failed.failed_probes) == (CircuitState.OPEN, 1)
        clock.advance(30)
        probe = await book.admit("a", "w", BREAKER, PROBE_SECONDS)
        closed = await book.record("a", BREAKER, [True], probe.circuit.epoch)
        assert (closed.state, closed.ramp) == (CircuitState.CLOSED, 1)
        assert book.glance("a") == closed

    async def test_a_probe_that_never_came_back_is_replaced(self, book: SiteState, clock: FakeClock) -> None:
        await book.record("a", BREAKER, [False, False], 0)
        clock.advance(30)
        lost = await book.admit("a", "w", BREAKER, PROBE_SECONDS)
        clock.advance(PROBE_SECONDS)
        second = await book.admit("a", "w", BREAKER, PROBE_SECONDS)
        assert second.probe
        assert await book.record("a", BREAKER, [True], lost.circuit.epoch) == second.circuit

    async def test_a_probe_that_is_withdrawn_is_replaced_at_once(self, book: SiteState, clock: FakeClock) -> None:
        await book.record("a", BREAKER, [False, False], 0)
        clock.advance(30)
        silent = await book.admit("a", "w", BREAKER, PROBE_SECONDS)
        withdrawn = await book.withdraw("a", silent.circuit.epoch)
        assert (withdrawn.state, withdrawn.failed_probes) == (CircuitState.OPEN, 0)
        assert await book.record("a", BREAKER, [True], silent.circuit.epoch) == withdrawn, "it decides nothing any more"
        second = await book.admit("a", "w", BREAKER, PROBE_SECONDS)
        assert second.probe
        assert await book.withdraw("a", silent.circuit.epoch) == second.circuit, "that one had ended before"

    async def test_the_probe_of_a_worker_that_died_is_replaced_at_once(self, book: SiteState, clock: FakeClock) -> None:
        for name in ("a", "b"):
            await book.record(name, BREAKER, [False, False], 0)
        clock.advance(30)
        await book.admit("a", "dead", BREAKER, PROBE_SECONDS)
        await book.admit("b", "alive", BREAKER, PROBE_SECONDS)
        await book.forget({"dead", "unknown"})
        assert (await book.admit("a", "alive", BREAKER, PROBE_SECONDS)).probe
        assert not (await book.admit("b", "dead", BREAKER, PROBE_SECONDS)).probe

    async def test_rates_tiers_and_circuits_of_a_site_leave_each_other_alone(
        self, book: SiteState, clock: FakeClock
    ) -> None:
        await book.remember_tier("a", "datacenter")
        await book.slow_down("a", clock.boot(), 60.0)
        opened = await book.record("a", BREAKER, [False, False], 0)
        await book.ask("a", "w", SiteShareRequest(rate=1.0, requests=1, concurrency=2, demand=1))
        await book.remember_tier("a", "residential")
        state = (await book.states())["a"]
        assert state.circuit == opened
        assert (state.bucket.factor, state.bucket.next_free) == (0.5, clock.boot() + 2.0)
        assert state.tier == "residential"

    async def test_why_items_of_a_site_wait_is_told_to_all_who_look(self, book: SiteState, clock: FakeClock) -> None:
        opened = await book.record("a", BREAKER, [False, False], 0)
        await book.hold("a", SiteHold("all proxies have met it just now", clock.boot() + 30.0))
        await book.hold("new", SiteHold("so it is", clock.boot() + 5.0))
        states = await book.states()
        assert states["a"].hold == SiteHold("all proxies have met it just now", clock.boot() + 30.0)
        assert (states["a"].circuit, book.glance("a")) == (opened, opened), "it changes nothing for workers"
        assert states["new"].hold == SiteHold("so it is", clock.boot() + 5.0)

    async def test_one_caller_fetches_robots_and_the_others_wait(self, book: SiteState, clock: FakeClock) -> None:
        answers = await asyncio.gather(*(book.robots("http://a", 5.0) for _ in range(4)))
        assert sorted(answers, key=repr) == [CachedRobots(0), None, None, None]
        assert await book.robots("http://b", 5.0) == CachedRobots(0)
        await book.keep_robots("http://a", ROBOTS, 60.0)
        assert await book.robots("http://a", 5.0) == ROBOTS
        clock.advance(59.9)
        assert await book.robots("http://a", 5.0) == ROBOTS

    async def test_robots_that_are_too_old_are_fetched_again_by_one(self, book: SiteState, clock: FakeClock) -> None:
        await book.keep_robots("http://a", ROBOTS, 60.0)
        clock.advance(60.0)
        assert await book.robots("http://a", 5.0) == CachedRobots(0)
        assert await book.robots("http://a", 5.0) is None

    async def test_who_was_to_fetch_and_did_not_is_replaced(self, book: SiteState, clock: FakeClock) -> None:
        await book.robots("http://a", 5.0)
        clock.advance(4.9)
        assert await book.robots("http://a", 5.0) is None
        clock.advance(0.1)
        assert await book.robots("http://a", 5.0) == CachedRobots(0)

    async def test_who_could_not_fetch_lets_the_next_one_by_keeping_nothing(self, book: SiteState) -> None:
        await book.robots("http://a", 5.0)
        await book.keep_robots("http://a", CachedRobots(0), 0.0)
        assert await book.robots("http://a", 5.0) == CachedRobots(0)
        assert await book.robots("http://a", 5.0) is None

"""The circuit of a site (D3): when it opens (property 27), who passes (property 28), and who decides (property 29)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.circuit_breaker import (
    CircuitState,
    SiteCircuit,
    admit_request,
    open_request_limit,
    open_until,
    record_request_outcomes,
)
from swath.domain.site_policy import Breaker

PROBE_SECONDS = 20.0
DEFAULT = Breaker()
windows = st.integers(1, 15)
breakers = windows.flatmap(
    lambda window: st.builds(
        Breaker, window=st.just(window), failures=st.integers(1, window), reopen_seconds=st.floats(0.5, 500)
    )
)
outcomes = st.lists(st.sampled_from([True, True, False]), max_size=60)


def opened(breaker: Breaker = DEFAULT, at: float = 100.0, epoch: int = 0) -> SiteCircuit:
    return record_request_outcomes(SiteCircuit(epoch=epoch), breaker, [False] * breaker.failures, epoch, at)


def probing(breaker: Breaker = DEFAULT, at: float = 100.0) -> SiteCircuit:
    due = at + breaker.reopen_seconds + 0.001
    return admit_request(opened(breaker, at), "w", breaker, due, PROBE_SECONDS).circuit


@pytest.mark.req("D3", "property 27")
@given(told=outcomes, breaker=breakers)
def test_it_opens_exactly_when_the_window_holds_that_many_failures(told: list[bool], breaker: Breaker) -> None:
    circuit = SiteCircuit()
    due = next(
        (n for n in range(len(told)) if told[max(0, n + 1 - breaker.window) : n + 1].count(False) >= breaker.failures),
        None,
    )
    for n, good in enumerate(told):
        circuit = record_request_outcomes(circuit, breaker, [good], 0, now=float(n))
        assert (circuit.state is CircuitState.OPEN) == (due is not None and n >= due)
        if n == due:
            assert (circuit.epoch, circuit.opened_at, circuit.failed_probes) == (1, float(n), 0)


@pytest.mark.req("D3", "property 27")
@given(groups=st.lists(outcomes, max_size=6), breaker=breakers)
def test_it_does_not_matter_how_outcomes_are_grouped(groups: list[list[bool]], breaker: Breaker) -> None:
    grouped = SiteCircuit()
    for group in groups:
        grouped = record_request_outcomes(grouped, breaker, group, 0, 5.0)
    assert grouped == record_request_outcomes(
        SiteCircuit(), breaker, [good for group in groups for good in group], 0, 5.0
    )


@pytest.mark.req("D3", "property 27")
def test_by_default_five_failures_of_the_last_ten_open_it() -> None:
    four = record_request_outcomes(SiteCircuit(), DEFAULT, [False] * 4 + [True] * 6, 0, 0.0)
    assert four.state is CircuitState.CLOSED
    assert record_request_outcomes(four, DEFAULT, [False], 0, 0.0).state is CircuitState.CLOSED, (
        "the first of the four is forgotten"
    )
    assert (
        record_request_outcomes(SiteCircuit(), DEFAULT, [True] * 100 + [False] * 5, 0, 0.0).state is CircuitState.OPEN
    )


@pytest.mark.req("D3", "property 28")
@given(breaker=breakers, at=st.floats(0, 1e6), later=st.floats(0, 0.999))
def test_an_open_circuit_rejects_at_once_and_says_for_how_long(breaker: Breaker, at: float, later: float) -> None:
    circuit = opened(breaker, at)
    now = at + later * breaker.reopen_seconds
    answer = admit_request(circuit, "w", breaker, now, PROBE_SECONDS)
    assert answer.circuit == circuit
    assert not answer.probe
    assert answer.wait_seconds == pytest.approx(at + breaker.reopen_seconds - now)
    assert open_until(circuit, breaker, now) == pytest.approx(at + breaker.reopen_seconds)


@pytest.mark.req("D3", "property 28")
@given(told=outcomes, epoch=st.integers(0, 3))
def test_nothing_that_comes_back_changes_an_open_circuit(told: list[bool], epoch: int) -> None:
    circuit = opened(epoch=1)
    assert record_request_outcomes(circuit, DEFAULT, told, epoch, 150.0) == circuit


@pytest.mark.req("D3", "property 29")
@given(breaker=breakers, others=outcomes, good=st.booleans(), now=st.floats(0, 19))
def test_the_probe_alone_decides(breaker: Breaker, others: list[bool], good: bool, now: float) -> None:
    circuit = probing(breaker)
    at = circuit.probe_until - PROBE_SECONDS + now
    for stale in range(circuit.epoch):
        assert record_request_outcomes(circuit, breaker, others, stale, at) == circuit
    held = admit_request(circuit, "w", breaker, at, PROBE_SECONDS)
    assert (held.circuit, held.probe) == (circuit, False)
    assert held.wait_seconds == pytest.approx(PROBE_SECONDS - now)
    decided = record_request_outcomes(circuit, breaker, [good], circuit.epoch, at)
    assert decided.epoch == circuit.epoch + 1
    if good:
        assert (decided.state, decided.ramp, decided.window) == (CircuitState.CLOSED, 1, "")
    else:
        assert (decided.state, decided.opened_at, decided.failed_probes) == (CircuitState.OPEN, at, 1)
    assert record_request_outcomes(decided, breaker, others, circuit.epoch, at) == decided, "its epoch is over"


@pytest.mark.req("D3", "property 29")
def test_a_probe_that_never_returns_is_replaced_and_decides_nothing_any_more() -> None:
    first = probing()
    held = admit_request(first, "w", DEFAULT, first.probe_until - 0.001, PROBE_SECONDS)
    assert not held.probe
    second = admit_request(first, "w", DEFAULT, first.probe_until, PROBE_SECONDS)
    assert second.probe
    assert second.circuit.probe_until == first.probe_until + PROBE_SECONDS
    for good in (True, False):
        assert record_request_outcomes(second.circuit, DEFAULT, [good], first.epoch, 1e4) == second.circuit
    assert (
        record_request_outcomes(second.circuit, DEFAULT, [True], second.circuit.epoch, 1e4).state is CircuitState.CLOSED
    )


@pytest.mark.req("D3", "property 29")
@given(results=st.lists(st.booleans(), min_size=1, max_size=8))
def test_failed_probes_are_counted_in_a_row(results: list[bool]) -> None:
    circuit, now, in_a_row = opened(), 100.0, 0
    for good in results:
        if circuit.state is CircuitState.CLOSED:
            circuit = record_request_outcomes(circuit, DEFAULT, [False] * 5, circuit.epoch, now)
        now += DEFAULT.reopen_seconds
        circuit = admit_request(circuit, "w", DEFAULT, now, PROBE_SECONDS).circuit
        circuit = record_request_outcomes(circuit, DEFAULT, [good], circuit.epoch, now)
        in_a_row = 0 if good else in_a_row + 1
        assert circuit.failed_probes == in_a_row


@pytest.mark.req("D3", "property 29")
@given(told=st.lists(st.sampled_from([True, True, True, False]), max_size=200), concurrency=st.integers(1, 40))
def test_after_closing_the_bound_grows_by_doubling_and_never_shrinks(told: list[bool], concurrency: int) -> None:
    circuit = probing()
    circuit = record_request_outcomes(circuit, DEFAULT, [True], circuit.epoch, 300.0)
    circuit, most = open_request_limit(circuit, concurrency)
    bounds = [most]
    for good in told:
        circuit = record_request_outcomes(circuit, DEFAULT, [good], circuit.epoch, 300.0)
        if circuit.state is not CircuitState.CLOSED:
            break
        circuit, most = open_request_limit(circuit, concurrency)
        bounds.append(most)
    assert bounds == sorted(bounds)
    doubling = itertools.takewhile(lambda n: n < concurrency, (2**n for n in itertools.count()))
    assert list(dict.fromkeys(bounds)) == [*doubling, concurrency][: len(set(bounds))]
    assert (circuit.ramp is None) >= (bounds[-1] == concurrency)


@pytest.mark.req("D3")
def test_each_step_of_the_ramp_needs_as_many_good_ones_as_it_allows() -> None:
    circuit = probing()
    circuit = record_request_outcomes(circuit, DEFAULT, [True], circuit.epoch, 300.0)
    seen = []
    for _ in range(1 + 2 + 4 + 8):
        seen.append(circuit.ramp)
        circuit = record_request_outcomes(circuit, DEFAULT, [True], circuit.epoch, 300.0)
    assert seen == [1, 2, 2, 4, 4, 4, 4, *[8] * 8]
    assert circuit.ramp == 16


@pytest.mark.req("D3")
def test_a_closed_circuit_lets_everybody_through() -> None:
    answer = admit_request(SiteCircuit(epoch=3, ramp=2), "w", DEFAULT, 0.0, PROBE_SECONDS)
    assert (answer.probe, answer.wait_seconds, answer.circuit.epoch) == (False, None, 3)
    assert open_request_limit(SiteCircuit(), 7) == (SiteCircuit(), 7)

"""When a job's circuit opens (S4), against the same words told once more over the whole list of outcomes."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.attempt import Ended, Finding
from swath.domain.circuit import WINDOW_OUTCOMES, Circuit, record, unreleased
from swath.domain.failure import RULES, Failure, FailureKind
from swath.domain.policy import CircuitBreaker
from swath.domain.transitions import ItemState
from swath.testing.contracts.model_circuit import opens

GOOD = Ended(seq=1, state=ItemState.SUCCESS, finding=Finding.FOUND)
NOT_FOUND = Ended(seq=1, state=ItemState.SUCCESS, finding=Finding.NOT_FOUND)
SKIPPED = Ended(seq=1, state=ItemState.SKIPPED, reason="robots")


def failed(kind: FailureKind = FailureKind.TIMEOUT) -> Ended:
    return Ended(seq=1, state=ItemState.FAILED, failure=Failure.of(kind, "no answer"))


ends = st.sampled_from([GOOD, GOOD, NOT_FOUND, SKIPPED, failed(), failed(), failed(FailureKind.PROXY)])
fractions = st.sampled_from([0.07, 0.1, 0.25, 0.5, 0.8, 1.0])
breakers = st.builds(
    CircuitBreaker,
    min_requests=st.integers(1, 30),
    failure_threshold_percentage=fractions,
    consecutive_failures=st.integers(1, 12),
    max_not_found_percentage=fractions,
)
in_groups = st.lists(
    st.one_of(st.lists(ends, max_size=9), st.builds(lambda end, n: [end] * n, ends, st.integers(1, 150))), max_size=9
)


def opened_at(outcomes: Sequence[Ended], breaker: CircuitBreaker) -> int | None:
    """How many outcomes it takes; None if it stays closed."""
    return next((n for n in range(1, len(outcomes) + 1) if opens(list(outcomes[:n]), breaker)), None)


@pytest.mark.req("S4")
@given(outcomes=st.lists(ends, max_size=60), breaker=breakers)
def test_it_opens_exactly_when_the_requirement_says(outcomes: list[Ended], breaker: CircuitBreaker) -> None:
    circuit, expected = Circuit(), opened_at([*outcomes], breaker)
    for n, end in enumerate(outcomes, 1):
        circuit = record(circuit, breaker, [end])
        assert (circuit.opened is not None) == (expected is not None and n >= expected)


@pytest.mark.req("S4")
@given(groups=in_groups, breaker=breakers)
def test_it_does_not_matter_how_outcomes_are_grouped(groups: list[list[Ended]], breaker: CircuitBreaker) -> None:
    together = [end for group in groups for end in group]
    grouped = one_by_one = Circuit()
    for group in groups:
        grouped = record(grouped, breaker, group)
    for end in together:
        one_by_one = record(one_by_one, breaker, [end])
    assert grouped == one_by_one == record(Circuit(), breaker, together)


@pytest.mark.req("S4")
@given(before=st.integers(0, 400), breaker=breakers.filter(lambda b: b.consecutive_failures > 1))
def test_a_site_that_breaks_late_is_noticed_within_the_window(before: int, breaker: CircuitBreaker) -> None:
    circuit = record(Circuit(), breaker, [GOOD] * before)
    assert circuit.opened is None
    for _ in range(max(breaker.min_requests, WINDOW_OUTCOMES)):
        circuit = record(circuit, breaker, [failed()])
    assert circuit.opened is not None


def test_only_the_last_outcomes_count() -> None:
    breaker = CircuitBreaker(min_requests=20, failure_threshold_percentage=0.5, consecutive_failures=1_000)
    mostly_bad = [failed() if n % 5 else GOOD for n in range(19)]
    circuit = record(Circuit(), breaker, mostly_bad[:19])
    assert circuit.opened is None, "too few"
    late = record(Circuit(), breaker, [*[GOOD] * 1_000, *[failed()] * 99])
    assert (late.opened, len(late.window)) == (None, WINDOW_OUTCOMES)
    assert record(late, breaker, [failed()]).opened == "100 of the last 200 items failed"
    now_and_then = [GOOD, GOOD, failed()] * 500
    assert record(Circuit(), breaker, now_and_then).opened is None, "what is long ago does not add up"


def test_a_window_is_as_long_as_min_requests_asks() -> None:
    breaker = CircuitBreaker(min_requests=300, failure_threshold_percentage=1.0, consecutive_failures=1_000)
    assert record(Circuit(), breaker, [failed()] * 299).opened is None
    assert record(Circuit(), breaker, [failed()] * 300).opened == "300 of the last 300 items failed"


@pytest.mark.req("S4")
def test_a_share_that_is_reached_exactly_is_reached() -> None:
    breaker = CircuitBreaker(min_requests=100, failure_threshold_percentage=0.07, consecutive_failures=1_000)
    outcomes = [GOOD] * 93 + [failed()] * 7
    assert record(Circuit(), breaker, outcomes).opened == "7 of the last 100 items failed"
    assert record(Circuit(), breaker, [GOOD, *outcomes[:-1]]).opened is None


@pytest.mark.req("S4", "H2")
@pytest.mark.parametrize("kind", FailureKind)
def test_failures_count_as_their_table_says(kind: FailureKind) -> None:
    circuit = record(Circuit(), CircuitBreaker(consecutive_failures=1), [failed(kind)])
    assert (circuit.opened is not None) == RULES[kind].job_circuit
    assert circuit.finished == 1


@pytest.mark.req("S4")
@given(outcomes=st.lists(ends, max_size=40), breaker=breakers)
def test_once_open_it_stays_open_for_the_first_reason(outcomes: list[Ended], breaker: CircuitBreaker) -> None:
    circuit = Circuit()
    for end in outcomes:
        before, circuit = circuit, record(circuit, breaker, [end])
        assert before.opened is None or circuit.opened == before.opened


@pytest.mark.req("S4")
@given(released=st.integers(0, 60), finished=st.integers(0, 60), least=st.integers(1, 50))
def test_never_more_than_min_requests_are_out_before_that_many_are_known(
    released: int, finished: int, least: int
) -> None:
    circuit = Circuit(released=released, finished=finished)
    more = unreleased(circuit, CircuitBreaker(min_requests=least))
    if finished >= least:
        assert more is None
    else:
        assert more is not None
        assert more >= 0
        assert released + more == max(released, least)


@pytest.mark.req("S4")
@given(outcomes=st.lists(ends, max_size=40), breaker=breakers, released=st.integers(0, 50))
def test_outcomes_of_every_kind_are_finished_and_release_nothing(
    outcomes: list[Ended], breaker: CircuitBreaker, released: int
) -> None:
    circuit = record(Circuit(released=released), breaker, outcomes)
    assert (circuit.finished, circuit.released) == (len(outcomes), released)

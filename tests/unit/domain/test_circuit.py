"""When a job's circuit opens (S4), against the same words told once more over the whole list of outcomes."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.circuit_breaker import WINDOW_OUTCOMES, JobCircuit, record_item_ends, release_allowance
from swath.domain.execution_policy import CircuitBreaker
from swath.domain.failure import RULES, Failure, FailureKind
from swath.domain.item import EndedItem, SuccessOutcome
from swath.domain.transitions import ItemState
from tests.contract.suites.model_records import opens

GOOD = EndedItem(seq=1, state=ItemState.SUCCESS, finding=SuccessOutcome.FOUND)
NOT_FOUND = EndedItem(seq=1, state=ItemState.SUCCESS, finding=SuccessOutcome.NOT_FOUND)
SKIPPED = EndedItem(seq=1, state=ItemState.SKIPPED, reason="robots")


def failed(kind: FailureKind = FailureKind.TIMEOUT) -> EndedItem:
    return EndedItem(seq=1, state=ItemState.FAILED, failure=Failure.of(kind, "no answer"))


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


def opened_at(outcomes: Sequence[EndedItem], breaker: CircuitBreaker) -> int | None:
    """How many outcomes it takes; None if it stays closed."""
    return next((n for n in range(1, len(outcomes) + 1) if opens(list(outcomes[:n]), breaker)), None)


@pytest.mark.req("S4")
@given(outcomes=st.lists(ends, max_size=60), breaker=breakers)
def test_it_opens_exactly_when_the_requirement_says(outcomes: list[EndedItem], breaker: CircuitBreaker) -> None:
    circuit, expected = JobCircuit(), opened_at([*outcomes], breaker)
    for n, end in enumerate(outcomes, 1):
        circuit = record_item_ends(circuit, breaker, [end])
        assert (circuit.opened is not None) == (expected is not None and n >= expected)


@pytest.mark.req("S4")
@given(groups=in_groups, breaker=breakers)
def test_it_does_not_matter_how_outcomes_are_grouped(groups: list[list[EndedItem]], breaker: CircuitBreaker) -> None:
    together = [end for group in groups for end in group]
    grouped = one_by_one = JobCircuit()
    for group in groups:
        grouped = record_item_ends(grouped, breaker, group)
    for end in together:
        one_by_one = record_item_ends(one_by_one, breaker, [end])
    assert grouped == one_by_one == record_item_ends(JobCircuit(), breaker, together)


@pytest.mark.req("S4")
@given(before=st.integers(0, 400), breaker=breakers.filter(lambda b: b.consecutive_failures > 1))
def test_a_site_that_breaks_late_is_noticed_within_the_window(before: int, breaker: CircuitBreaker) -> None:
    circuit = record_item_ends(JobCircuit(), breaker, [GOOD] * before)
    assert circuit.opened is None
    for _ in range(max(breaker.min_requests, WINDOW_OUTCOMES)):
        circuit = record_item_ends(circuit, breaker, [failed()])
    assert circuit.opened is not None


def test_only_the_last_outcomes_count() -> None:
    breaker = CircuitBreaker(min_requests=20, failure_threshold_percentage=0.5, consecutive_failures=1_000)
    mostly_bad = [failed() if n % 5 else GOOD for n in range(19)]
    circuit = record_item_ends(JobCircuit(), breaker, mostly_bad[:19])
    assert circuit.opened is None, "too few"
    late = record_item_ends(JobCircuit(), breaker, [*[GOOD] * 1_000, *[failed()] * 99])
    assert (late.opened, len(late.window)) == (None, WINDOW_OUTCOMES)
    assert record_item_ends(late, breaker, [failed()]).opened == "100 of the last 200 items failed"
    now_and_then = [GOOD, GOOD, failed()] * 500
    assert record_item_ends(JobCircuit(), breaker, now_and_then).opened is None, "what is long ago does not add up"


def test_a_window_is_as_long_as_min_requests_asks() -> None:
    breaker = CircuitBreaker(min_requests=300, failure_threshold_percentage=1.0, consecutive_failures=1_000)
    assert record_item_ends(JobCircuit(), breaker, [failed()] * 299).opened is None
    assert record_item_ends(JobCircuit(), breaker, [failed()] * 300).opened == "300 of the last 300 items failed"


@pytest.mark.req("S4")
def test_a_share_that_is_reached_exactly_is_reached() -> None:
    breaker = CircuitBreaker(min_requests=100, failure_threshold_percentage=0.07, consecutive_failures=1_000)
    outcomes = [GOOD] * 93 + [failed()] * 7
    assert record_item_ends(JobCircuit(), breaker, outcomes).opened == "7 of the last 100 items failed"
    assert record_item_ends(JobCircuit(), breaker, [GOOD, *outcomes[:-1]]).opened is None


@pytest.mark.req("S4", "H2")
@pytest.mark.parametrize("kind", FailureKind)
def test_failures_count_as_their_table_says(kind: FailureKind) -> None:
    circuit = record_item_ends(JobCircuit(), CircuitBreaker(consecutive_failures=1), [failed(kind)])
    assert (circuit.opened is not None) == RULES[kind].job_circuit
    assert circuit.finished == 1


@pytest.mark.req("S4")
@given(outcomes=st.lists(ends, max_size=40), breaker=breakers)
def test_once_open_it_stays_open_for_the_first_reason(outcomes: list[EndedItem], breaker: CircuitBreaker) -> None:
    circuit = JobCircuit()
    for end in outcomes:
        before, circuit = circuit, record_item_ends(circuit, breaker, [end])
        assert before.opened is None or circuit.opened == before.opened


@pytest.mark.req("S4")
@given(released=st.integers(0, 60), finished=st.integers(0, 60), least=st.integers(1, 50))
def test_never_more_than_min_requests_are_out_before_that_many_are_known(
    released: int, finished: int, least: int
) -> None:
    circuit = JobCircuit(released=released, finished=finished)
    more = release_allowance(circuit, CircuitBreaker(min_requests=least))
    if finished >= least:
        assert more is None
    else:
        assert more is not None
        assert more >= 0
        assert released + more == max(released, least)


@pytest.mark.req("S4")
@given(outcomes=st.lists(ends, max_size=40), breaker=breakers, released=st.integers(0, 50))
def test_outcomes_of_every_kind_are_finished_and_release_nothing(
    outcomes: list[EndedItem], breaker: CircuitBreaker, released: int
) -> None:
    circuit = record_item_ends(JobCircuit(released=released), breaker, outcomes)
    assert (circuit.finished, circuit.released) == (len(outcomes), released)

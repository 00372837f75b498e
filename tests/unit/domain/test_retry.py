"""When a failed item is tried again: delays, budgets and what a site asked for."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.execution_policy import Retries
from swath.domain.failure import RULES, Failure, FailureKind
from swath.domain.item import TryCounts
from swath.domain.retry import GiveUp, RetryIn, backoff_seconds, decide

MIDDLE = 0.5  # luck that leaves a delay as it is
RETRYABLE = [kind for kind, rule in RULES.items() if rule.retryable]

lucks = st.floats(0, 1, exclude_max=True)


def delays(policy: Retries, kind: FailureKind = FailureKind.TIMEOUT) -> list[float]:
    """Of one item that fails for good."""
    found, tries = [], TryCounts()
    while isinstance(answer := decide(policy, Failure(kind, ""), tries, MIDDLE), RetryIn):
        found.append(answer.delay_seconds)
        tries = answer.tries
    return found


@pytest.mark.req("S6")
def test_the_defaults_are_three_retries_after_one_two_and_four_seconds() -> None:
    assert delays(Retries()) == [1, 2, 4]
    assert delays(Retries(max_retries=4)) == [1, 2, 4, 8]


@pytest.mark.req("S6")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"backoff": "exponential", "backoff_factor": 3}, [1, 3, 9, 27, 60, 60]),
        ({"backoff": "linear", "base_delay_seconds": 5}, [5, 10, 15, 20, 25, 30]),
        ({"backoff": "linear", "base_delay_seconds": 5, "max_delay_seconds": 12}, [5, 10, 12, 12, 12, 12]),
        ({"backoff": "fixed", "base_delay_seconds": 7}, [7, 7, 7, 7, 7, 7]),
        ({"base_delay_seconds": 0}, [0, 0, 0, 0, 0, 0]),
    ],
)
def test_each_backoff_grows_in_its_own_way_up_to_the_cap(policy: dict[str, object], expected: list[float]) -> None:
    assert delays(Retries.model_validate({"max_retries": 6, **policy})) == expected


@pytest.mark.req("S6")
def test_a_hundred_retries_of_the_steepest_backoff_stay_finite() -> None:
    steep = Retries(max_retries=100, backoff_factor=100, base_delay_seconds=86_400, max_delay_seconds=86_400)
    assert delays(steep) == [86_400] * 100
    assert math.isfinite(backoff_seconds(steep, 86_400, 10_000))


@pytest.mark.req("S6")
@given(luck=lucks, retry=st.integers(1, 3))
def test_jitter_spreads_a_delay_by_a_fifth(luck: float, retry: int) -> None:
    answer = decide(Retries(), Failure(FailureKind.CONNECT, ""), TryCounts(own=retry - 1), luck)
    assert isinstance(answer, RetryIn)
    base = 2 ** (retry - 1)
    assert 0.8 * base <= answer.delay_seconds < 1.2 * base + 1e-9


@pytest.mark.req("S6")
def test_luck_decides_where_in_the_spread() -> None:
    failure = Failure(FailureKind.CONNECT, "")
    answers = [decide(Retries(), failure, TryCounts(), luck) for luck in (0.0, 0.25, 0.75)]
    assert [a.delay_seconds for a in answers if isinstance(a, RetryIn)] == pytest.approx([0.8, 0.9, 1.1])


@pytest.mark.req("S6")
@given(asked=st.floats(0, 3_600), luck=lucks, own=st.integers(0, 2))
def test_retry_after_is_never_undercut(asked: float, luck: float, own: int) -> None:
    answer = decide(Retries(), Failure(FailureKind.RATE_LIMITED, "", asked), TryCounts(own=own), luck)
    assert isinstance(answer, RetryIn)
    assert answer.delay_seconds >= asked
    assert answer.delay_seconds <= max(asked, 4) * 1.2


@pytest.mark.req("S6")
@pytest.mark.parametrize("asked", [-5.0, math.nan, math.inf, 1e12])
def test_a_senseless_retry_after_does_no_harm(asked: float) -> None:
    answer = decide(Retries(), Failure(FailureKind.RATE_LIMITED, "", asked), TryCounts(), MIDDLE)
    assert isinstance(answer, RetryIn)
    assert 1 <= answer.delay_seconds <= 3_600 * 1.2


@pytest.mark.req("S6")
@pytest.mark.parametrize("kind", [kind for kind in FailureKind if kind not in RETRYABLE])
def test_a_kind_that_is_not_retryable_is_final_at_once(kind: FailureKind) -> None:
    generous = Retries.model_validate({"max_retries": 9, "kinds": {kind.value: {"max_retries": 9}}})
    assert decide(generous, Failure(kind, ""), TryCounts(), MIDDLE) == GiveUp(TryCounts(own=1))


@pytest.mark.req("S6")
@pytest.mark.parametrize("kind", RETRYABLE)
def test_a_retryable_kind_has_its_budget_and_no_more(kind: FailureKind) -> None:
    policy = Retries(max_retries=2, max_infrastructure_retries=5)
    assert len(delays(policy, kind)) == (5 if RULES[kind].own_budget else 2)


@pytest.mark.req("S6")
def test_infrastructure_faults_do_not_use_up_the_items_own_tries() -> None:
    policy = Retries(max_retries=1, max_infrastructure_retries=2)
    after_proxy = decide(policy, Failure(FailureKind.PROXY, ""), TryCounts(own=1, crashes=2), MIDDLE)
    assert after_proxy == RetryIn(1.0, TryCounts(own=1, infrastructure=1, crashes=2))
    after_site = decide(policy, Failure(FailureKind.TIMEOUT, ""), TryCounts(infrastructure=9), MIDDLE)
    assert after_site == RetryIn(1.0, TryCounts(own=1, infrastructure=9))


@pytest.mark.req("S6")
def test_a_kind_may_override_number_and_delay() -> None:
    policy = Retries.model_validate(
        {
            "kinds": {
                "blocked": {"max_retries": 5, "base_delay_seconds": 10},
                "timeout": {"max_retries": 0},
                "proxy": {"max_retries": 1},
                "captcha": {"base_delay_seconds": 3},
            }
        }
    )
    assert delays(policy, FailureKind.BLOCKED) == [10, 20, 40, 60, 60]
    assert delays(policy, FailureKind.TIMEOUT) == []
    assert delays(policy, FailureKind.PROXY) == [1]
    assert delays(policy, FailureKind.CAPTCHA) == [3, 6, 12]
    assert delays(policy, FailureKind.CONNECT) == [1, 2, 4]


@pytest.mark.req("S6")
def test_maintenance_waits_long_whatever_the_policy_says() -> None:
    late = delays(Retries(max_delay_seconds=1), FailureKind.MAINTENANCE)
    assert len(late) == 3
    assert all(300 <= delay < 360 for delay in late)

"""The rate of a site: what is taken never exceeds it (property 22), and how a complaint slows it down (property 26)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swath.domain.token_bucket import (
    LATE_INSTANT_SECONDS,
    MIN_RATE_FACTOR,
    SLICE_SECONDS,
    TokenBucket,
    rate_factor,
    reserve,
    slow_down,
)
from tests.contract.suites.site_state_rate import instants, over_rate

QUIET = 60.0
rates = st.one_of(st.sampled_from([1 / 60, 0.5, 1.0, 10.0, 33.3, 1_000.0]), st.floats(0.01, 2_000))
pauses = st.sampled_from([0.0, 0.0, 0.001, 0.09, 0.5, 7.0])


def slowed(factor: float, at: float) -> TokenBucket:
    return TokenBucket(next_free=at, factor=factor, slowed_at=at, halved_from=at)


@pytest.mark.req("D2", "Z3", "property 22")
@settings(max_examples=60, deadline=None)
@given(rate=rates, asked=st.lists(st.tuples(st.integers(1, 60), pauses), max_size=30), late=st.randoms())
def test_requests_never_exceed_the_rate_in_any_window_even_if_each_is_a_little_late(
    rate: float, asked: list[tuple[int, float]], late: Random
) -> None:
    bucket, now, slices = TokenBucket(), 100.0, []
    for requests, pause in asked:
        now += pause
        bucket, taken = reserve(bucket, rate, requests, now, QUIET)
        assert 1 <= taken.count <= requests
        assert taken.first >= now
        assert taken.count == 1 or taken.count * taken.interval <= SLICE_SECONDS + 1e-9
        slices.append(taken)
    planned = instants(slices)
    assert over_rate(planned, rate) == 0
    sent = sorted(at + late.uniform(0, LATE_INSTANT_SECONDS) for at in planned)
    assert over_rate(sent, rate) <= rate * LATE_INSTANT_SECONDS + 1e-6  # of the 50 ms that Z3 allows


@pytest.mark.req("D2")
def test_who_asks_again_and_again_gets_all_of_the_rate() -> None:
    bucket, now, slices = TokenBucket(), 0.0, []
    while now < 10.0:
        bucket, taken = reserve(bucket, 50.0, 1_000, now, QUIET)
        slices.append(taken)
        now = bucket.next_free
    assert len(instants(slices)) == pytest.approx(500, abs=5)


@pytest.mark.req("S7", "D2", "property 26")
@given(
    at=st.floats(0, 1e6),
    quiet=st.floats(0.5, 3_600),
    factor=st.sampled_from([1.0, 0.75, 0.5, 0.3, 1 / 8, 1 / 16]),
)
def test_a_complaint_halves_the_rate_and_it_comes_back_by_quarters(at: float, quiet: float, factor: float) -> None:
    before = TokenBucket() if factor == 1.0 else slowed(factor, at - 0.01 * quiet)
    bucket = slow_down(before, at, at, quiet)
    half = max(MIN_RATE_FACTOR, factor / 2)
    for periods in range(5):
        for part in (0.001, 0.5, 0.999):
            expected = min(1.0, half + 0.25 * periods)
            assert rate_factor(bucket, at + (periods + part) * quiet, quiet) == pytest.approx(expected)


@pytest.mark.req("S7", "property 26")
@given(pauses=st.lists(st.floats(0.0, 200.0), min_size=1, max_size=40))
def test_it_never_falls_below_a_sixteenth_nor_rises_above_the_policy(pauses: list[float]) -> None:
    bucket, now = TokenBucket(), 0.0
    for pause in pauses:
        now += pause
        bucket = slow_down(bucket, now, now, QUIET)
        assert MIN_RATE_FACTOR <= rate_factor(bucket, now, QUIET) <= 0.5
        assert rate_factor(bucket, now + 1e6, QUIET) == 1.0
        bucket, taken = reserve(bucket, 16.0, 1, now, QUIET)
        assert taken.interval <= 1.0


@pytest.mark.req("S7", "property 26")
@given(
    ages=st.lists(st.floats(0.001, 30.0), max_size=20),
    waits=st.lists(st.floats(0.0, 20.0), max_size=20),
)
def test_complaints_about_what_was_under_way_only_prolong_it(ages: list[float], waits: list[float]) -> None:
    halved_at, bucket = 50.0, slow_down(TokenBucket(), 50.0, 50.0, QUIET)
    now = halved_at
    for age, wait in zip(ages, waits, strict=False):
        now += wait
        bucket = slow_down(bucket, halved_at - age, now, QUIET)
        assert rate_factor(bucket, now, QUIET) == 0.5
        assert rate_factor(bucket, now + QUIET - 0.01, QUIET) == 0.5
        assert rate_factor(bucket, now + QUIET + 0.01, QUIET) == 0.75


@pytest.mark.req("S7", "property 26")
def test_requests_that_were_reserved_before_the_halving_count_as_under_way() -> None:
    bucket, taken = reserve(TokenBucket(), 1_000.0, 100, 10.0, QUIET)
    bucket = slow_down(bucket, taken.first, 10.01, QUIET)
    bucket = slow_down(bucket, taken.first + 99 * taken.interval, 10.3, QUIET)
    assert bucket.factor == 0.5
    bucket = slow_down(bucket, taken.first + 100 * taken.interval, 10.4, QUIET)
    assert bucket.factor == 0.25


@pytest.mark.req("S7", "property 26")
@pytest.mark.parametrize("answer_seconds", [0.05, 0.5, 3.0])
def test_a_site_that_complains_of_everything_is_slowed_down_to_the_least(answer_seconds: float) -> None:
    """However long its answers take: that others are under way is no reason to stay fast."""
    bucket, sent, now = TokenBucket(), 0, 0.0
    answers: list[float] = []  # when each request was sent whose answer is still to come
    while now < 60.0:
        bucket, taken = reserve(bucket, 20.0, 1, now, QUIET)
        now, sent = taken.first, sent + 1
        answers.append(now)
        while answers[0] + answer_seconds <= now:
            bucket = slow_down(bucket, answers[0], answers.pop(0) + answer_seconds, QUIET)
    assert bucket.factor == MIN_RATE_FACTOR
    assert sent < 20 * (1 + answer_seconds) * 5 + 60 * 20 / 16

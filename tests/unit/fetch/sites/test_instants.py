"""Reserved instants: used in order, never early, and lost when they are missed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.token_bucket import LATE_INSTANT_SECONDS, RateSlice
from swath.fetch.sites.reservations import EARLY_SECONDS, ReservedTimes

pytestmark = pytest.mark.req("D2", "Z3")


def test_slices_are_used_one_after_the_other() -> None:
    instants = ReservedTimes()
    instants.add(RateSlice(first=1.0, interval=0.01, count=2))
    instants.add(RateSlice(first=5.0, interval=1.0, count=1))
    assert (instants.count(1.0), instants.end) == (3, 6.0)
    assert [instants.take(at) for at in (0.9, 1.0, 1.0, 1.01, 1.02)] == [None, 1.0, None, 1.01, None]
    assert instants.next_at() == 5.0
    assert instants.take(5.0) == 5.0
    assert (instants.next_at(), instants.take(5.0), instants.end) == (None, None, 6.0)


def test_what_is_missed_is_lost() -> None:
    instants = ReservedTimes()
    instants.add(RateSlice(first=1.0, interval=0.01, count=10))
    assert instants.take(1.045) == pytest.approx(1.03)
    assert instants.count(1.045) == 6
    assert instants.take(9.0) is None
    assert instants.count(9.0) == 0


def test_what_is_dropped_does_not_come_back() -> None:
    instants = ReservedTimes()
    instants.add(RateSlice(first=1.0, interval=0.01, count=10))
    instants.drop()
    assert (instants.take(1.0), instants.count(1.0)) == (None, 0)


@given(
    st.lists(st.tuples(st.floats(0, 0.3), st.floats(1e-4, 0.2), st.integers(1, 30)), min_size=1, max_size=4),
    st.lists(st.floats(0, 0.05), max_size=80),
)
def test_each_is_used_once_in_its_time(slices: list[tuple[float, float, int]], steps: list[float]) -> None:
    instants, end, total = ReservedTimes(), 0.0, 0
    for gap, interval, count in slices:
        instants.add(RateSlice(end + gap, interval, count))
        end, total = instants.end, total + count
    now, taken = 0.0, list[float]()
    for step in steps:
        now += step
        while (instant := instants.take(now)) is not None:
            assert now - LATE_INSTANT_SECONDS <= instant <= now + EARLY_SECONDS
            taken.append(instant)
    assert taken == sorted(set(taken))
    assert len(taken) + instants.count(now) <= total


def test_slices_may_lie_between_each_other() -> None:
    instants = ReservedTimes()
    instants.add(RateSlice(first=1.0, interval=0.4, count=3))
    instants.add(RateSlice(first=1.1, interval=0.8, count=2))
    assert instants.count(1.0) == 5
    assert instants.end == pytest.approx(2.7)
    taken = [instants.take(at) for at in (1.0, 1.1, 1.4, 1.8, 1.9, 2.2)]
    assert taken == [pytest.approx(at) if at else None for at in (1.0, 1.1, 1.4, 1.8, 1.9, None)]


def test_what_is_given_back_is_gone_and_what_has_passed_is_not_given() -> None:
    instants = ReservedTimes()
    instants.add(RateSlice(first=1.0, interval=0.5, count=4))
    assert instants.give_back(1.75) == (RateSlice(first=2.0, interval=0.5, count=2),)
    assert (instants.take(2.0), instants.end) == (None, 3.0)


def test_thinning_keeps_every_so_many_th() -> None:
    instants = ReservedTimes()
    instants.add(RateSlice(first=1.0, interval=0.1, count=5))
    instants.add(RateSlice(first=2.0, interval=0.1, count=4), every=4)
    instants.thin(2)
    assert [instants.take(at) for at in (1.0, 1.1, 1.2, 1.4, 2.0, 2.2)] == [
        1.0,
        None,
        pytest.approx(1.2),
        pytest.approx(1.4),
        2.0,
        None,
    ]
    assert instants.end == pytest.approx(2.4), "nothing else is to be had before"

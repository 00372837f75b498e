"""How fast a job is now (J7): it follows the ends, falls in silence, and knows when it knows nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.throughput import (
    STALL_FACTOR,
    WINDOW_SECONDS,
    Throughput,
    average_rate,
    current_rate,
    record_ended_items,
    start_measuring,
)

pytestmark = pytest.mark.req("J7")

commits = st.lists(st.tuples(st.floats(0, 1_000), st.integers(1, 500)), max_size=30)
slots = st.integers(1, 500)


def after(commits: list[tuple[float, int]], slots: int) -> Throughput:
    """So many seconds after each other so many items ended."""
    pace = start_measuring(1_000.0)
    for seconds, items in commits:
        pace = record_ended_items(pace, pace.at + seconds, items, slots)
    return pace


@given(commits=commits, slots=slots, silence=st.lists(st.floats(0, 10_000), min_size=2))
def test_in_silence_the_pace_never_rises_and_is_never_negative(
    commits: list[tuple[float, int]], slots: int, silence: list[float]
) -> None:
    pace = after(commits, slots)
    seen = [current_rate(pace, pace.at + seconds, slots) for seconds in sorted(silence)]
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] >= 0


@given(commits=commits, slots=slots)
def test_whatever_was_before_silence_makes_an_end_of_it(commits: list[tuple[float, int]], slots: int) -> None:
    assert current_rate(after(commits, slots), 1e9, slots) == 0.0


@given(items=st.integers(1, 100), seconds=st.floats(1, STALL_FACTOR * WINDOW_SECONDS), slots=slots)
def test_a_regular_series_has_its_own_pace(items: int, seconds: float, slots: int) -> None:
    pace = after([(seconds, items)] * 20, slots)
    assert current_rate(pace, pace.at, slots) == pytest.approx(items / seconds)


def test_ends_of_one_moment_count_as_of_one_commit() -> None:
    together, apart = after([(3, 1), (3, 40)], 8), after([(3, 1), (3, 20), (0, 20)], 8)
    assert current_rate(apart, apart.at, 8) == pytest.approx(current_rate(together, together.at, 8))


def test_the_very_first_moment_is_not_taken_for_the_pace() -> None:
    pace = after([(0, 50)], 8)
    assert current_rate(pace, pace.at, 8) == 50.0


def test_slots_that_may_be_idle_lengthen_the_look_back_by_no_more_than_a_minute() -> None:
    pace = after([(1, 1)] * 10, 10_000)
    assert current_rate(pace, pace.at + 119, 10_000) > 0
    assert current_rate(pace, pace.at + 121, 10_000) == 0.0


def test_a_restart_of_the_machine_begins_anew() -> None:
    pace = after([(1, 10)] * 10, 8)
    assert current_rate(pace, 5.0, 8) == 0.0
    assert record_ended_items(pace, 5.0, 10, 8) == start_measuring(5.0)


@pytest.mark.parametrize(
    ("items", "started_at", "ended_at", "expected"),
    [(30, 100.0, 120.0, 1.5), (30, None, 120.0, 0.0), (30, 120.0, 120.0, 0.0), (-1, 100.0, 120.0, 0.0)],
)
def test_an_ended_job_has_the_pace_of_its_whole_run(
    items: int, started_at: float | None, ended_at: float, expected: float
) -> None:
    assert average_rate(items, started_at, ended_at) == expected

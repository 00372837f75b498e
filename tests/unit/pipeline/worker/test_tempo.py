"""How often a worker speaks to the store about a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.pipeline.worker.outcome_buffer import (
    EAGER_SLOT_REQUESTS,
    GATHER_ROUND_TRIPS,
    MAX_LEASE_FRACTION,
    MAX_SLOT_REQUEST_FACTOR,
    MIN_SLOT_REQUEST_SECONDS,
    CommitInterval,
)

LEASE_SECONDS = 30.0


def tempo_after(*words_seconds: float) -> CommitInterval:
    tempo = CommitInterval()
    for seconds in words_seconds:
        tempo.took(seconds)
    return tempo


@pytest.mark.req("Q3")
def test_while_the_store_answers_at_once_nobody_gathers_longer_than_configured() -> None:
    tempo = tempo_after(*[0.03] * 50)
    assert tempo.gather_seconds(0.5, LEASE_SECONDS) == 0.5
    assert tempo.gather_seconds(3.0, LEASE_SECONDS) == 3.0
    assert CommitInterval().gather_seconds(0.5, LEASE_SECONDS) == 0.5


@pytest.mark.req("Q3", "W1")
def test_where_words_take_long_more_is_gathered_for_each_so_that_waiting_stays_a_small_part() -> None:
    tempo = tempo_after(*[0.2] * 50)
    assert tempo.gather_seconds(0.5, LEASE_SECONDS) == pytest.approx(GATHER_ROUND_TRIPS * 0.2)
    for _ in range(50):
        tempo.took(0.02)
    assert tempo.gather_seconds(0.5, LEASE_SECONDS) == 0.5, "and no longer when the others have gone"


@pytest.mark.req("Q3")
def test_one_slow_word_changes_little() -> None:
    assert tempo_after(*[0.02] * 50, 0.2).gather_seconds(0.5, LEASE_SECONDS) < GATHER_ROUND_TRIPS * 0.1


@pytest.mark.req("W3")
@given(words=st.lists(st.floats(0.0, 100.0), max_size=20), shortest=st.floats(0.01, 5.0))
def test_a_lease_is_heard_of_in_time_however_slow_the_store_is(words: list[float], shortest: float) -> None:
    longest = MAX_LEASE_FRACTION * LEASE_SECONDS
    assert shortest <= tempo_after(*words).gather_seconds(shortest, LEASE_SECONDS) <= max(shortest, longest)


@pytest.mark.req("S1")
def test_who_asks_for_slots_in_vain_asks_less_often_until_some_come() -> None:
    tempo, waits = CommitInterval(), []
    for _ in range(EAGER_SLOT_REQUESTS + 6):
        waits.append(tempo.hungry_seconds(0.5, LEASE_SECONDS))
        tempo.asked(in_vain=True)
    assert waits == [*[0.125] * EAGER_SLOT_REQUESTS, 0.125, 0.25, 0.5, 1.0, 1.0, 1.0]
    assert waits[-1] == MAX_SLOT_REQUEST_FACTOR * waits[0]
    tempo.asked(in_vain=False)
    assert tempo.hungry_seconds(0.5, LEASE_SECONDS) == 0.125
    assert tempo.hungry_seconds(0.05, LEASE_SECONDS) == MIN_SLOT_REQUEST_SECONDS


@pytest.mark.req("S1", "Q3")
def test_nobody_asks_for_slots_faster_than_the_store_can_answer() -> None:
    assert tempo_after(*[1.0] * 50).hungry_seconds(0.5, LEASE_SECONDS) == pytest.approx(3.0)

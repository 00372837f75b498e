"""Whose turn it is (S3): the most urgent first, and nobody starves (property 36)."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.fair_scheduling import JobCandidate, next_job


@st.composite
def ready_jobs(draw: st.DrawFn) -> list[JobCandidate]:
    """Jobs of which each has work at every time."""
    ranks = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=7))
    return [JobCandidate(priority, items, number, 0) for number, (priority, items) in enumerate(ranks, 1)]


def grant(jobs: list[JobCandidate], granted: int) -> tuple[int, list[JobCandidate]]:
    """One lease: who gets it, and how things stand then."""
    turn = next_job(jobs, granted)
    assert turn is not None
    served = msgspec.structs.replace(turn, served=granted + 1)
    return turn.number, [served if job.number == turn.number else job for job in jobs]


@pytest.mark.req("S3")
@given(jobs=ready_jobs())
def test_property_36_none_starves(jobs: list[JobCandidate]) -> None:
    turns = []
    for granted in range(12 * len(jobs)):
        number, jobs = grant(jobs, granted)
        turns.append(number)
    within = 4 * len(jobs)
    for first in range(len(turns) - within + 1):
        assert set(turns[first : first + within]) == {job.number for job in jobs}


@pytest.mark.req("S3")
@given(jobs=ready_jobs(), late=ready_jobs(), joins=st.lists(st.integers(0, 30), min_size=7, max_size=7))
def test_none_starves_though_others_come_and_stay(
    jobs: list[JobCandidate], late: list[JobCandidate], joins: list[int]
) -> None:
    coming = [
        (join, msgspec.structs.replace(job, number=100 + job.number)) for join, job in zip(joins, late, strict=False)
    ]
    most, last_turn = len(jobs) + len(late), {job.number: 0 for job in jobs}
    for granted in range(40 + 8 * most):
        for join, job in coming:
            if join == granted:
                jobs = [*jobs, msgspec.structs.replace(job, served=granted)]
                last_turn[job.number] = granted
        number, jobs = grant(jobs, granted)
        last_turn[number] = granted + 1
        assert all(granted + 1 - last_turn[job.number] <= 4 * most for job in jobs)


@pytest.mark.req("S3")
@given(jobs=ready_jobs(), granted=st.integers(0, 100))
def test_property_36_items_of_smaller_jobs_go_first_while_nobody_was_passed_over(
    jobs: list[JobCandidate], granted: int
) -> None:
    fresh = [msgspec.structs.replace(job, served=granted) for job in jobs]
    turn = next_job(fresh, granted)
    assert turn == min(fresh, key=lambda job: (-job.priority, job.items, job.number))


@pytest.mark.req("S3")
def test_of_those_that_were_passed_over_the_one_that_waits_longest_comes_next() -> None:
    jobs = [JobCandidate(9, 1, 1, 90), JobCandidate(0, 9, 2, 12), JobCandidate(0, 9, 3, 11), JobCandidate(0, 9, 4, 11)]
    assert [turn.number for turn in (next_job(jobs, 100), next_job(jobs[:2], 100)) if turn] == [3, 2]


@pytest.mark.req("S3")
def test_the_urgent_get_most_of_the_leases() -> None:
    jobs = [JobCandidate(0, 9, 1, 0), JobCandidate(0, 2, 2, 0), JobCandidate(1, 50, 3, 0)]
    turns = []
    for granted in range(60):
        number, jobs = grant(jobs, granted)
        turns.append(number)
    assert turns[0] == 3
    assert turns.count(3) > 30 > turns.count(2)


def test_nobody_is_in_turn_when_there_is_no_work() -> None:
    assert next_job([], 7) is None

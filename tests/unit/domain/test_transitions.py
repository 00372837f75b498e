"""The tables of legal moves, and the page that shows them."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.transitions import ITEM_MOVES, JOB_MOVES, ItemState, JobState, check_item, check_job, diagram

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "states.md"


@pytest.mark.req("J3", "J4")
def test_the_page_shows_the_tables_as_they_are() -> None:
    assert diagram() in PAGE.read_text(encoding="utf-8"), "write it anew: python -m swath.domain.transitions"


@pytest.mark.req("J3", "J4")
def test_every_move_of_the_tables_is_an_arrow_and_no_other_is() -> None:
    arrows = [line.strip() for line in diagram().splitlines() if "-->" in line]
    moves = [f"{old} --> {new}" for table in (ITEM_MOVES, JOB_MOVES) for old, news in table.items() for new in news]
    ends = [f"{state} --> [*]" for kind in (ItemState, JobState) for state in kind if state.terminal]
    assert sorted(arrows) == sorted(moves + ends)


@pytest.mark.req("J3")
def test_items_take_the_path_of_the_requirements() -> None:
    path = [ItemState.PENDING, ItemState.QUEUED, ItemState.IN_PROGRESS, ItemState.SUCCESS]
    for old, new in itertools.pairwise(path):
        check_item(old, new)
    check_item(ItemState.IN_PROGRESS, ItemState.PENDING)  # to wait for a retry
    with pytest.raises(ValueError, match="in_progress to queued"):
        check_item(ItemState.IN_PROGRESS, ItemState.QUEUED)
    with pytest.raises(ValueError, match="pending to in_progress"):
        check_item(ItemState.PENDING, ItemState.IN_PROGRESS)


@pytest.mark.req("J5")
def test_an_item_that_runs_is_not_cancelled() -> None:
    with pytest.raises(ValueError, match="in_progress to cancelled"):
        check_item(ItemState.IN_PROGRESS, ItemState.CANCELLED)


@pytest.mark.req("J4")
def test_a_job_is_not_done_before_it_ran() -> None:
    for old, also in ((JobState.LOADING, JobState.FAILED), (JobState.PENDING, JobState.COMPLETED)):
        for new in (JobState.COMPLETED, JobState.PARTIALLY_COMPLETED, also):
            with pytest.raises(ValueError, match=f"{old} to {new}"):
                check_job(old, new)


@pytest.mark.req("J4")
def test_nothing_is_leased_before_the_load_is_closed() -> None:
    with pytest.raises(ValueError, match="loading to running"):
        check_job(JobState.LOADING, JobState.RUNNING)


@pytest.mark.req("Z1", "J5")
@given(old=st.sampled_from(JobState), new=st.sampled_from(JobState))
def test_from_the_end_of_a_job_only_a_retry_leads_on(old: JobState, new: JobState) -> None:
    ends = {JobState.COMPLETED, JobState.PARTIALLY_COMPLETED, JobState.FAILED, JobState.CANCELLED}
    assert old.terminal == (old in ends)
    if old.terminal and new is JobState.PENDING:
        check_job(old, new)
    elif old.terminal:
        with pytest.raises(ValueError, match="cannot go"):
            check_job(old, new)


@pytest.mark.req("Z1", "J5")
@given(old=st.sampled_from(ItemState), new=st.sampled_from(ItemState))
def test_from_the_end_of_an_item_only_a_retry_leads_on(old: ItemState, new: ItemState) -> None:
    assert old.terminal == (old in {ItemState.SUCCESS, ItemState.FAILED, ItemState.SKIPPED, ItemState.CANCELLED})
    if old.terminal and new is ItemState.PENDING:
        check_item(old, new)
    elif old.terminal:
        with pytest.raises(ValueError, match="cannot go"):
            check_item(old, new)


@pytest.mark.req("J5")
def test_what_runs_in_a_paused_job_may_end_it() -> None:
    for end in (state for state in JobState if state.terminal):
        check_job(JobState.PAUSED, end)
    check_job(JobState.PAUSED, JobState.PENDING)
    check_job(JobState.PAUSED, JobState.RUNNING)


@pytest.mark.req("J3", "J4")
def test_from_every_state_an_end_can_be_reached() -> None:
    for table in (ITEM_MOVES, JOB_MOVES):
        reachable = {state for state in table if state.terminal}
        for _ in table:
            reachable |= {state for state, news in table.items() if reachable & set(news)}
        assert reachable == set(table)

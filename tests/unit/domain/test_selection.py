"""Which items of an ended job run again (J5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swath.domain.failure import FailureKind
from swath.domain.item import RetrySelection
from swath.domain.transitions import ItemState

END_STATES = [state for state in ItemState if state.terminal]
KINDS = [FailureKind.TIMEOUT, FailureKind.BLOCKED]

selections = st.builds(
    RetrySelection,
    failed=st.booleans(),
    kinds=st.frozensets(st.sampled_from(KINDS)),
    not_run=st.booleans(),
    item_ids=st.frozensets(st.sampled_from("abc")),
    since=st.one_of(st.none(), st.integers(0, 9).map(float)),
)
ended = st.tuples(
    st.sampled_from("abcd"), st.sampled_from(END_STATES), st.sampled_from([*KINDS, None]), st.integers(0, 9).map(float)
)


@pytest.mark.req("J5")
@given(selection=selections, item=ended)
def test_any_of_the_kinds_selects_and_the_time_narrows(
    selection: RetrySelection, item: tuple[str, ItemState, FailureKind | None, float]
) -> None:
    item_id, state, kind, ended_at = item
    reasons = {
        "failed": selection.failed and state is ItemState.FAILED,
        "kind": state is ItemState.FAILED and kind in selection.kinds,
        "not run": selection.not_run and state is ItemState.CANCELLED,
        "named": item_id in selection.item_ids,
        "all": not selection.by_kind and selection.since is not None,
    }
    in_time = selection.since is None or ended_at >= selection.since
    assert selection.takes(*item) == (any(reasons.values()) and in_time)


@pytest.mark.req("J5")
@given(item=ended)
def test_an_empty_selection_takes_nothing(item: tuple[str, ItemState, FailureKind | None, float]) -> None:
    assert RetrySelection().empty
    assert not RetrySelection().takes(*item)


@pytest.mark.parametrize(
    "selection",
    [
        RetrySelection(failed=True),
        RetrySelection(kinds=frozenset({FailureKind.BLOCKED})),
        RetrySelection(not_run=True),
        RetrySelection(item_ids=frozenset({"a"})),
        RetrySelection(since=0.0),
    ],
)
def test_whatever_is_asked_for_is_no_empty_selection(selection: RetrySelection) -> None:
    assert not selection.empty


def test_the_time_alone_takes_successes_too() -> None:
    assert RetrySelection(since=5.0).takes("a", ItemState.SUCCESS, None, 5.0)
    assert not RetrySelection(since=5.0).takes("a", ItemState.SUCCESS, None, 4.9)


def test_the_kind_of_a_failure_that_was_retried_well_does_not_count() -> None:
    selection = RetrySelection(kinds=frozenset({FailureKind.BLOCKED}))
    assert not selection.takes("a", ItemState.SUCCESS, FailureKind.BLOCKED, 0.0)

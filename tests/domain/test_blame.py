"""What becomes of an item whose worker was lost while it ran alone."""

import pytest

from swath.domain.attempt import Attempt, Tries
from swath.domain.blame import (
    LONGEST_DELAY_SECONDS,
    MOST_SILENCES,
    WORKER_SILENT,
    delay_after_silence,
    end_without_worker,
    ended_without_worker,
)
from swath.domain.failure import FailureKind
from swath.domain.lease import POISON_CRASHES
from swath.domain.transitions import ItemState

ATTEMPTS = (Attempt(1.0, 2.0, "worker"),)


@pytest.mark.req("Z10", "S6")
def test_the_wait_after_a_silence_doubles_and_has_an_end() -> None:
    assert [delay_after_silence(n, 15.0) for n in range(5)] == [0.0, 0.0, 15.0, 45.0, 105.0]
    assert delay_after_silence(MOST_SILENCES, 15.0) == LONGEST_DELAY_SECONDS
    assert delay_after_silence(10_000, 15.0) == LONGEST_DELAY_SECONDS


@pytest.mark.req("Z10", "S6")
@pytest.mark.parametrize(
    ("crashes", "silences", "kind", "reason"),
    [
        (POISON_CRASHES, 0, FailureKind.POISON, None),
        (POISON_CRASHES, MOST_SILENCES, FailureKind.POISON, None),
        (POISON_CRASHES - 1, MOST_SILENCES, FailureKind.INTERNAL, WORKER_SILENT),
    ],
)
def test_only_proven_deaths_make_poison(crashes: int, silences: int, kind: FailureKind, reason: str | None) -> None:
    end = end_without_worker(7, Tries(own=1, crashes=crashes), ATTEMPTS, silences)
    assert end is not None
    assert end.failure is not None
    assert (end.seq, end.state, end.failure.kind, end.reason) == (7, ItemState.FAILED, kind, reason)
    assert (end.attempts, end.tries) == (ATTEMPTS, Tries(own=1, crashes=crashes))
    assert ("died" in end.failure.message) == (kind is FailureKind.POISON)
    assert ended_without_worker(end)


@pytest.mark.req("Z10", "S6")
def test_before_that_the_item_runs_again() -> None:
    assert end_without_worker(1, Tries(crashes=POISON_CRASHES - 1), (), MOST_SILENCES - 1) is None

"""What becomes of an item whose worker was lost while it ran alone."""

import pytest

from swath.domain.failure import FailureKind
from swath.domain.item import Attempt, TryCounts
from swath.domain.lease import (
    MAX_SILENCE_DELAY_SECONDS,
    MAX_SILENCES,
    POISON_CRASHES,
    WORKER_SILENT,
    delay_after_silence,
    end_after_worker_loss,
    is_worker_loss_end,
)
from swath.domain.transitions import ItemState

ATTEMPTS = (Attempt(1.0, 2.0, "worker"),)


@pytest.mark.req("Z10", "S6")
def test_the_wait_after_a_silence_doubles_and_has_an_end() -> None:
    assert [delay_after_silence(n, 15.0) for n in range(5)] == [0.0, 0.0, 15.0, 45.0, 105.0]
    assert delay_after_silence(MAX_SILENCES, 15.0) == MAX_SILENCE_DELAY_SECONDS
    assert delay_after_silence(10_000, 15.0) == MAX_SILENCE_DELAY_SECONDS


@pytest.mark.req("Z10", "S6")
@pytest.mark.parametrize(
    ("crashes", "silences", "kind", "reason"),
    [
        (POISON_CRASHES, 0, FailureKind.POISON, None),
        (POISON_CRASHES, MAX_SILENCES, FailureKind.POISON, None),
        (POISON_CRASHES - 1, MAX_SILENCES, FailureKind.INTERNAL, WORKER_SILENT),
    ],
)
def test_only_proven_deaths_make_poison(crashes: int, silences: int, kind: FailureKind, reason: str | None) -> None:
    end = end_after_worker_loss(7, TryCounts(own=1, crashes=crashes), ATTEMPTS, silences)
    assert end is not None
    assert end.failure is not None
    assert (end.seq, end.state, end.failure.kind, end.reason) == (7, ItemState.FAILED, kind, reason)
    assert (end.attempts, end.tries) == (ATTEMPTS, TryCounts(own=1, crashes=crashes))
    assert ("died" in end.failure.message) == (kind is FailureKind.POISON)
    assert is_worker_loss_end(end)


@pytest.mark.req("Z10", "S6")
def test_before_that_the_item_runs_again() -> None:
    assert end_after_worker_loss(1, TryCounts(crashes=POISON_CRASHES - 1), (), MAX_SILENCES - 1) is None

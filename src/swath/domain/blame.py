"""Blame: what becomes of an item whose worker was lost while it ran alone (S6). Every store's rescue asks here.

Only a proven death counts as a crash. A worker that fell silent may be frozen or cut off, or its host may be gone;
nobody can tell. So its item runs alone again, after a longer wait each time, and is failed at last: else one item could
keep its job from ending.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swath.domain.attempt import Attempt, Ended, Tries
from swath.domain.failure import Failure, FailureKind
from swath.domain.lease import POISON_CRASHES
from swath.domain.transitions import ItemState

__all__ = [
    "LONGEST_DELAY_SECONDS",
    "MOST_SILENCES",
    "WORKER_SILENT",
    "delay_after_silence",
    "end_without_worker",
    "ended_without_worker",
]

MOST_SILENCES: Final = 10  # with leases of 15 s and the waits between them that takes three quarters of an hour
LONGEST_DELAY_SECONDS: Final = 600.0
WORKER_SILENT: Final = "worker_silent"  # the reason of an item that was failed for it


def delay_after_silence(silences: int, lease_seconds: float) -> float:
    """How long an item waits whose worker fell silent for the n-th time while it ran alone: 0, 1, 3, 7, … leases."""
    doublings = min(max(0, silences - 1), MOST_SILENCES)
    return min(lease_seconds * (2.0**doublings - 1), LONGEST_DELAY_SECONDS)


def end_without_worker(seq: int, tries: Tries, attempts: Sequence[Attempt], silences: int) -> Ended | None:
    """How the item ends now that its worker is lost; None if it runs again. An outcome like any other."""
    if tries.crashes >= POISON_CRASHES:
        reason, kind = None, FailureKind.POISON
        told = f"its worker died {tries.crashes} times while it ran alone"
    elif silences >= MOST_SILENCES:
        reason, kind = WORKER_SILENT, FailureKind.INTERNAL
        told = (
            f"its worker fell silent {silences} times while it ran alone; whether the item is the cause, a frozen "
            "process or a lost host is not known"
        )
    else:
        return None
    return Ended(
        seq=seq,
        state=ItemState.FAILED,
        failure=Failure.of(kind, told),
        reason=reason,
        attempts=tuple(attempts),
        tries=tries,
    )


def ended_without_worker(end: Ended) -> bool:
    """Whether `end_without_worker` made this end: then no worker finished it, and its files are nobody's result."""
    poison = end.failure is not None and end.failure.kind is FailureKind.POISON
    return poison or end.reason == WORKER_SILENT

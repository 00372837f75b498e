"""The circuit of a job: when it stops by itself because its items fail (S4). Pure; kept by the store with the job.

`record` is called inside the commit that counts outcomes; `unreleased` says how much a claim may hand out. There is no
way back from open but a person: `resume` or a retry begins a new, closed one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from swath.domain.attempt import Ended, Finding
from swath.domain.policy import CircuitBreaker
from swath.domain.transitions import ItemState

__all__ = ["WINDOW_OUTCOMES", "Circuit", "record", "unreleased"]

WINDOW_OUTCOMES: Final = 200  # or `min_requests`, if that is more

FOUND: Final = "."
NOT_FOUND: Final = "n"
FAILED: Final = "f"


class Circuit(msgspec.Struct, frozen=True):
    """What is known since the circuit was last closed. `opened` says why it opened; None while it is closed.

    `window` holds the last outcomes that count, the oldest first, one letter each. `finished` counts ends of every
    kind, so that a job whose items never count is not held back for ever. `released` are items handed out that have
    ended, are held, or have begun and wait.
    """

    window: str = ""
    in_a_row: int = 0
    finished: int = 0
    released: int = 0
    opened: str | None = None


def record(circuit: Circuit, breaker: CircuitBreaker, ends: Iterable[Ended]) -> Circuit:
    """Takes outcomes in order and looks after each of them whether the circuit opens."""
    size = max(breaker.min_requests, WINDOW_OUTCOMES)
    window, in_a_row, finished, opened = circuit.window, circuit.in_a_row, circuit.finished, circuit.opened
    failed, not_found = window.count(FAILED), window.count(NOT_FOUND)
    first = 0  # what lies before it is cut off at the end: a large window would be copied for each outcome
    for end in ends:
        finished += 1
        letter = _letter(end)
        if letter is None:
            continue
        window += letter
        failed, not_found = failed + (letter == FAILED), not_found + (letter == NOT_FOUND)
        if len(window) - first > size:
            oldest, first = window[first], first + 1
            failed, not_found = failed - (oldest == FAILED), not_found - (oldest == NOT_FOUND)
        in_a_row = in_a_row + 1 if letter == FAILED else 0
        opened = opened or _why_open(breaker, len(window) - first, failed, not_found, in_a_row)
    return Circuit(window[-size:], in_a_row, finished, circuit.released, opened)


def _letter(end: Ended) -> str | None:
    """How an end counts; None when it says nothing about the job (a dead proxy, an input that was wrong)."""
    if end.state is ItemState.SUCCESS:
        return NOT_FOUND if end.finding is Finding.NOT_FOUND else FOUND
    if end.state is ItemState.FAILED and end.failure is not None and end.failure.rule.job_circuit:
        return FAILED
    return None


def _why_open(breaker: CircuitBreaker, outcomes: int, failed: int, not_found: int, in_a_row: int) -> str | None:
    if in_a_row >= breaker.consecutive_failures:
        return f"{in_a_row} items failed in a row"
    if outcomes < breaker.min_requests:
        return None
    if failed / outcomes >= breaker.failure_threshold_percentage:  # divided, so that 7 of 100 do reach 0.07
        return f"{failed} of the last {outcomes} items failed"
    if not_found / outcomes >= breaker.max_not_found_percentage:
        return f"{not_found} of the last {outcomes} items were not found"
    return None


def unreleased(circuit: Circuit, breaker: CircuitBreaker) -> int | None:
    """How many items that never began may be handed out now; None when there is no bound.

    Before `min_requests` ends are known no more than that many items are ever out, so that a doomed job costs no more.
    """
    if circuit.finished >= breaker.min_requests:
        return None
    return max(0, breaker.min_requests - circuit.released)

"""When a job's circuit opens, told by S4 anew over the whole list of outcomes: the model's and the tests' own word."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from swath.domain.attempt import Ended, Finding
from swath.domain.policy import CircuitBreaker
from swath.domain.transitions import ItemState

__all__ = ["opens"]

LAST = 200


def opens(outcomes: Sequence[Ended], breaker: CircuitBreaker) -> bool:
    """Whether the last of these outcomes opens it, if none before did."""
    counting = [end for end in outcomes if _succeeded(end) or _failed(end)]
    if not outcomes or not counting or counting[-1] is not outcomes[-1]:
        return False
    if len(list(takewhile(_failed, reversed(counting)))) >= breaker.consecutive_failures:
        return True
    last = counting[-max(breaker.min_requests, LAST) :]
    if len(last) < breaker.min_requests:
        return False
    failed = sum(_failed(end) for end in last)
    not_found = sum(_succeeded(end) and end.finding is Finding.NOT_FOUND for end in last)
    return (
        failed / len(last) >= breaker.failure_threshold_percentage
        or not_found / len(last) >= breaker.max_not_found_percentage
    )


def _succeeded(end: Ended) -> bool:
    return end.state is ItemState.SUCCESS


def _failed(end: Ended) -> bool:
    return end.state is ItemState.FAILED and end.failure is not None and end.failure.rule.job_circuit

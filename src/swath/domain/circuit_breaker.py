"""The circuit breakers of jobs and of sites. Pure; times are seconds on the boot clock.

A job's circuit opens when too many of its items fail, and only a person closes it, by `resume` or a retry. A site's
circuit is closed, open or half-open: one probe decides, and after closing the limit on open requests grows in steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from swath.domain.execution_policy import CircuitBreaker
from swath.domain.item import EndedItem, SuccessOutcome
from swath.domain.site_policy import Breaker
from swath.domain.transitions import ItemState

__all__ = [
    "MAX_FAILED_PROBES",
    "WINDOW_OUTCOMES",
    "CircuitAdmission",
    "CircuitState",
    "JobCircuit",
    "SiteCircuit",
    "admit_request",
    "open_request_limit",
    "open_until",
    "record_item_ends",
    "record_request_outcomes",
    "release_allowance",
    "withdraw_probe",
]

WINDOW_OUTCOMES: Final = 200  # or `min_requests`, if that is more

FOUND_LETTER: Final = "."
NOT_FOUND_LETTER: Final = "n"
FAILED_LETTER: Final = "f"


class JobCircuit(msgspec.Struct, frozen=True):
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


def record_item_ends(circuit: JobCircuit, breaker: CircuitBreaker, ends: Iterable[EndedItem]) -> JobCircuit:
    """Takes outcomes in order and looks after each of them whether the circuit opens."""
    size = max(breaker.min_requests, WINDOW_OUTCOMES)
    window, in_a_row, finished, opened = circuit.window, circuit.in_a_row, circuit.finished, circuit.opened
    failed, not_found = window.count(FAILED_LETTER), window.count(NOT_FOUND_LETTER)
    first = 0  # what lies before it is cut off at the end: a large window would be copied for each outcome
    for end in ends:
        finished += 1
        letter = _window_letter(end)
        if letter is None:
            continue
        window += letter
        failed, not_found = failed + (letter == FAILED_LETTER), not_found + (letter == NOT_FOUND_LETTER)
        if len(window) - first > size:
            oldest, first = window[first], first + 1
            failed, not_found = failed - (oldest == FAILED_LETTER), not_found - (oldest == NOT_FOUND_LETTER)
        in_a_row = in_a_row + 1 if letter == FAILED_LETTER else 0
        opened = opened or _why_open(breaker, len(window) - first, failed, not_found, in_a_row)
    return JobCircuit(window[-size:], in_a_row, finished, circuit.released, opened)


def _window_letter(end: EndedItem) -> str | None:
    """How an end counts; None when it says nothing about the job (a dead proxy, an input that was wrong)."""
    if end.state is ItemState.SUCCESS:
        return NOT_FOUND_LETTER if end.finding is SuccessOutcome.NOT_FOUND else FOUND_LETTER
    if end.state is ItemState.FAILED and end.failure is not None and end.failure.rule.job_circuit:
        return FAILED_LETTER
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


def release_allowance(circuit: JobCircuit, breaker: CircuitBreaker) -> int | None:
    """How many items that never began may be handed out now; None when there is no bound.

    Before `min_requests` ends are known no more than that many items are ever out, so that a doomed job costs no more.
    """
    if circuit.finished >= breaker.min_requests:
        return None
    return max(0, breaker.min_requests - circuit.released)


MAX_FAILED_PROBES: Final = 3  # failed in a row: jobs that have nothing but this site are given up
GOOD_LETTER, BAD_LETTER = "g", "b"


class CircuitState(StrEnum):
    """Half-open: one probe is under way, and everybody else waits."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class SiteCircuit(msgspec.Struct, frozen=True, omit_defaults=True):
    """`epoch` counts its changes of state: what was sent in an earlier one decides nothing.

    `ramp` is how many requests may be under way while traffic comes back; None when there is no such bound.
    """

    state: CircuitState = CircuitState.CLOSED
    epoch: int = 0
    window: str = ""
    opened_at: float = 0.0
    probe_until: float = 0.0  # by then the probe must have ended, or another one may be sent
    probe_by: str = ""  # the worker that sends it
    failed_probes: int = 0  # in a row
    ramp: int | None = None
    ramped: int = 0  # good outcomes since the ramp last grew


class CircuitAdmission(msgspec.Struct, frozen=True):
    """What a worker that wants to send is told. `wait_seconds` is set when it may not."""

    circuit: SiteCircuit
    probe: bool = False
    wait_seconds: float | None = None


def open_until(circuit: SiteCircuit, breaker: Breaker, now: float) -> float | None:
    """Until when nobody may send; None when somebody may. `now` decides about a probe that never came back."""
    if circuit.state is CircuitState.CLOSED:
        return None
    due = circuit.opened_at + breaker.reopen_seconds if circuit.state is CircuitState.OPEN else circuit.probe_until
    return due if due > now else None


def admit_request(
    circuit: SiteCircuit, worker_id: str, breaker: Breaker, now: float, probe_seconds: float
) -> CircuitAdmission:
    """Lets everybody through a closed circuit, and one probe through an open one whose time has come."""
    if circuit.state is CircuitState.CLOSED:
        return CircuitAdmission(circuit)
    until = open_until(circuit, breaker, now)
    if until is not None:
        return CircuitAdmission(circuit, wait_seconds=until - now)
    probing = msgspec.structs.replace(
        circuit,
        state=CircuitState.HALF_OPEN,
        epoch=circuit.epoch + 1,
        probe_until=now + probe_seconds,
        probe_by=worker_id,
    )
    return CircuitAdmission(probing, probe=True)


def withdraw_probe(circuit: SiteCircuit, epoch: int) -> SiteCircuit:
    """The probe of that epoch ended without an answer about the site, or its worker died: another one may be sent."""
    if circuit.state is not CircuitState.HALF_OPEN or epoch != circuit.epoch:
        return circuit
    return msgspec.structs.replace(circuit, state=CircuitState.OPEN, epoch=epoch + 1, probe_until=0.0, probe_by="")


def record_request_outcomes(
    circuit: SiteCircuit, breaker: Breaker, outcomes: Sequence[bool], epoch: int, now: float
) -> SiteCircuit:
    """Takes outcomes, in order, of what was sent in `epoch`; True is a good one."""
    for good in outcomes:
        if epoch != circuit.epoch or circuit.state is CircuitState.OPEN:
            return circuit  # of a time before the last change of state; and nothing is sent through an open one
        if circuit.state is CircuitState.HALF_OPEN:
            circuit = _closed(circuit) if good else _opened(circuit, now, circuit.failed_probes + 1)
        else:
            circuit = _with_outcome(circuit, breaker, good=good, now=now)
    return circuit


def _with_outcome(circuit: SiteCircuit, breaker: Breaker, *, good: bool, now: float) -> SiteCircuit:
    window = (circuit.window + (GOOD_LETTER if good else BAD_LETTER))[-breaker.window :]
    if window.count(BAD_LETTER) >= breaker.failures:
        return _opened(circuit, now, 0)
    return _with_higher_limit(msgspec.structs.replace(circuit, window=window), good=good)


def _with_higher_limit(circuit: SiteCircuit, *, good: bool) -> SiteCircuit:
    """Doubles the bound when as many as it allows have come back well."""
    if circuit.ramp is None or not good:
        return circuit
    if circuit.ramped + 1 < circuit.ramp:
        return msgspec.structs.replace(circuit, ramped=circuit.ramped + 1)
    return msgspec.structs.replace(circuit, ramp=circuit.ramp * 2, ramped=0)


def open_request_limit(circuit: SiteCircuit, concurrency: int) -> tuple[SiteCircuit, int]:
    """How many requests may be under way at a site of that concurrency; a ramp that has come so far is over."""
    if circuit.ramp is None:
        return circuit, concurrency
    if circuit.ramp < concurrency:
        return circuit, circuit.ramp
    return msgspec.structs.replace(circuit, ramp=None, ramped=0), concurrency


def _opened(circuit: SiteCircuit, now: float, failed_probes: int) -> SiteCircuit:
    return SiteCircuit(state=CircuitState.OPEN, epoch=circuit.epoch + 1, opened_at=now, failed_probes=failed_probes)


def _closed(circuit: SiteCircuit) -> SiteCircuit:
    return SiteCircuit(epoch=circuit.epoch + 1, ramp=1)

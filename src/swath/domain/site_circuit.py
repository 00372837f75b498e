"""The circuit of a site (D3): closed, open, half-open; one probe decides, and after closing the traffic ramps up.

Pure; times are seconds on the boot clock. The site book keeps it and changes it in one commit; sites/circuits.py asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from swath.domain.site import Breaker

__all__ = [
    "HOPELESS_PROBES",
    "Admission",
    "CircuitState",
    "SiteCircuit",
    "admit",
    "bound",
    "open_until",
    "record",
    "withdraw",
]

HOPELESS_PROBES: Final = 3  # failed in a row: jobs that have nothing but this site are given up
GOOD, BAD = "g", "b"


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


class Admission(msgspec.Struct, frozen=True):
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


def admit(circuit: SiteCircuit, worker_id: str, breaker: Breaker, now: float, probe_seconds: float) -> Admission:
    """Lets everybody through a closed circuit, and one probe through an open one whose time has come."""
    if circuit.state is CircuitState.CLOSED:
        return Admission(circuit)
    until = open_until(circuit, breaker, now)
    if until is not None:
        return Admission(circuit, wait_seconds=until - now)
    probing = msgspec.structs.replace(
        circuit,
        state=CircuitState.HALF_OPEN,
        epoch=circuit.epoch + 1,
        probe_until=now + probe_seconds,
        probe_by=worker_id,
    )
    return Admission(probing, probe=True)


def withdraw(circuit: SiteCircuit, epoch: int) -> SiteCircuit:
    """The probe of that epoch ended without an answer about the site, or its worker died: another one may be sent."""
    if circuit.state is not CircuitState.HALF_OPEN or epoch != circuit.epoch:
        return circuit
    return msgspec.structs.replace(circuit, state=CircuitState.OPEN, epoch=epoch + 1, probe_until=0.0, probe_by="")


def record(circuit: SiteCircuit, breaker: Breaker, outcomes: Sequence[bool], epoch: int, now: float) -> SiteCircuit:
    """Takes outcomes, in order, of what was sent in `epoch`; True is a good one."""
    for good in outcomes:
        if epoch != circuit.epoch or circuit.state is CircuitState.OPEN:
            return circuit  # of a time before the last change of state; and nothing is sent through an open one
        if circuit.state is CircuitState.HALF_OPEN:
            circuit = _closed(circuit) if good else _open(circuit, now, circuit.failed_probes + 1)
        else:
            circuit = _counted(circuit, breaker, good=good, now=now)
    return circuit


def _counted(circuit: SiteCircuit, breaker: Breaker, *, good: bool, now: float) -> SiteCircuit:
    window = (circuit.window + (GOOD if good else BAD))[-breaker.window :]
    if window.count(BAD) >= breaker.failures:
        return _open(circuit, now, 0)
    return _ramped(msgspec.structs.replace(circuit, window=window), good=good)


def _ramped(circuit: SiteCircuit, *, good: bool) -> SiteCircuit:
    """Doubles the bound when as many as it allows have come back well."""
    if circuit.ramp is None or not good:
        return circuit
    if circuit.ramped + 1 < circuit.ramp:
        return msgspec.structs.replace(circuit, ramped=circuit.ramped + 1)
    return msgspec.structs.replace(circuit, ramp=circuit.ramp * 2, ramped=0)


def bound(circuit: SiteCircuit, concurrency: int) -> tuple[SiteCircuit, int]:
    """How many requests may be under way at a site of that concurrency; a ramp that has come so far is over."""
    if circuit.ramp is None:
        return circuit, concurrency
    if circuit.ramp < concurrency:
        return circuit, circuit.ramp
    return msgspec.structs.replace(circuit, ramp=None, ramped=0), concurrency


def _open(circuit: SiteCircuit, now: float, failed_probes: int) -> SiteCircuit:
    return SiteCircuit(state=CircuitState.OPEN, epoch=circuit.epoch + 1, opened_at=now, failed_probes=failed_probes)


def _closed(circuit: SiteCircuit) -> SiteCircuit:
    return SiteCircuit(epoch=circuit.epoch + 1, ramp=1)

"""How ends are written and counted: counters, pace and circuit move by what has really ended, in the same commit.

Called by finishing.py with what workers say, by rescue.py with what killed them, by endings.py with what is swept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from swath.backends.aws.calls.rows import Put
from swath.backends.aws.jobs.chunks import encode_ends
from swath.backends.aws.jobs.head import Head, HeldLease, Right
from swath.backends.aws.table.layout import PART_BYTES, chunk_of, end_key
from swath.domain import circuit, pace
from swath.domain.attempt import Ended, Finding
from swath.domain.job import Job, Stopping
from swath.domain.policy import OnOpen
from swath.domain.transitions import ItemState, JobState, check_job

__all__ = ["count", "open_circuit", "record", "write_ends"]


def write_ends(head: Head, lease: HeldLease, ends: Sequence[Ended], now: float) -> list[Put]:
    """The rows of items that end under a lease, one for each chunk. `now` is Unix seconds."""
    chunks: dict[int, list[Ended]] = {}
    for end in ends:
        chunks.setdefault(chunk_of(end.seq), []).append(end)
    if lease.right is Right.RUN:  # whoever rescues it has to find them again
        lease.chunks = sorted({*lease.chunks, *chunks})
    rows = []
    for chunk, ended in sorted(chunks.items()):
        for part in _parts(now, ended):
            rows.append(Put(end_key(head.number, chunk, head.generation, lease.fence, lease.end_rows), part))
            lease.end_rows += 1
    return rows


def _parts(now: float, ends: list[Ended]) -> list[bytes]:
    body = encode_ends(now, ends)
    if len(body) <= PART_BYTES or len(ends) == 1:
        return [body]
    half = len(ends) // 2
    return _parts(now, ends[:half]) + _parts(now, ends[half:])


def count(head: Head, end: Ended, by: int = 1) -> None:
    """Moves the counters by one ended item, or back."""
    if end.state is ItemState.SUCCESS:
        head.success += by
    elif end.state is ItemState.FAILED:
        head.failed += by
    elif end.state is ItemState.SKIPPED:
        head.skipped += by
    else:
        head.cancelled += by
    head.not_found += by if end.finding is Finding.NOT_FOUND else 0
    if end.state is ItemState.FAILED and end.failure is not None:
        kind = end.failure.kind.value
        head.failures[kind] = head.failures.get(kind, 0) + by
        if not head.failures[kind]:
            del head.failures[kind]


def record(head: Head, order: Job, ends: Sequence[Ended], shared_now: float) -> None:
    """Counts outcomes and tells pace and circuit; if that opens, the job stops or is paused."""
    if not ends:
        return
    for end in ends:
        count(head, end)
    # Clocks of hosts differ a little, and time that runs backwards would make the pace begin anew.
    at = max(shared_now, head.pace.at)
    head.pace = pace.record(head.pace, at, len(ends), order.policy.throttling.max_concurrent_workers)
    head.cost += sum(end.cost for end in ends)
    before = head.circuit
    head.circuit = circuit.record(before, order.policy.circuit_breaker, ends)
    if before.opened is None and head.circuit.opened is not None and head.stopping is None:
        _stop(head, order)


def open_circuit(head: Head, order: Job, why: str) -> None:
    """For a reason that outcomes do not show."""
    head.circuit = msgspec.structs.replace(head.circuit, opened=why)
    _stop(head, order)


def _stop(head: Head, order: Job) -> None:
    """What the policy says of a job whose circuit has opened."""
    if order.policy.circuit_breaker.on_open is OnOpen.FAIL:
        head.stopping = Stopping.CIRCUIT_OPEN
    elif head.state is not JobState.PAUSED:
        check_job(head.state, JobState.PAUSED)
        head.state = JobState.PAUSED

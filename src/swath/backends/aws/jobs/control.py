"""What people do to a job of the AWS store after it was ordered: each word is one commit of its head.

Before: loading.py took the job in. Workers learn of a change from their next commit and their next renewal. A new
generation begins in generations.py.
"""

from __future__ import annotations

import msgspec

from swath.backends.aws.calls.rows import Put
from swath.backends.aws.jobs.deletion import kept_due, list_as_kept
from swath.backends.aws.jobs.head import Head, Right
from swath.backends.aws.jobs.heads import Change, Decide, unchanged
from swath.backends.aws.jobs.jobs import status_after
from swath.backends.aws.jobs.ledger import Ledger, lease_under
from swath.backends.aws.jobs.orders import put_order
from swath.backends.aws.jobs.outcomes import open_circuit as stop_by_circuit
from swath.backends.aws.table.layout import ACTIVE, listed_key
from swath.domain.circuit import Circuit
from swath.domain.errors import Conflict, LeaseLost, Outdated
from swath.domain.job import JobStatus, Stopping
from swath.domain.lease import Lease
from swath.domain.pace import begun
from swath.domain.policy import ExecutionPolicy
from swath.domain.transitions import JobState, check_job
from swath.domain.versions import check_version, refuse_unless_ended

__all__ = [
    "add_version",
    "cancel",
    "change_policy",
    "delete",
    "open_circuit",
    "pause",
    "resume",
    "set_current",
    "to_be_changed",
]


def to_be_changed(head: Head) -> None:
    """Raises Conflict for a job that is on its way out."""
    if head.deleting:
        raise Conflict.being_deleted(head.job_id)


async def _told(ledger: Ledger, job_id: str, decide: Decide[Head]) -> JobStatus:
    head = await ledger.heads.change(job_id, decide)
    ledger.changed()
    return await status_after(ledger, head)


async def pause(ledger: Ledger, job_id: str) -> JobStatus:
    """See JobControl.pause."""

    async def decide(head: Head) -> Change[Head]:
        to_be_changed(head)
        if head.stopping or head.state.terminal or head.state is JobState.LOADING:
            told = "stopping" if head.stopping and not head.state.terminal else head.state.value
            raise Conflict(f"job {job_id!r} is {told}; only a job that is pending or running can be paused")
        if head.state is JobState.PAUSED:
            return unchanged(head)
        check_job(head.state, JobState.PAUSED)
        head.state = JobState.PAUSED
        return Change(head)

    return await _told(ledger, job_id, decide)


async def resume(ledger: Ledger, job_id: str) -> JobStatus:
    """See JobControl.resume. The pace is measured anew: the break says nothing of it."""

    async def decide(head: Head) -> Change[Head]:
        to_be_changed(head)
        if head.state.terminal:
            raise Conflict(f"job {job_id!r} has ended ({head.state}); `retry` runs items of it again")
        if head.state is not JobState.PAUSED or head.stopping is not None:
            return unchanged(head)
        state = JobState.PENDING if head.started_at is None else JobState.RUNNING
        check_job(head.state, state)
        head.state, head.served = state, await ledger.granted()
        head.circuit = Circuit(released=_released(head))
        head.pace = begun(ledger.times().shared)
        return Change(head)

    return await _told(ledger, job_id, decide)


def _released(head: Head) -> int:
    """Items that are held, or have begun and wait."""
    waiting = sum(bucket.suspects + bucket.begun for bucket in head.waiting.values())
    return waiting + sum(len(lease.gaps) for lease in head.leases)


async def cancel(ledger: Ledger, job_id: str) -> JobStatus:
    """See JobControl.cancel."""

    async def decide(head: Head) -> Change[Head]:
        to_be_changed(head)
        if head.state.terminal or head.stopping is not None:
            return unchanged(head)
        head.stopping = Stopping.CANCELLED
        return Change(head)

    return await _told(ledger, job_id, decide)


async def change_policy(
    ledger: Ledger, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None
) -> JobStatus:
    """See JobControl.change_policy."""

    async def decide(head: Head) -> Change[Head]:
        to_be_changed(head)
        order = await ledger.orders.of(head)
        if policy == order.policy:
            return unchanged(head)
        if expected not in (None, order.policy):
            raise Outdated.policy(job_id)
        first = await ledger.orders.first(head)
        head.revision += 1
        present = msgspec.structs.replace(order, policy=policy)
        rows = [put_order(head.number, head.revision, first, present)]
        return Change(head, [*rows, *list_as_kept(head, kept_due(head, policy))])

    return await _told(ledger, job_id, decide)


async def delete(ledger: Ledger, job_id: str) -> JobStatus:
    """See JobControl.delete."""

    async def decide(head: Head) -> Change[Head]:
        if not head.state.terminal and head.state is not JobState.LOADING:
            raise Conflict(f"job {job_id!r} is {head.state}; cancel it first")
        if head.deleting:
            return unchanged(head)
        head.deleting = True
        listed = Put(listed_key(ACTIVE, head.number), job_id.encode())
        return Change(head, [listed, *list_as_kept(head, None)])

    return await _told(ledger, job_id, decide)


async def add_version(ledger: Ledger, job_id: str) -> int:
    """See JobControl.add_version."""

    async def decide(head: Head) -> Change[int]:
        to_be_changed(head)
        refuse_unless_ended(job_id, head.state)
        head.versions += 1
        return Change(head.versions)

    return await ledger.heads.change(job_id, decide)


async def set_current(ledger: Ledger, job_id: str, version: int, under: Lease | None = None) -> JobStatus:
    """See JobControl.set_current.

    The right is asked for after the head was read that is written on a condition: whoever has taken the right since,
    and has set a version, has changed that head.
    """

    async def decide(head: Head) -> Change[Head]:
        to_be_changed(head)
        if under is not None:
            await _refuse_unless_held(ledger, under)
        check_version(job_id, version, head.versions)
        if head.current_version == version:
            return unchanged(head)
        head.current_version = version
        return Change(head)

    return await _told(ledger, job_id, decide)


async def _refuse_unless_held(ledger: Ledger, right: Lease) -> None:
    found = await ledger.heads.find(right.job.job_id)
    if found is None:
        raise LeaseLost(f"the right to end job {right.job.job_id!r} was taken away")
    lease_under(found, right, Right.END)


async def open_circuit(ledger: Ledger, job_id: str, why: str, most_left: int | None) -> None:
    """See LeaseBook.open_circuit."""

    async def decide(head: Head) -> Change[None]:
        too_many = most_left is not None and head.remaining > most_left
        if too_many or not head.may_start or head.circuit.opened is not None:
            return unchanged(None)
        stop_by_circuit(head, await ledger.orders.of(head), why)
        return Change(None)

    await ledger.heads.change(job_id, decide)

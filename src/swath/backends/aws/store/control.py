"""Changes an existing job: pause, resume, cancel, policy, delete, result versions, and retry as a new generation.

Each is one commit of the job row; workers learn of it from their next commit and their next renewal. A retry first
writes down the selected items, chunk by chunk; one write of the job row then makes them count. Former ends stay
where
they are, by their generation.
"""

from __future__ import annotations

import secrets
from typing import Final

import msgspec

from swath.backends.aws.client.rows import Put
from swath.backends.aws.dynamo.layout import ACTIVE, chunk_of, listed_key, retry_key
from swath.backends.aws.store.deletion import list_as_kept
from swath.backends.aws.store.item_chunks import ItemChunk
from swath.backends.aws.store.job_row import JobRow, LeasePurpose
from swath.backends.aws.store.job_rows import Decide, JobChange, no_change
from swath.backends.aws.store.job_specs import put_job_spec
from swath.backends.aws.store.jobs import status_after
from swath.backends.aws.store.outcomes import count_end
from swath.backends.aws.store.outcomes import open_circuit as stop_by_circuit
from swath.backends.aws.store.store_context import StoreContext, require_lease
from swath.domain.circuit_breaker import JobCircuit
from swath.domain.errors import BadInput, Conflict, LeaseLost, Outdated
from swath.domain.execution_policy import ExecutionPolicy
from swath.domain.item import RetrySelection
from swath.domain.job import JobStatus, StopReason, delete_at
from swath.domain.lease import Lease
from swath.domain.result_versions import check_job_ended, check_version
from swath.domain.throughput import Throughput, start_measuring
from swath.domain.transitions import ItemState, JobState, check_item, check_job

__all__ = [
    "add_version",
    "cancel",
    "change_policy",
    "check_changeable",
    "delete",
    "open_circuit",
    "pause",
    "resume",
    "retry",
    "set_current",
]


def check_changeable(head: JobRow) -> None:
    """Raises Conflict for a job that is on its way out."""
    if head.deleting:
        raise Conflict.being_deleted(head.job_id)


async def _change_job(ledger: StoreContext, job_id: str, decide: Decide[JobRow]) -> JobStatus:
    head = await ledger.heads.change(job_id, decide)
    ledger.changed()
    return await status_after(ledger, head)


async def pause(ledger: StoreContext, job_id: str) -> JobStatus:
    """See JobControl.pause."""

    async def decide(head: JobRow) -> JobChange[JobRow]:
        check_changeable(head)
        if head.stopping or head.state.terminal or head.state is JobState.LOADING:
            told = "stopping" if head.stopping and not head.state.terminal else head.state.value
            raise Conflict(f"job {job_id!r} is {told}; only a job that is pending or running can be paused")
        if head.state is JobState.PAUSED:
            return no_change(head)
        check_job(head.state, JobState.PAUSED)
        head.state = JobState.PAUSED
        return JobChange(head)

    return await _change_job(ledger, job_id, decide)


async def resume(ledger: StoreContext, job_id: str) -> JobStatus:
    """See JobControl.resume. The pace is measured anew: the break says nothing of it."""

    async def decide(head: JobRow) -> JobChange[JobRow]:
        check_changeable(head)
        if head.state.terminal:
            raise Conflict(f"job {job_id!r} has ended ({head.state}); `retry` runs items of it again")
        put_off, head.ending_due = head.ending_due, 0.0
        if head.state is not JobState.PAUSED or head.stopping is not None:
            return JobChange(head) if put_off else no_change(head)
        state = JobState.PENDING if head.started_at is None else JobState.RUNNING
        check_job(head.state, state)
        head.state, head.served = state, await ledger.granted()
        head.circuit = JobCircuit(released=_released(head))
        head.pace = start_measuring(ledger.times().shared)
        return JobChange(head)

    return await _change_job(ledger, job_id, decide)


def _released(head: JobRow) -> int:
    """Items that are held, or have begun and wait."""
    waiting = sum(bucket.suspects + bucket.begun for bucket in head.waiting.values())
    return waiting + sum(len(lease.gaps) for lease in head.leases)


async def cancel(ledger: StoreContext, job_id: str) -> JobStatus:
    """See JobControl.cancel."""

    async def decide(head: JobRow) -> JobChange[JobRow]:
        check_changeable(head)
        if head.state.terminal or head.stopping is not None:
            return no_change(head)
        head.stopping = StopReason.CANCELLED
        return JobChange(head)

    return await _change_job(ledger, job_id, decide)


async def change_policy(
    ledger: StoreContext, job_id: str, policy: ExecutionPolicy, expected: ExecutionPolicy | None
) -> JobStatus:
    """See JobControl.change_policy."""

    async def decide(head: JobRow) -> JobChange[JobRow]:
        check_changeable(head)
        order = await ledger.orders.of(head)
        if policy == order.policy:
            return no_change(head)
        if expected not in (None, order.policy):
            raise Outdated.policy(job_id)
        first = await ledger.orders.first(head)
        head.revision += 1
        present = msgspec.structs.replace(order, policy=policy)
        rows = [put_job_spec(head.number, head.revision, first, present)]
        return JobChange(head, [*rows, *list_as_kept(head, delete_at(present, head.started_at, head.ended_at))])

    return await _change_job(ledger, job_id, decide)


async def delete(ledger: StoreContext, job_id: str) -> JobStatus:
    """See JobControl.delete."""

    async def decide(head: JobRow) -> JobChange[JobRow]:
        if not head.state.terminal and head.state is not JobState.LOADING:
            raise Conflict(f"job {job_id!r} is {head.state}; cancel it first")
        if head.deleting:
            return no_change(head)
        head.deleting = True
        listed = Put(listed_key(ACTIVE, head.number), job_id.encode())
        return JobChange(head, [listed, *list_as_kept(head, None)])

    return await _change_job(ledger, job_id, decide)


async def add_version(ledger: StoreContext, job_id: str) -> int:
    """See JobControl.add_version."""

    async def decide(head: JobRow) -> JobChange[int]:
        check_changeable(head)
        check_job_ended(job_id, head.state)
        head.versions += 1
        return JobChange(head.versions)

    return await ledger.heads.change(job_id, decide)


async def set_current(ledger: StoreContext, job_id: str, version: int, under: Lease | None = None) -> JobStatus:
    """See JobControl.set_current.

    The right is asked for after the head was read that is written on a condition: whoever has taken the right since,
    and has set a version, has changed that head.
    """

    async def decide(head: JobRow) -> JobChange[JobRow]:
        check_changeable(head)
        if under is not None:
            await _refuse_unless_held(ledger, under)
        check_version(job_id, version, head.versions)
        if head.current_version == version:
            return no_change(head)
        head.current_version = version
        return JobChange(head)

    return await _change_job(ledger, job_id, decide)


async def _refuse_unless_held(ledger: StoreContext, right: Lease) -> None:
    found = await ledger.heads.find(right.job.job_id)
    if found is None:
        raise LeaseLost(f"the right to end job {right.job.job_id!r} was taken away")
    require_lease(found, right, LeasePurpose.END)


async def open_circuit(ledger: StoreContext, job_id: str, why: str, most_left: int | None) -> None:
    """See LeaseBook.open_circuit."""

    async def decide(head: JobRow) -> JobChange[None]:
        too_many = most_left is not None and head.remaining > most_left
        if too_many or not head.may_start or head.circuit.opened is not None:
            return no_change(None)
        stop_by_circuit(head, await ledger.orders.of(head), why)
        return JobChange(None)

    await ledger.heads.change(job_id, decide)


_AT_ONCE: Final = 200  # rows

_encoder: Final = msgspec.msgpack.Encoder()


async def retry(ledger: StoreContext, job_id: str, selection: RetrySelection) -> JobStatus:
    """See JobControl.retry."""

    async def decide(head: JobRow) -> JobChange[JobRow]:
        check_changeable(head)
        if not head.state.terminal:
            raise Conflict(f"job {job_id!r} is {head.state}; items can be run again when it has ended")
        nonce = secrets.token_hex(6)
        selected = await _select(ledger, head, selection, nonce)
        if not selected:
            raise BadInput(f"no item of job {job_id!r} fits the selection; nothing to run again")
        check_job(head.state, JobState.PENDING)
        head.state, head.generation, head.stopping = JobState.PENDING, head.generation + 1, None
        head.started_at, head.ended_at, head.pace, head.ran_before = None, None, Throughput(), head.ran
        head.again, head.fresh_seq, head.fresh_left = nonce, 0, selected
        head.served, head.circuit = await ledger.granted(), JobCircuit()
        listed = Put(listed_key(ACTIVE, head.number), job_id.encode())
        return JobChange(head, [listed, *list_as_kept(head, None)])

    head = await ledger.heads.change(job_id, decide)
    ledger.changed()
    return await status_after(ledger, head)


async def _select(ledger: StoreContext, head: JobRow, selection: RetrySelection, nonce: str) -> int:
    """Writes down what fits, takes it out of the counters, and answers how much it is."""
    rows: list[Put] = []
    selected = 0
    async for chunk in ledger.chunks.chunks(head, 0, chunk_of(max(1, head.last_seq))):
        seqs = _fitting(head, chunk, selection)
        if seqs:
            selected += len(seqs)
            rows.append(
                Put(retry_key(head.number, chunk_of(seqs[0]), head.generation + 1, nonce), _encoder.encode(seqs))
            )
        if len(rows) >= _AT_ONCE:
            await ledger.table.write_many(rows)
            rows = []
    await ledger.table.write_many(rows)
    return selected


def _fitting(head: JobRow, chunk: ItemChunk, selection: RetrySelection) -> list[int]:
    seqs = []
    for seq, item in sorted(chunk.items.items()):
        if seq in chunk.ends:
            past = chunk.ends[seq][-1].past
            kind = None if past.end.failure is None else past.end.failure.kind
            if selection.takes(item.item_id, past.end.state, kind, past.ended_at):
                check_item(past.end.state, ItemState.PENDING)
                count_end(head, past.end, by=-1)
                seqs.append(seq)
    return seqs

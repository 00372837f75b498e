"""Removes the rows of a deleted or expired job, in pieces, by the one worker that holds the right to it.

The files of the job are gone when its rows begin to go; the job row goes last.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from swath.backends.aws.client.rows import ABSENT, Delete, Key, Put, Row
from swath.backends.aws.dynamo.layout import (
    ACTIVE,
    DEMAND,
    GONE,
    JOBS,
    KEPT,
    block_of,
    chunk_of,
    items_partition,
    job_row_key,
    job_spec_key,
    kept_key,
    listed_key,
    name_key,
    retry_partition,
    returned_partition,
)
from swath.backends.aws.store import clock_watch
from swath.backends.aws.store.job_row import JobRow, LeasePurpose, encode_job_row
from swath.backends.aws.store.job_rows import RESERVED_VERSION, JobChange, no_change
from swath.backends.aws.store.store_context import LeaseClock, StoreContext, require_lease
from swath.backends.aws.store.webhooks import due_rows
from swath.domain.errors import LeaseLost, UnknownName
from swath.domain.job import delete_at
from swath.domain.lease import Lease

__all__ = ["claim_deletion", "list_as_kept", "purge", "remove_job_row", "remove_rows", "reserve"]

_AT_ONCE: Final = 500  # rows
_MAKING_SECONDS: Final = 3_600  # for a job to be made; who is slower makes it anew
_OVERDUE: Final = 100  # jobs that are looked at; the others come when these are gone


def list_as_kept(head: JobRow, due: float | None) -> list[Put | Delete]:
    """Moves a job in the list of those that are to be deleted some day."""
    if due == head.kept_due:
        return []
    before, head.kept_due = head.kept_due, due
    new = [] if due is None else [Put(kept_key(due, head.number), head.job_id.encode())]
    old = [] if before is None else [Delete(kept_key(before, head.number))]
    taken = {put.key for put in new}
    return [*new, *(delete for delete in old if delete.key not in taken)]


async def claim_deletion(
    ledger: StoreContext, worker_id: str, job_id: str | None, without: Collection[str] = ()
) -> Lease | None:
    """See Endings.claim_deletion. Also removes what somebody left behind who died while he removed a job."""
    if job_id is not None:
        return None if job_id in without else await _claim_one(ledger, worker_id, job_id)
    due = await _due(ledger)
    async for row in ledger.table.query(GONE):
        if await _is_gone(ledger, row, due):
            await remove_rows(ledger, int(row.key.s), int(row.body.partition(b"@")[0]))
    marked = [head.job_id for head in await ledger.active() if head.deleting and not head.leases]
    overdue = ledger.table.query(KEPT, last=f"{int(max(0.0, due)):012d}#~", limit=_OVERDUE)
    for name in [*marked, *[row.body.decode() async for row in overdue]]:
        if name in without:
            continue
        try:
            lease = await _claim(ledger, worker_id, name, due)
        except UnknownName:
            continue
        if lease is not None:
            return lease
    return None


async def _due(ledger: StoreContext) -> float:
    """Jobs whose retention was over then, in Unix seconds, are deleted."""
    return min(ledger.times().now, (await clock_watch.update(ledger)).confirmed_wall)


async def _claim_one(ledger: StoreContext, worker_id: str, job_id: str) -> Lease | None:
    """Mostly it is marked; then no clock is asked."""
    try:
        lease = await _claim(ledger, worker_id, job_id, -math.inf)
        return lease or await _claim(ledger, worker_id, job_id, await _due(ledger))
    except UnknownName:
        return None


async def _claim(ledger: StoreContext, worker_id: str, job_id: str, due: float) -> Lease | None:
    """The right to delete this job, if it is marked, or was to be deleted at this wall time or before."""

    async def decide(head: JobRow) -> JobChange[Lease | None]:
        order = await ledger.orders.of(head)
        since = None if head.deleting else delete_at(order, head.started_at, head.ended_at)
        if head.leases or not (head.deleting or (since is not None and since <= due)):
            return no_change(None)
        rows = list_as_kept(head, None)
        if not head.deleting:
            rows.append(Put(listed_key(ACTIVE, head.number), job_id.encode()))
        head.deleting = True
        granted = await ledger.grant(items=False)
        lease = ledger.new_lease(head, worker_id, LeasePurpose.DELETE, granted.fence)
        return JobChange(ledger.right_as_lease(head, order, lease, since), rows)

    return await ledger.heads.change(job_id, decide)


async def purge(ledger: StoreContext, lease: Lease, limit: int) -> int:
    """See Endings.purge. Rows go when the head no longer counts their items, so that nobody misses any."""
    job_id = lease.job.job_id

    async def decide(head: JobRow) -> JobChange[tuple[JobRow, int]]:
        require_lease(head, lease, LeasePurpose.DELETE)
        left = head.total - head.purged
        if not left:
            return JobChange((head, 0), remove_job_row(head))
        seqs = await _next_seqs(ledger, head, limit)
        head.purged = head.purged + len(seqs) if seqs else head.total
        head.purged_seq = seqs[-1] if seqs else head.last_seq
        return JobChange((head, left))

    try:
        head, left = await ledger.heads.change(job_id, decide)
    except UnknownName as error:
        raise LeaseLost(f"the right to delete job {job_id!r} was taken away") from error
    ledger.changed()
    if left:
        await _remove_chunks(ledger, head)
    else:
        ledger.jobs_of_fences.pop(lease.fence, None)
        await remove_rows(ledger, head.number, head.last_seq)
    return left


async def _next_seqs(ledger: StoreContext, head: JobRow, limit: int) -> list[int]:
    seqs: list[int] = []
    async for chunk in ledger.chunks.chunks(head, chunk_of(head.purged_seq + 1), chunk_of(max(1, head.last_seq))):
        seqs += [seq for seq in sorted(chunk.items) if seq > head.purged_seq]
        if len(seqs) >= limit:
            break
    return seqs[:limit]


async def _remove_chunks(ledger: StoreContext, head: JobRow) -> None:
    """The rows of chunks of which every item is counted out."""
    whole = chunk_of(head.purged_seq + 1) - 1
    if whole >= 0:
        for block in range(max(0, block_of(whole) - 1), block_of(whole) + 1):
            await _remove_partition(ledger, items_partition(head.number, block), f"{whole:010d}#~")


def remove_job_row(head: JobRow) -> list[Put | Delete]:
    """Lets a job stop being there; its rows are removed after that, by somebody else if need be."""
    head.gone, head.leases = True, []
    listed = (DEMAND if head.on_demand else JOBS, ACTIVE)
    unlisted = [Delete(listed_key(partition, head.number)) for partition in listed]
    gone = Put(listed_key(GONE, head.number), str(head.last_seq).encode())
    return [gone, Delete(name_key(head.job_id)), Delete(job_spec_key(head.number)), *unlisted]


def reserve(head: JobRow, times: LeaseClock) -> list[Put]:
    """Makes a job of which nobody sees anything yet, and lets its rows be removed if it does not become one in time."""
    hollow = JobRow(head.number, head.job_id, gone=True)
    due = int(times.shared) + _MAKING_SECONDS
    return [
        Put(job_row_key(head.number), encode_job_row(hollow), version=RESERVED_VERSION, expected=ABSENT),
        Put(listed_key(GONE, head.number), f"{head.last_seq}@{due}".encode()),
    ]


async def _is_gone(ledger: StoreContext, row: Row, due: float) -> bool:
    """Whether rows of that number may be removed: not while somebody makes the job, who can no longer after this."""
    last_seq, _, given_until = row.body.partition(b"@")
    if not given_until:
        return True
    if due < int(given_until) - _MAKING_SECONDS:  # it was begun less than an hour ago that both clocks agree on
        return False
    number = int(row.key.s)
    hollow = encode_job_row(JobRow(number, "", gone=True))
    taken = Put(job_row_key(number), hollow, version=RESERVED_VERSION + 1, expected=RESERVED_VERSION)
    return await ledger.table.commit(taken, Put(row.key, last_seq))


async def remove_rows(ledger: StoreContext, number: int, last_seq: int) -> None:
    """Removes every row of a job that is not there any more. Can be repeated."""
    ledger.ids.forget(number)
    await ledger.table.write_many(await due_rows(ledger.table, number))
    await _remove(ledger, number, last_seq, but=job_row_key(number))
    await ledger.table.write_many([Delete(job_row_key(number))])  # last, because it says that the others are to go
    await ledger.table.write_many([Delete(listed_key(GONE, number))])


async def _remove(ledger: StoreContext, number: int, last_seq: int, but: Key) -> None:
    last, block = block_of(chunk_of(max(1, last_seq))), 0
    while True:
        removed = await _remove_partition(ledger, items_partition(number, block))
        await _remove_partition(ledger, retry_partition(number, block))
        if block > last and not removed:  # a load that was given up may have left rows beyond the last item
            break
        block += 1
    for partition in (f"batches/{number}", f"ids/{number}", returned_partition(number), but.p):
        await _remove_partition(ledger, partition, but=but)


async def _remove_partition(ledger: StoreContext, partition: str, last: str = "~", but: Key | None = None) -> int:
    doomed: list[Delete] = []
    removed = 0
    async for row in ledger.table.query(partition, last=last):
        if row.key != but:
            doomed.append(Delete(row.key))
        if len(doomed) >= _AT_ONCE:
            await ledger.table.write_many(doomed)
            removed, doomed = removed + len(doomed), []
    await ledger.table.write_many(doomed)
    return removed + len(doomed)

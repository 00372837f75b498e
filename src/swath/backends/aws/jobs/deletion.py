"""How a job leaves the AWS store: in pieces, under a right that one worker holds, and its head last.

Before: control.py marks a job, or its retention is over. Its files are gone when its rows begin to go.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

from swath.backends.aws.calls.rows import ABSENT, Delete, Key, Put, Row
from swath.backends.aws.jobs import clock_watch
from swath.backends.aws.jobs.head import Head, Right, encode_head
from swath.backends.aws.jobs.heads import RESERVED, Change, unchanged
from swath.backends.aws.jobs.ledger import Ledger, Times, lease_under
from swath.backends.aws.jobs.outbox import due_rows
from swath.backends.aws.table.layout import (
    ACTIVE,
    DEMAND,
    GONE,
    JOBS,
    KEPT,
    again_partition,
    back_partition,
    block_of,
    chunk_of,
    head_key,
    items_partition,
    kept_key,
    listed_key,
    name_key,
    order_key,
)
from swath.domain.errors import LeaseLost, UnknownName
from swath.domain.lease import Lease
from swath.domain.retention import delete_at

__all__ = ["claim_deletion", "list_as_kept", "purge", "remove_rows", "reserve", "vanishing"]

_AT_ONCE: Final = 500  # rows
_MAKING_SECONDS: Final = 3_600  # for a job to be made; who is slower makes it anew
_OVERDUE: Final = 100  # jobs that are looked at; the others come when these are gone


def list_as_kept(head: Head, due: float | None) -> list[Put | Delete]:
    """Moves a job in the list of those that are to be deleted some day."""
    if due == head.kept_due:
        return []
    before, head.kept_due = head.kept_due, due
    new = [] if due is None else [Put(kept_key(due, head.number), head.job_id.encode())]
    old = [] if before is None else [Delete(kept_key(before, head.number))]
    taken = {put.key for put in new}
    return [*new, *(delete for delete in old if delete.key not in taken)]


async def claim_deletion(
    ledger: Ledger, worker_id: str, job_id: str | None, without: Collection[str] = ()
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


async def _due(ledger: Ledger) -> float:
    """Jobs whose retention was over then, in Unix seconds, are deleted."""
    return min(ledger.times().now, (await clock_watch.look(ledger)).confirmed_wall)


async def _claim_one(ledger: Ledger, worker_id: str, job_id: str) -> Lease | None:
    """Mostly it is marked; then no clock is asked."""
    try:
        lease = await _claim(ledger, worker_id, job_id, -math.inf)
        return lease or await _claim(ledger, worker_id, job_id, await _due(ledger))
    except UnknownName:
        return None


async def _claim(ledger: Ledger, worker_id: str, job_id: str, due: float) -> Lease | None:
    """The right to delete this job, if it is marked, or was to be deleted at this wall time or before."""

    async def decide(head: Head) -> Change[Lease | None]:
        order = await ledger.orders.of(head)
        since = None if head.deleting else delete_at(order, head.started_at, head.ended_at)
        if head.leases or not (head.deleting or (since is not None and since <= due)):
            return unchanged(None)
        rows = list_as_kept(head, None)
        if not head.deleting:
            rows.append(Put(listed_key(ACTIVE, head.number), job_id.encode()))
        head.deleting = True
        granted = await ledger.grant(items=False)
        lease = ledger.new_lease(head, worker_id, Right.DELETE, granted.fence)
        return Change(ledger.right_as_lease(head, order, lease, since), rows)

    return await ledger.heads.change(job_id, decide)


async def purge(ledger: Ledger, lease: Lease, limit: int) -> int:
    """See Endings.purge. Rows go when the head no longer counts their items, so that nobody misses any."""
    job_id = lease.job.job_id

    async def decide(head: Head) -> Change[tuple[Head, int]]:
        lease_under(head, lease, Right.DELETE)
        left = head.total - head.purged
        if not left:
            return Change((head, 0), vanishing(head))
        seqs = await _next_seqs(ledger, head, limit)
        head.purged = head.purged + len(seqs) if seqs else head.total
        head.purged_seq = seqs[-1] if seqs else head.last_seq
        return Change((head, left))

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


async def _next_seqs(ledger: Ledger, head: Head, limit: int) -> list[int]:
    seqs: list[int] = []
    async for chunk in ledger.chunks.chunks(head, chunk_of(head.purged_seq + 1), chunk_of(max(1, head.last_seq))):
        seqs += [seq for seq in sorted(chunk.items) if seq > head.purged_seq]
        if len(seqs) >= limit:
            break
    return seqs[:limit]


async def _remove_chunks(ledger: Ledger, head: Head) -> None:
    """The rows of chunks of which every item is counted out."""
    whole = chunk_of(head.purged_seq + 1) - 1
    if whole >= 0:
        for block in range(max(0, block_of(whole) - 1), block_of(whole) + 1):
            await _remove_partition(ledger, items_partition(head.number, block), f"{whole:010d}#~")


def vanishing(head: Head) -> list[Put | Delete]:
    """Lets a job stop being there; its rows are removed after that, by somebody else if need be."""
    head.gone, head.leases = True, []
    listed = (DEMAND if head.on_demand else JOBS, ACTIVE)
    unlisted = [Delete(listed_key(partition, head.number)) for partition in listed]
    gone = Put(listed_key(GONE, head.number), str(head.last_seq).encode())
    return [gone, Delete(name_key(head.job_id)), Delete(order_key(head.number)), *unlisted]


def reserve(head: Head, times: Times) -> list[Put]:
    """Makes a job of which nobody sees anything yet, and lets its rows be removed if it does not become one in time."""
    hollow = Head(head.number, head.job_id, gone=True)
    due = int(times.shared) + _MAKING_SECONDS
    return [
        Put(head_key(head.number), encode_head(hollow), version=RESERVED, expected=ABSENT),
        Put(listed_key(GONE, head.number), f"{head.last_seq}@{due}".encode()),
    ]


async def _is_gone(ledger: Ledger, row: Row, due: float) -> bool:
    """Whether rows of that number may be removed: not while somebody makes the job, who can no longer after this."""
    last_seq, _, given_until = row.body.partition(b"@")
    if not given_until:
        return True
    if due < int(given_until) - _MAKING_SECONDS:  # it was begun less than an hour ago that both clocks agree on
        return False
    number = int(row.key.s)
    hollow = encode_head(Head(number, "", gone=True))
    taken = Put(head_key(number), hollow, version=RESERVED + 1, expected=RESERVED)
    return await ledger.table.commit(taken, Put(row.key, last_seq))


async def remove_rows(ledger: Ledger, number: int, last_seq: int) -> None:
    """Removes every row of a job that is not there any more. Can be repeated."""
    ledger.ids.forget(number)
    await ledger.table.write_many(await due_rows(ledger.table, number))
    await _remove(ledger, number, last_seq, but=head_key(number))
    await ledger.table.write_many([Delete(head_key(number))])  # last, because it says that the others are to go
    await ledger.table.write_many([Delete(listed_key(GONE, number))])


async def _remove(ledger: Ledger, number: int, last_seq: int, but: Key) -> None:
    last, block = block_of(chunk_of(max(1, last_seq))), 0
    while True:
        removed = await _remove_partition(ledger, items_partition(number, block))
        await _remove_partition(ledger, again_partition(number, block))
        if block > last and not removed:  # a load that was given up may have left rows beyond the last item
            break
        block += 1
    for partition in (f"batches/{number}", f"ids/{number}", back_partition(number), but.p):
        await _remove_partition(ledger, partition, but=but)


async def _remove_partition(ledger: Ledger, partition: str, last: str = "~", but: Key | None = None) -> int:
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

"""Ends a job: grants the right to write its manifest, cancels what a stop left over, and commits the terminal state."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from swath.backends.aws.client.rows import Delete, Put
from swath.backends.aws.dynamo.layout import ACTIVE, chunk_of, listed_key, manifest_key
from swath.backends.aws.store import clock_watch, outcomes
from swath.backends.aws.store.deletion import list_as_kept
from swath.backends.aws.store.item_chunks import MAX_CHUNKS
from swath.backends.aws.store.job_row import JobRow, LeasePurpose
from swath.backends.aws.store.job_rows import JobChange, no_change
from swath.backends.aws.store.jobs import manifest_parts, status_after
from swath.backends.aws.store.returned_items import ReturnedBuckets, ReturnedItem, read_bucket
from swath.backends.aws.store.store_context import StoreContext, require_lease
from swath.backends.aws.store.webhooks import new_webhook
from swath.domain.errors import LeaseLost, UnknownName
from swath.domain.item import LEASE_BYTES, ByteBudget, EndedItem
from swath.domain.job import EndingProgress, JobStatus, delete_at
from swath.domain.lease import Lease, LeaseDirective
from swath.domain.transitions import ItemState, JobState, check_job
from swath.domain.webhook import Webhook

__all__ = ["claim_ending", "end", "renew_ending", "sweep"]

_SWEPT_ROWS: Final = 30  # of items that came back, in one commit
_SWEPT_ITEMS: Final = 5_000


async def claim_ending(
    ledger: StoreContext, worker_id: str, job_id: str | None, without: Collection[str]
) -> Lease | None:
    """See Endings.claim_ending."""
    if job_id is None:
        heads = await ledger.active_lately()
    else:
        found = await ledger.heads.find(job_id)
        heads = [] if found is None else [found]
    for head in heads:
        if head.job_id not in without and _is_due(ledger, head):
            lease = await _claim(ledger, worker_id, head.job_id, just_read=job_id is not None)
            if lease is not None:
                return lease
    return None


async def _claim(ledger: StoreContext, worker_id: str, job_id: str, *, just_read: bool) -> Lease | None:
    async def decide(head: JobRow) -> JobChange[Lease | None]:
        if not _is_due(ledger, head):
            return no_change(None)
        order = await ledger.orders.of(head)
        granted = await ledger.grant(items=False)
        lease = ledger.new_lease(head, worker_id, LeasePurpose.END, granted.fence)
        return JobChange(ledger.right_as_lease(head, order, lease))

    try:
        return await ledger.heads.change(job_id, decide, just_read=just_read)
    except UnknownName:
        return None


def _is_due(ledger: StoreContext, head: JobRow) -> bool:
    return head.may_end and not head.leases and head.ending_due <= ledger.times().shared


async def renew_ending(ledger: StoreContext, lease: Lease, progress: EndingProgress) -> LeaseDirective:
    """See Endings.renew_ending."""

    async def decide(head: JobRow) -> JobChange[LeaseDirective]:
        held = require_lease(head, lease, LeasePurpose.END)
        ledger.extend(held)
        held.progress = progress
        return JobChange(LeaseDirective.GO_ON)

    try:
        return await ledger.heads.change(lease.job.job_id, decide)
    except (UnknownName, LeaseLost):
        return LeaseDirective.LOST


async def sweep(ledger: StoreContext, lease: Lease, limit: int) -> int:
    """See Endings.sweep. Nothing holds items now, so the unfinished ones are exactly the waiting and the fresh.

    One commit takes no more than a transaction has room for, so there may be several.
    """
    left_before: int | None = None
    while limit > 0:
        left, swept = await _sweep(ledger, lease, min(limit, _SWEPT_ITEMS))
        left_before = left if left_before is None else left_before
        limit -= swept
        if not swept or swept == left:
            break
    return left_before or 0


async def _sweep(ledger: StoreContext, lease: Lease, limit: int) -> tuple[int, int]:
    async def decide(head: JobRow) -> JobChange[tuple[int, int]]:
        held = require_lease(head, lease, LeasePurpose.END)
        left = head.remaining
        taken = ReturnedBuckets()
        for bucket in sorted(head.waiting):
            if taken.rows < _SWEPT_ROWS and len(taken.items) < limit:
                await read_bucket(ledger.table, head.number, bucket, taken, _SWEPT_ROWS)
        waited = _in_few_chunks(taken.items[:limit])
        chunks = {chunk_of(item.seq) for item in waited}
        unread = [] if chunks else await ledger.chunks.fresh(head, limit - len(waited), ByteBudget(LEASE_BYTES))
        fresh = [item.seq for item in unread]
        ends = [_cancelled(head, item) for item in [*waited, *map(ReturnedItem, fresh)]]
        if not ends:
            return no_change((left, 0))
        rows: list[Put | Delete] = [*taken.take(head, waited)]
        rows += outcomes.write_outcomes(head, held, ends, ledger.times().now)
        for end in ends:
            outcomes.count_end(head, end)
        head.cost += sum(end.cost for end in ends)  # of attempts before the job was stopped
        if fresh:
            head.fresh_seq, head.fresh_left = fresh[-1], head.fresh_left - len(fresh)
        return JobChange((left, len(ends)), rows)

    try:
        return await ledger.heads.change(lease.job.job_id, decide)
    except UnknownName as error:
        raise LeaseLost(f"the right to end job {lease.job.job_id!r} was taken away") from error


def _in_few_chunks(items: list[ReturnedItem]) -> list[ReturnedItem]:
    """As many as fit into one commit together with the rows from which they are taken."""
    chunks = set(sorted({chunk_of(item.seq) for item in items})[: MAX_CHUNKS - _SWEPT_ROWS])
    return [item for item in items if chunk_of(item.seq) in chunks]


def _cancelled(head: JobRow, item: ReturnedItem) -> EndedItem:
    return EndedItem(
        seq=item.seq, state=ItemState.CANCELLED, reason=head.stopping, attempts=item.attempts, tries=item.tries
    )


async def end(
    ledger: StoreContext, lease: Lease, state: JobState, manifest: Mapping[str, Any], webhook: Webhook | None
) -> JobStatus:
    """See Endings.end. The manifest is written first; the head makes it true."""
    nonce = secrets.token_hex(6)
    parts = manifest_parts(msgspec.json.encode(manifest))

    async def decide(head: JobRow) -> JobChange[tuple[JobRow, list[Delete]]]:
        held = require_lease(head, lease, LeasePurpose.END)
        if head.remaining:
            raise ValueError(f"{head.remaining} items of job {lease.job.job_id!r} have not ended")
        if not state.terminal:
            raise ValueError(f"a job cannot go to its end as {state}")
        check_job(head.state, state)
        order = await ledger.orders.of(head)
        now = ledger.times().now
        # Its retention counts from then, so a clock that has just jumped back must not shorten it.
        ended_at = now if order.policy.retention_days is None else (await clock_watch.peek(ledger)).not_before(now)
        rows = [Put(manifest_key(head.number, nonce, part), body) for part, body in enumerate(parts)]
        await ledger.table.write_many(rows)
        former = [Delete(manifest_key(head.number, head.manifest, part)) for part in range(head.manifest_parts)]
        head.manifest, head.manifest_parts = nonce, len(parts)
        head.state, head.ended_at = state, ended_at
        head.drop(held)
        head.ending_deaths, head.ending_due = 0, 0.0
        unlisted = [] if head.is_active else [Delete(listed_key(ACTIVE, head.number))]
        due = None if head.deleting else delete_at(order, head.started_at, head.ended_at)
        sent = [] if webhook is None else new_webhook(ledger, head.number, webhook)
        return JobChange((head, former), [*unlisted, *list_as_kept(head, due), *sent])

    try:
        head, former = await ledger.heads.change(lease.job.job_id, decide)
    except UnknownName as error:
        raise LeaseLost(f"the right to end job {lease.job.job_id!r} was taken away") from error
    ledger.jobs_of_fences.pop(lease.fence, None)
    ledger.changed()
    await ledger.table.write_many(former)
    return await status_after(ledger, head)

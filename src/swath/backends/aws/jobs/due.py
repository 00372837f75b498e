"""What could be handed out of a job now: counted from its head, and from the one bucket of which only a part is due.

Asked by claims.py to find the jobs that have work and to size a lease, and for the backlog that everybody may see.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from swath.backends.aws.jobs.back import BUCKET_SECONDS, Back, Taken, read_bucket
from swath.backends.aws.jobs.head import Head, Waiting
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.table.layout import Kind
from swath.domain.backlog import Backlog
from swath.domain.circuit import unreleased
from swath.domain.job import Job

__all__ = ["Due", "backlog", "due_buckets", "due_now"]


class Due(NamedTuple):
    """Items that may be handed out now. Of the `unbegun` no more than `most`; None when there is no bound."""

    suspects: int
    begun: int
    unbegun: int
    most: int | None

    @property
    def claimable(self) -> int:
        """All that workers enough could get."""
        return self.suspects + self.begun + (self.unbegun if self.most is None else min(self.most, self.unbegun))


def due_buckets(head: Head, shared: float) -> list[int]:
    """Buckets of which at least a part is due, the first first."""
    return sorted(bucket for bucket in head.waiting if bucket <= shared)


async def due_now(ledger: Ledger, head: Head, order: Job, shared: float) -> Due:
    """Counts what is due."""
    counted = []
    for bucket in due_buckets(head, shared):
        waiting = head.waiting[bucket]
        if bucket and bucket + BUCKET_SECONDS > shared:
            taken = Taken()
            await read_bucket(ledger.table, head.number, bucket, taken)
            waiting = _count(item for item in taken.items if item.due <= shared)
        counted.append(waiting)
    untried = sum(waiting.untried for waiting in counted)
    return Due(
        suspects=sum(waiting.suspects for waiting in counted),
        begun=sum(waiting.begun for waiting in counted),
        unbegun=untried + head.fresh_left,
        most=unreleased(head.circuit, order.policy.circuit_breaker),
    )


def _count(items: Iterable[Back]) -> Waiting:
    waiting = Waiting()
    for item in items:
        if item.kind is Kind.SUSPECT:
            waiting.suspects += 1
        elif item.kind is Kind.UNTRIED:
            waiting.untried += 1
        else:
            waiting.begun += 1
    return waiting


async def backlog(ledger: Ledger) -> list[Backlog]:
    """See LeaseBook.backlog. A job whose order cannot be read is nobody's to run, so it waits for nobody."""
    heads = [head for head in await ledger.active() if head.may_start]
    orders = await ledger.orders.of_many(heads)
    return [await _backlog(ledger, head, orders[head.number]) for head in heads if head.number in orders]


async def _backlog(ledger: Ledger, head: Head, order: Job) -> Backlog:
    times = ledger.times()
    since = order.created_at if head.generation == 1 else head.started_at
    pending = head.counts.pending
    return Backlog(
        job_id=head.job_id,
        priority=order.priority,
        on_demand=order.on_demand,
        items=head.total,
        pending=pending,
        claimable=(await due_now(ledger, head, order, times.shared)).claimable,
        worker_ids=frozenset(worker_id for worker_id, share in head.shares.items() if share.demand > 0),
        limit=order.policy.throttling.max_concurrent_workers,
        oldest_seconds=max(0.0, times.now - (times.now if since is None else since)) if pending else None,
    )

"""Finds jobs with work, and grants leases of their items.

The rows of all active jobs tell which of them have work; whose turn it is, and how much of it, is decided in the
domain. What is handed out is decided by the job row as it is then, in one commit with the lease. The backlog is
counted
the same way: from the job row, and from the one bucket of which only a part is due.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

import msgspec

from swath.backends.aws.dynamo.layout import ReturnedKind, chunk_of
from swath.backends.aws.store import slot_shares
from swath.backends.aws.store.item_chunks import MAX_CHUNKS
from swath.backends.aws.store.job_row import JobRow, LeasePurpose, WaitingCounts
from swath.backends.aws.store.job_rows import JobChange, no_change
from swath.backends.aws.store.returned_items import (
    BUCKET_SECONDS,
    MAX_BUCKET_ROWS,
    ReturnedBuckets,
    ReturnedItem,
    carried_row,
    read_bucket,
)
from swath.backends.aws.store.store_context import GrantedFence, StoreContext
from swath.domain.circuit_breaker import release_allowance
from swath.domain.errors import BadInput, StoreDamaged, UnknownName
from swath.domain.fair_scheduling import JobBacklog, JobCandidate, next_job
from swath.domain.item import LEASE_BYTES, ByteBudget, Item
from swath.domain.job import Job
from swath.domain.lease import Lease, LeasedItem, admits_another_worker, first_demand, lease_size
from swath.domain.throughput import start_measuring
from swath.domain.transitions import JobState, check_job

__all__ = ["DueItems", "backlog", "claim", "due_buckets", "due_now"]


class DueItems(NamedTuple):
    """Items that may be handed out now. Of the `unbegun` no more than `most`; None when there is no bound."""

    suspects: int
    begun: int
    unbegun: int
    most: int | None

    @property
    def claimable(self) -> int:
        """All that workers enough could get."""
        return self.suspects + self.begun + (self.unbegun if self.most is None else min(self.most, self.unbegun))


def due_buckets(head: JobRow, shared: float) -> list[int]:
    """Buckets of which at least a part is due, the first first."""
    return sorted(bucket for bucket in head.waiting if bucket <= shared)


async def due_now(ledger: StoreContext, head: JobRow, order: Job, shared: float) -> DueItems:
    """Counts what is due."""
    counted = []
    for bucket in due_buckets(head, shared):
        waiting = head.waiting[bucket]
        if bucket and bucket + BUCKET_SECONDS > shared:
            taken = ReturnedBuckets()
            await read_bucket(ledger.table, head.number, bucket, taken)
            waiting = _count(item for item in taken.items if item.due <= shared)
        counted.append(waiting)
    untried = sum(waiting.untried for waiting in counted)
    return DueItems(
        suspects=sum(waiting.suspects for waiting in counted),
        begun=sum(waiting.begun for waiting in counted),
        unbegun=untried + head.fresh_left,
        most=release_allowance(head.circuit, order.policy.circuit_breaker),
    )


def _count(items: Iterable[ReturnedItem]) -> WaitingCounts:
    waiting = WaitingCounts()
    for item in items:
        if item.kind is ReturnedKind.SUSPECT:
            waiting.suspects += 1
        elif item.kind is ReturnedKind.UNTRIED:
            waiting.untried += 1
        else:
            waiting.begun += 1
    return waiting


async def backlog(ledger: StoreContext) -> list[JobBacklog]:
    """See LeaseBook.backlog. A job whose order cannot be read is nobody's to run, so it waits for nobody."""
    heads = [head for head in await ledger.active() if head.may_start]
    orders = await ledger.orders.of_many(heads)
    return [await _backlog(ledger, head, orders[head.number]) for head in heads if head.number in orders]


async def _backlog(ledger: StoreContext, head: JobRow, order: Job) -> JobBacklog:
    times = ledger.times()
    since = order.created_at if head.generation == 1 else head.started_at
    pending = head.counts.pending
    return JobBacklog(
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


_TRIES: Final = 10


async def claim(ledger: StoreContext, worker_id: str, job_id: str | None, without: Collection[str]) -> Lease | None:
    """See LeaseBook.claim."""
    without, granted = set(without), None
    for _ in range(_TRIES):
        ready = await _runnable_jobs(ledger, worker_id, job_id, without)
        if not ready:
            return None
        granted = granted or await ledger.grant(items=True)
        turn = next_job([_candidate(head, order) for head, order in ready.values()], granted.granted - 1)
        chosen = ready[turn.number if turn else min(ready)][0].job_id
        lease = await _claim_of(ledger, _ClaimTarget(worker_id, granted), chosen, just_read=job_id is not None)
        if lease is not None:
            return lease
        without.add(chosen)  # others were faster; what was seen lately is void
        ledger.changed()
    return None


async def _runnable_jobs(
    ledger: StoreContext, worker_id: str, job_id: str | None, without: Collection[str]
) -> dict[int, tuple[JobRow, Job]]:
    """Jobs with work for this worker, by number."""
    if job_id is None:
        heads = await ledger.active_lately()
    else:
        found = await ledger.heads.find(job_id)
        heads = [] if found is None else [found]
    heads = [head for head in heads if head.may_start and head.job_id not in without]
    orders = await ledger.orders.of_many(heads)
    ready = {}
    for head in heads:
        order = orders.get(head.number)
        if order is not None and _has_room(head, order, worker_id):
            due = await due_now(ledger, head, order, ledger.times().shared)
            if due.claimable:
                ready[head.number] = head, order
    return ready


def _has_room(head: JobRow, order: Job, worker_id: str) -> bool:
    slots = sum(share.slots for worker, share in head.shares.items() if worker != worker_id)
    return admits_another_worker(order.policy.throttling.max_concurrent_workers, head.others(worker_id), slots)


def _candidate(head: JobRow, order: Job) -> JobCandidate:
    return JobCandidate(order.priority, head.total, head.number, head.served)


async def _claim_of(ledger: StoreContext, to: _ClaimTarget, job_id: str, *, just_read: bool) -> Lease | None:
    async def decide(head: JobRow) -> JobChange[Lease | None]:
        order = await ledger.orders.of(head)
        if not head.may_start or not _has_room(head, order, to.worker_id):
            return no_change(None)
        due = await due_now(ledger, head, order, ledger.times().shared)
        if not due.claimable:
            return no_change(None)
        chosen = await _choose(ledger, head, order, to.worker_id, due)
        if (
            not chosen.came_back and not chosen.fresh
        ):  # for a few seconds it may be behind too many rows of what must wait
            return no_change(None)
        return _hand_out(ledger, head, order, to, chosen)

    try:
        return await ledger.heads.change(job_id, decide, just_read=just_read)
    except UnknownName:
        return None
    except (BadInput, StoreDamaged, ValueError) as error:  # who knows of which job it is can go on with the others
        raise StoreDamaged(str(error), job_id) from error


class _ChosenItems(NamedTuple):
    """Items to be handed out: those that came back, as they were taken from their rows, and fresh ones."""

    came_back: list[ReturnedItem]
    fresh: list[Item]
    inputs: dict[int, Item]
    taken: ReturnedBuckets


async def _choose(ledger: StoreContext, head: JobRow, order: Job, worker_id: str, due: DueItems) -> _ChosenItems:
    """What came back, by the time it was due, then the fresh; a suspect goes before all others, and alone."""
    shared = ledger.times().shared
    limit = order.policy.throttling.max_concurrent_workers
    wanted = 1 if due.suspects else lease_size(due.claimable, head.others(worker_id) + 1, limit)
    most = due.unbegun if due.most is None else due.most
    taken, came_back = ReturnedBuckets(), list[ReturnedItem]()
    for bucket in due_buckets(head, shared):
        kinds = _kinds(head.waiting[bucket], due, most)
        if not kinds:
            continue
        await read_bucket(ledger.table, head.number, bucket, taken, kinds=kinds)
        free = [item for item in taken.items if item.due <= shared]
        came_back = taken.in_one_commit(_first_returned(free, wanted, most))
        if len(came_back) == wanted or taken.rows >= MAX_BUCKET_ROWS:
            break
    portion = ByteBudget(LEASE_BYTES)
    inputs = await ledger.chunks.some(head, [item.seq for item in came_back], portion)
    if portion.full:
        last = next(reversed(inputs))
        came_back = came_back[: 1 + [item.seq for item in came_back].index(last)]
    most -= sum(item.never_began for item in came_back)
    fresh = [] if due.suspects else await ledger.chunks.fresh(head, min(most, wanted - len(came_back)), portion)
    room = MAX_CHUNKS - len({chunk_of(item.seq) for item in came_back})
    near = sorted({chunk_of(item.seq) for item in fresh})[:room]
    fresh = [item for item in fresh if chunk_of(item.seq) in near]
    return _ChosenItems(came_back, fresh, inputs, taken)


def _kinds(waiting: WaitingCounts, due: DueItems, most: int) -> list[ReturnedKind]:
    """What of a bucket may be handed out now; there may be any number of rows of what may not."""
    if due.suspects:
        return [ReturnedKind.SUSPECT] if waiting.suspects else []
    begun = [ReturnedKind.BEGUN] if waiting.begun else []
    return begun + ([ReturnedKind.UNTRIED] if waiting.untried and most > 0 else [])


def _first_returned(free: list[ReturnedItem], wanted: int, most: int) -> list[ReturnedItem]:
    """The first of them, but of those that never began no more than so many, and all in so many chunks."""
    chosen: list[ReturnedItem] = []
    chunks: set[int] = set()
    for item in free:
        if item.never_began:
            if most <= 0:
                continue
            most -= 1
        chunks.add(chunk_of(item.seq))
        if len(chosen) == wanted or len(chunks) > MAX_CHUNKS:
            break
        chosen.append(item)
    return chosen


class _ClaimTarget(NamedTuple):
    worker_id: str
    granted: GrantedFence


def _hand_out(
    ledger: StoreContext, head: JobRow, order: Job, to: _ClaimTarget, chosen: _ChosenItems
) -> JobChange[Lease | None]:
    items = [_to_leased_item(chosen, item) for item in chosen.came_back]
    items += [LeasedItem(each.seq, each.item_id, each.input, first=not head.again) for each in chosen.fresh]
    lease = ledger.new_lease(head, to.worker_id, LeasePurpose.RUN, to.granted.fence)
    lease.hold(item.seq for item in items)
    lease.alone = any(item.suspect for item in chosen.came_back)
    kept = carried_row(head.number, lease.fence, chosen.came_back)
    lease.carries = bool(kept)
    _note_grant(ledger, head, to.granted, chosen)
    limit = order.policy.throttling.max_concurrent_workers
    wants = first_demand(len(items), head.others(to.worker_id) + 1, limit)
    slots, target = slot_shares.join(head, to.worker_id, limit, wants)
    handed = Lease(
        fence=lease.fence,
        job=order,
        worker_id=to.worker_id,
        items=tuple(items),
        slots=slots,
        target=target,
        lease_seconds=ledger.times().lease_seconds,
        revision=lease.revision,
        alone=lease.alone,
    )
    return JobChange(handed, [*chosen.taken.take(head, chosen.came_back), *kept])


def _to_leased_item(chosen: _ChosenItems, item: ReturnedItem) -> LeasedItem:
    found = chosen.inputs.get(item.seq)
    if found is None:
        raise StoreDamaged(f"the input of row {item.seq} is missing from the table")
    return LeasedItem(item.seq, found.item_id, found.input, item.tries, item.attempts)


def _note_grant(ledger: StoreContext, head: JobRow, granted: GrantedFence, chosen: _ChosenItems) -> None:
    """Moves the job's frontier, its circuit and its turn, and makes it running."""
    times = ledger.times()
    if head.state is JobState.PENDING:
        check_job(head.state, JobState.RUNNING)
        head.state, head.started_at, head.pace = JobState.RUNNING, times.now, start_measuring(times.shared)
    head.served = granted.granted
    unbegun = sum(item.never_began for item in chosen.came_back) + len(chosen.fresh)
    head.circuit = msgspec.structs.replace(head.circuit, released=head.circuit.released + unbegun)
    if chosen.fresh:
        head.fresh_seq, head.fresh_left = chosen.fresh[-1].seq, head.fresh_left - len(chosen.fresh)

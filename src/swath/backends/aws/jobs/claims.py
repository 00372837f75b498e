"""How work is found and handed out in the AWS store. After: finishing.py.

The heads of all active jobs tell which of them have work; whose turn it is, and how much of it, is decided in the
domain. What is handed out is decided by the head of that job as it is then, in one commit with the lease.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from swath.backends.aws.jobs import shares
from swath.backends.aws.jobs.back import ROWS, Back, Taken, carry, read_bucket
from swath.backends.aws.jobs.chunks import MAX_CHUNKS
from swath.backends.aws.jobs.due import Due, due_buckets, due_now
from swath.backends.aws.jobs.head import Head, Right, Waiting
from swath.backends.aws.jobs.heads import Change, unchanged
from swath.backends.aws.jobs.ledger import Granted, Ledger
from swath.backends.aws.table.layout import Kind, chunk_of
from swath.domain.errors import BadInput, StoreDamaged, UnknownName
from swath.domain.item import Item
from swath.domain.job import Job
from swath.domain.lease import Lease, LeasedItem, first_demand, has_room, lease_size
from swath.domain.pace import begun
from swath.domain.portion import LEASE_BYTES, Portion
from swath.domain.transitions import JobState, check_job
from swath.domain.turns import Candidate, next_in_turn

__all__ = ["claim"]

_TRIES: Final = 10


async def claim(ledger: Ledger, worker_id: str, job_id: str | None, without: Collection[str]) -> Lease | None:
    """See LeaseBook.claim."""
    without, granted = set(without), None
    for _ in range(_TRIES):
        ready = await _ready(ledger, worker_id, job_id, without)
        if not ready:
            return None
        granted = granted or await ledger.grant(items=True)
        turn = next_in_turn([_candidate(head, order) for head, order in ready.values()], granted.granted - 1)
        chosen = ready[turn.number if turn else min(ready)][0].job_id
        lease = await _claim_of(ledger, _To(worker_id, granted), chosen, just_read=job_id is not None)
        if lease is not None:
            return lease
        without.add(chosen)  # others were faster; what was seen lately is void
        ledger.changed()
    return None


async def _ready(
    ledger: Ledger, worker_id: str, job_id: str | None, without: Collection[str]
) -> dict[int, tuple[Head, Job]]:
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


def _has_room(head: Head, order: Job, worker_id: str) -> bool:
    slots = sum(share.slots for worker, share in head.shares.items() if worker != worker_id)
    return has_room(order.policy.throttling.max_concurrent_workers, head.others(worker_id), slots)


def _candidate(head: Head, order: Job) -> Candidate:
    return Candidate(order.priority, head.total, head.number, head.served)


async def _claim_of(ledger: Ledger, to: _To, job_id: str, *, just_read: bool) -> Lease | None:
    async def decide(head: Head) -> Change[Lease | None]:
        order = await ledger.orders.of(head)
        if not head.may_start or not _has_room(head, order, to.worker_id):
            return unchanged(None)
        due = await due_now(ledger, head, order, ledger.times().shared)
        if not due.claimable:
            return unchanged(None)
        chosen = await _choose(ledger, head, order, to.worker_id, due)
        if (
            not chosen.came_back and not chosen.fresh
        ):  # for a few seconds it may be behind too many rows of what must wait
            return unchanged(None)
        return _hand_out(ledger, head, order, to, chosen)

    try:
        return await ledger.heads.change(job_id, decide, just_read=just_read)
    except UnknownName:
        return None
    except (BadInput, StoreDamaged, ValueError) as error:  # who knows of which job it is can go on with the others
        raise StoreDamaged(str(error), job_id) from error


class _Chosen(NamedTuple):
    """Items to be handed out: those that came back, as they were taken from their rows, and fresh ones."""

    came_back: list[Back]
    fresh: list[Item]
    inputs: dict[int, Item]
    taken: Taken


async def _choose(ledger: Ledger, head: Head, order: Job, worker_id: str, due: Due) -> _Chosen:
    """What came back, by the time it was due, then the fresh; a suspect goes before all others, and alone."""
    shared = ledger.times().shared
    limit = order.policy.throttling.max_concurrent_workers
    wanted = 1 if due.suspects else lease_size(due.claimable, head.others(worker_id) + 1, limit)
    most = due.unbegun if due.most is None else due.most
    taken, came_back = Taken(), list[Back]()
    for bucket in due_buckets(head, shared):
        kinds = _kinds(head.waiting[bucket], due, most)
        if not kinds:
            continue
        await read_bucket(ledger.table, head.number, bucket, taken, kinds=kinds)
        free = [item for item in taken.items if item.due <= shared]
        came_back = taken.in_one_commit(_next(free, wanted, most))
        if len(came_back) == wanted or taken.rows >= ROWS:
            break
    portion = Portion(LEASE_BYTES)
    inputs = await ledger.chunks.some(head, [item.seq for item in came_back], portion)
    if portion.full:
        last = next(reversed(inputs))
        came_back = came_back[: 1 + [item.seq for item in came_back].index(last)]
    most -= sum(item.never_began for item in came_back)
    fresh = [] if due.suspects else await ledger.chunks.fresh(head, min(most, wanted - len(came_back)), portion)
    room = MAX_CHUNKS - len({chunk_of(item.seq) for item in came_back})
    near = sorted({chunk_of(item.seq) for item in fresh})[:room]
    fresh = [item for item in fresh if chunk_of(item.seq) in near]
    return _Chosen(came_back, fresh, inputs, taken)


def _kinds(waiting: Waiting, due: Due, most: int) -> list[Kind]:
    """What of a bucket may be handed out now; there may be any number of rows of what may not."""
    if due.suspects:
        return [Kind.SUSPECT] if waiting.suspects else []
    begun = [Kind.BEGUN] if waiting.begun else []
    return begun + ([Kind.UNTRIED] if waiting.untried and most > 0 else [])


def _next(free: list[Back], wanted: int, most: int) -> list[Back]:
    """The first of them, but of those that never began no more than so many, and all in so many chunks."""
    chosen: list[Back] = []
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


class _To(NamedTuple):
    worker_id: str
    granted: Granted


def _hand_out(ledger: Ledger, head: Head, order: Job, to: _To, chosen: _Chosen) -> Change[Lease | None]:
    items = [_leased(chosen, item) for item in chosen.came_back]
    items += [LeasedItem(each.seq, each.item_id, each.input, first=not head.again) for each in chosen.fresh]
    lease = ledger.new_lease(head, to.worker_id, Right.RUN, to.granted.fence)
    lease.hold(item.seq for item in items)
    lease.alone = any(item.suspect for item in chosen.came_back)
    kept = carry(head.number, lease.fence, chosen.came_back)
    lease.carries = bool(kept)
    _note_grant(ledger, head, to.granted, chosen)
    limit = order.policy.throttling.max_concurrent_workers
    wants = first_demand(len(items), head.others(to.worker_id) + 1, limit)
    slots, target = shares.enter(head, to.worker_id, limit, wants)
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
    return Change(handed, [*chosen.taken.take(head, chosen.came_back), *kept])


def _leased(chosen: _Chosen, item: Back) -> LeasedItem:
    found = chosen.inputs.get(item.seq)
    if found is None:
        raise StoreDamaged(f"the input of row {item.seq} is missing from the table")
    return LeasedItem(item.seq, found.item_id, found.input, item.tries, item.attempts)


def _note_grant(ledger: Ledger, head: Head, granted: Granted, chosen: _Chosen) -> None:
    """Moves the job's frontier, its circuit and its turn, and makes it running."""
    times = ledger.times()
    if head.state is JobState.PENDING:
        check_job(head.state, JobState.RUNNING)
        head.state, head.started_at, head.pace = JobState.RUNNING, times.now, begun(times.shared)
    head.served = granted.granted
    unbegun = sum(item.never_began for item in chosen.came_back) + len(chosen.fresh)
    head.circuit = msgspec.structs.replace(head.circuit, released=head.circuit.released + unbegun)
    if chosen.fresh:
        head.fresh_seq, head.fresh_left = chosen.fresh[-1].seq, head.fresh_left - len(chosen.fresh)

"""Commits what a worker reports: outcomes, counters, circuit and the next slots, together or not at all.

Counters, pace and circuit move by what has really ended, in the same commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from swath.backends.aws.client.rows import Put
from swath.backends.aws.dynamo.layout import PART_BYTES, chunk_of, end_key
from swath.backends.aws.store import slot_shares
from swath.backends.aws.store.item_chunks import encode_ends
from swath.backends.aws.store.job_row import HeldLease, JobRow, LeasePurpose
from swath.backends.aws.store.job_rows import JobChange, no_change
from swath.backends.aws.store.returned_items import ReturnedItem, add_returned, bucket_and_kind, read_carried
from swath.backends.aws.store.store_context import LeaseClock, StoreContext, directive_for
from swath.domain import circuit_breaker, throughput
from swath.domain.errors import LeaseLost, UnknownName
from swath.domain.execution_policy import OnOpen
from swath.domain.item import EndedItem, HandedBackItem, SuccessOutcome
from swath.domain.job import Job, StopReason, merge_scraper_versions
from swath.domain.lease import Lease, LeaseDirective, SlotGrant, SlotReport
from swath.domain.transitions import ItemState, JobState, check_item, check_job

__all__ = ["count_end", "count_outcomes", "finish", "open_circuit", "write_outcomes"]


def write_outcomes(head: JobRow, lease: HeldLease, ends: Sequence[EndedItem], now: float) -> list[Put]:
    """The rows of items that end under a lease, one for each chunk. `now` is Unix seconds."""
    chunks: dict[int, list[EndedItem]] = {}
    for end in ends:
        chunks.setdefault(chunk_of(end.seq), []).append(end)
    if lease.right is LeasePurpose.RUN:  # whoever rescues it has to find them again
        lease.chunks = sorted({*lease.chunks, *chunks})
    rows = []
    for chunk, ended in sorted(chunks.items()):
        for part in _parts(now, ended):
            rows.append(Put(end_key(head.number, chunk, head.generation, lease.fence, lease.end_rows), part))
            lease.end_rows += 1
    return rows


def _parts(now: float, ends: list[EndedItem]) -> list[bytes]:
    body = encode_ends(now, ends)
    if len(body) <= PART_BYTES or len(ends) == 1:
        return [body]
    half = len(ends) // 2
    return _parts(now, ends[:half]) + _parts(now, ends[half:])


def count_end(head: JobRow, end: EndedItem, by: int = 1) -> None:
    """Moves the counters by one ended item, or back."""
    if end.state is ItemState.SUCCESS:
        head.success += by
    elif end.state is ItemState.FAILED:
        head.failed += by
    elif end.state is ItemState.SKIPPED:
        head.skipped += by
    else:
        head.cancelled += by
    head.not_found += by if end.finding is SuccessOutcome.NOT_FOUND else 0
    if end.state is ItemState.FAILED and end.failure is not None:
        kind = end.failure.kind.value
        head.failures[kind] = head.failures.get(kind, 0) + by
        if not head.failures[kind]:
            del head.failures[kind]


def count_outcomes(head: JobRow, order: Job, ends: Sequence[EndedItem], shared_now: float) -> None:
    """Counts outcomes and tells pace and circuit; if that opens, the job stops or is paused."""
    if not ends:
        return
    for end in ends:
        count_end(head, end)
    # Clocks of hosts differ a little, and time that runs backwards would make the pace begin anew.
    at = max(shared_now, head.pace.at)
    head.pace = throughput.record_ended_items(head.pace, at, len(ends), order.policy.throttling.max_concurrent_workers)
    head.cost += sum(end.cost for end in ends)
    before = head.circuit
    head.circuit = circuit_breaker.record_item_ends(before, order.policy.circuit_breaker, ends)
    if before.opened is None and head.circuit.opened is not None and head.stopping is None:
        _stop(head, order)


def open_circuit(head: JobRow, order: Job, why: str) -> None:
    """For a reason that outcomes do not show."""
    head.circuit = msgspec.structs.replace(head.circuit, opened=why)
    _stop(head, order)


def _stop(head: JobRow, order: Job) -> None:
    """What the policy says of a job whose circuit has opened."""
    if order.policy.circuit_breaker.on_open is OnOpen.FAIL:
        head.stopping = StopReason.CIRCUIT_OPEN
    elif head.state is not JobState.PAUSED:
        check_job(head.state, JobState.PAUSED)
        head.state = JobState.PAUSED


_ROWS: Final = 80  # of a commit beside the head; what is too long for one row of them makes a few more
_BYTES: Final = 1_500_000

_encoder: Final = msgspec.msgpack.Encoder()


async def finish(
    ledger: StoreContext,
    lease: Lease,
    ended: Sequence[EndedItem],
    handed_back: Sequence[HandedBackItem],
    report: SlotReport,
) -> SlotGrant:
    """See LeaseBook.finish. What does not fit into one transaction goes into several, of which each is a whole commit.

    Raises LeaseLost when the lease was taken away between two of them: to answer that it is lost would say that
    nothing counted, but whoever took it away knows what has ended.
    """
    for end in ended:
        check_item(ItemState.PENDING, end.state)
        if not end.state.terminal:
            raise ValueError(f"an item cannot end as {end.state}")
    grant, accepted = SlotGrant(directive=LeaseDirective.LOST), frozenset[int]()
    for ends, returned in _pieces(ledger.times(), ended, handed_back):
        grant = await _finish(ledger, lease, ends, returned, report)
        if grant.directive is LeaseDirective.LOST:
            break
        accepted |= grant.accepted
    ledger.doubts.pop(lease.fence, None)  # there was an answer to all of it
    if grant.directive is LeaseDirective.LOST and accepted:
        raise LeaseLost(f"a lease of job {lease.job.job_id!r} was taken away while its outcomes were written")
    return msgspec.structs.replace(grant, accepted=accepted)


def _pieces(
    times: LeaseClock, ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem]
) -> Iterator[tuple[list[EndedItem], list[HandedBackItem]]]:
    """Cuts it, in its order, where rows or bytes become too many; there is always at least one piece."""
    ends, returned = list[EndedItem](), list[HandedBackItem]()
    places, size_bytes = set[object](), 0
    every: list[EndedItem | HandedBackItem] = [*ended, *handed_back]
    for each in every:
        place = _place(times, each)
        more_bytes = len(_encoder.encode(each))
        if places and (len(places | {place}) > _ROWS or size_bytes + more_bytes > _BYTES):
            yield ends, returned
            ends, returned, places, size_bytes = [], [], set(), 0
        places.add(place)
        size_bytes += more_bytes
        if isinstance(each, EndedItem):
            ends.append(each)
        else:
            returned.append(each)
    yield ends, returned


def _place(times: LeaseClock, each: EndedItem | HandedBackItem) -> object:
    """What has the same is written into one row, if that is long enough."""
    return (
        chunk_of(each.seq)
        if isinstance(each, EndedItem)
        else bucket_and_kind(ReturnedItem(each.seq).after(each, _due(times, each)))
    )


async def _finish(
    ledger: StoreContext,
    lease: Lease,
    ended: Sequence[EndedItem],
    handed_back: Sequence[HandedBackItem],
    report: SlotReport,
) -> SlotGrant:
    async def decide(head: JobRow) -> JobChange[SlotGrant]:
        held = head.lease(lease.fence, LeasePurpose.RUN)
        if held is None or held.worker != lease.worker_id:
            return no_change(SlotGrant(directive=LeaseDirective.LOST))
        order, times = await ledger.orders.of(head), ledger.times()
        seqs = dict.fromkeys(held.seqs)
        doubts = ledger.doubts.get(lease.fence, {})
        accepted = _already_applied(doubts, seqs, ended, handed_back)
        counted = [end for end in ended if seqs.pop(end.seq, _ABSENT) is None]
        returned = [back for back in handed_back if seqs.pop(back.seq, _ABSENT) is None]
        rows = write_outcomes(head, held, counted, times.now)
        count_outcomes(head, order, counted, times.shared)
        head.scraper_versions = [*merge_scraper_versions(head.scraper_versions, counted)]
        rows += add_returned(head, await _after(ledger, head, held, returned))
        held.hold(seqs)
        limit = order.policy.throttling.max_concurrent_workers
        slots, target = slot_shares.regrant(head, held.worker, limit, report)
        ledger.extend(held)
        new = {end.seq: True for end in counted} | {back.seq: False for back in returned}
        ledger.doubts[lease.fence] = doubts | new
        directive = directive_for(head, held)
        return JobChange(
            SlotGrant(directive=directive, slots=slots, target=target, accepted=accepted | new.keys()), rows
        )

    try:
        return await ledger.heads.change(lease.job.job_id, decide)
    except UnknownName:
        return SlotGrant(directive=LeaseDirective.LOST)


def _already_applied(
    doubts: Mapping[int, bool], held: Collection[int], ended: Sequence[EndedItem], handed_back: Sequence[HandedBackItem]
) -> frozenset[int]:
    """What of it was done by a commit that had no answer: only such a one can have taken items from a lease that is
    still there. `doubts` are such items by whether they ended or were handed back."""
    said = [(end.seq, True) for end in ended] + [(back.seq, False) for back in handed_back]
    return frozenset(seq for seq, ends in said if seq not in held and doubts.get(seq) is ends)


_ABSENT: Final = object()


async def _after(
    ledger: StoreContext, head: JobRow, lease: HeldLease, returned: Sequence[HandedBackItem]
) -> list[ReturnedItem]:
    """What is known of items from now on. Only of a suspect does it matter what was known before."""
    before = await read_carried(ledger.table, head.number, [lease.fence]) if lease.alone and returned else {}
    times = ledger.times()
    known = [(back, before.get((lease.fence, back.seq), ReturnedItem(back.seq))) for back in returned]
    return [item.after(back, _due(times, back)) for back, item in known]


def _due(times: LeaseClock, back: HandedBackItem) -> float:
    return times.shared + back.delay_seconds if back.delay_seconds > 0 else 0.0

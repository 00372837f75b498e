"""What one commit of a worker does: outcomes, counters, the report and the next grant, together or not at all.

Before: claims.py. After: endings.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from swath.backends.aws.jobs import outcomes, shares
from swath.backends.aws.jobs.back import Back, add_back, carried, place_of
from swath.backends.aws.jobs.head import Head, HeldLease, Right
from swath.backends.aws.jobs.heads import Change, unchanged
from swath.backends.aws.jobs.ledger import Ledger, Times, directive_for
from swath.backends.aws.table.layout import chunk_of
from swath.domain.attempt import Ended, HandedBack
from swath.domain.errors import LeaseLost, UnknownName
from swath.domain.job import versions_met
from swath.domain.lease import Directive, Grant, Lease, Report
from swath.domain.transitions import ItemState, check_item

__all__ = ["finish"]

_ROWS: Final = 80  # of a commit beside the head; what is too long for one row of them makes a few more
_BYTES: Final = 1_500_000

_encoder: Final = msgspec.msgpack.Encoder()


async def finish(
    ledger: Ledger, lease: Lease, ended: Sequence[Ended], handed_back: Sequence[HandedBack], report: Report
) -> Grant:
    """See LeaseBook.finish. What does not fit into one transaction goes into several, of which each is a whole commit.

    Raises LeaseLost when the lease was taken away between two of them: to answer that it is lost would say that
    nothing counted, but whoever took it away knows what has ended.
    """
    for end in ended:
        check_item(ItemState.PENDING, end.state)
        if not end.state.terminal:
            raise ValueError(f"an item cannot end as {end.state}")
    grant, accepted = Grant(directive=Directive.LOST), frozenset[int]()
    for ends, returned in _pieces(ledger.times(), ended, handed_back):
        grant = await _finish(ledger, lease, ends, returned, report)
        if grant.directive is Directive.LOST:
            break
        accepted |= grant.accepted
    ledger.doubts.pop(lease.fence, None)  # there was an answer to all of it
    if grant.directive is Directive.LOST and accepted:
        raise LeaseLost(f"a lease of job {lease.job.job_id!r} was taken away while its outcomes were written")
    return msgspec.structs.replace(grant, accepted=accepted)


def _pieces(
    times: Times, ended: Sequence[Ended], handed_back: Sequence[HandedBack]
) -> Iterator[tuple[list[Ended], list[HandedBack]]]:
    """Cuts it, in its order, where rows or bytes become too many; there is always at least one piece."""
    ends, returned = list[Ended](), list[HandedBack]()
    places, size_bytes = set[object](), 0
    every: list[Ended | HandedBack] = [*ended, *handed_back]
    for each in every:
        place = _place(times, each)
        more_bytes = len(_encoder.encode(each))
        if places and (len(places | {place}) > _ROWS or size_bytes + more_bytes > _BYTES):
            yield ends, returned
            ends, returned, places, size_bytes = [], [], set(), 0
        places.add(place)
        size_bytes += more_bytes
        if isinstance(each, Ended):
            ends.append(each)
        else:
            returned.append(each)
    yield ends, returned


def _place(times: Times, each: Ended | HandedBack) -> object:
    """What has the same is written into one row, if that is long enough."""
    return chunk_of(each.seq) if isinstance(each, Ended) else place_of(Back(each.seq).after(each, _due(times, each)))


async def _finish(
    ledger: Ledger, lease: Lease, ended: Sequence[Ended], handed_back: Sequence[HandedBack], report: Report
) -> Grant:
    async def decide(head: Head) -> Change[Grant]:
        held = head.lease(lease.fence, Right.RUN)
        if held is None or held.worker != lease.worker_id:
            return unchanged(Grant(directive=Directive.LOST))
        order, times = await ledger.orders.of(head), ledger.times()
        seqs = dict.fromkeys(held.seqs)
        doubts = ledger.doubts.get(lease.fence, {})
        accepted = _made_before(doubts, seqs, ended, handed_back)
        counted = [end for end in ended if seqs.pop(end.seq, _ABSENT) is None]
        returned = [back for back in handed_back if seqs.pop(back.seq, _ABSENT) is None]
        rows = outcomes.write_ends(head, held, counted, times.now)
        outcomes.record(head, order, counted, times.shared)
        head.scraper_versions = [*versions_met(head.scraper_versions, counted)]
        rows += add_back(head, await _after(ledger, head, held, returned))
        held.hold(seqs)
        limit = order.policy.throttling.max_concurrent_workers
        slots, target = shares.regrant(head, held.worker, limit, report)
        ledger.extend(held)
        new = {end.seq: True for end in counted} | {back.seq: False for back in returned}
        ledger.doubts[lease.fence] = doubts | new
        directive = directive_for(head, held)
        return Change(Grant(directive=directive, slots=slots, target=target, accepted=accepted | new.keys()), rows)

    try:
        return await ledger.heads.change(lease.job.job_id, decide)
    except UnknownName:
        return Grant(directive=Directive.LOST)


def _made_before(
    doubts: Mapping[int, bool], held: Collection[int], ended: Sequence[Ended], handed_back: Sequence[HandedBack]
) -> frozenset[int]:
    """What of it was done by a commit that had no answer: only such a one can have taken items from a lease that is
    still there. `doubts` are such items by whether they ended or were handed back."""
    said = [(end.seq, True) for end in ended] + [(back.seq, False) for back in handed_back]
    return frozenset(seq for seq, ends in said if seq not in held and doubts.get(seq) is ends)


_ABSENT: Final = object()


async def _after(ledger: Ledger, head: Head, lease: HeldLease, returned: Sequence[HandedBack]) -> list[Back]:
    """What is known of items from now on. Only of a suspect does it matter what was known before."""
    before = await carried(ledger.table, head.number, [lease.fence]) if lease.alone and returned else {}
    times = ledger.times()
    known = [(back, before.get((lease.fence, back.seq), Back(back.seq))) for back in returned]
    return [item.after(back, _due(times, back)) for back, item in known]


def _due(times: Times, back: HandedBack) -> float:
    return times.shared + back.delay_seconds if back.delay_seconds > 0 else 0.0

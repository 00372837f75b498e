"""How leases are taken from workers that died or fell silent, and who is blamed for it.

On this host the notes of a worker say what ran when it died; of a worker elsewhere only its last report does. What ran
alone, and was known to, has killed it. Before: leases.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from swath.backends.aws import outcomes, shares
from swath.backends.aws.back import DEATHS, Back, accused, add_back, carried
from swath.backends.aws.head import Head, HeldLease, Right, Share
from swath.backends.aws.heads import Change, unchanged
from swath.backends.aws.layout import held_key
from swath.backends.aws.ledger import Ledger, extend
from swath.backends.aws.rows import Delete, Put
from swath.domain.attempt import Ended
from swath.domain.errors import UnknownName
from swath.domain.failure import Failure, FailureKind
from swath.domain.lease import POISON_CRASHES, RescuedLease
from swath.domain.transitions import ItemState

__all__ = ["rescue"]

_AT_ONCE: Final = 25  # leases of a job that one commit takes away


async def rescue(ledger: Ledger, worker_id: str) -> list[RescuedLease]:
    """See LeaseBook.rescue."""
    gone = set(ledger.presence.dead())  # who dies later keeps its file, and what it says, until the next time
    rescued: list[RescuedLease] = []
    for head in await ledger.active():
        while _overdue(ledger, head, gone):
            taken = await _rescue_in(ledger, worker_id, head.job_id, gone)
            rescued += taken
            if len(taken) < _AT_ONCE:
                break
    for worker in gone:
        ledger.presence.forget(worker)
    if rescued:
        ledger.changed()
    return rescued


def _is_dead(ledger: Ledger, lease: HeldLease, gone: Collection[str]) -> bool:
    here = lease.host == ledger.presence.host
    return here and (lease.worker in gone or ledger.presence.is_dead(lease.worker))


def _overdue(ledger: Ledger, head: Head, gone: Collection[str]) -> list[HeldLease]:
    shared = ledger.times().shared
    return [lease for lease in head.leases if lease.expires_at <= shared or _is_dead(ledger, lease, gone)]


async def _rescue_in(ledger: Ledger, worker_id: str, job_id: str, gone: Collection[str]) -> list[RescuedLease]:
    async def decide(head: Head) -> Change[list[RescuedLease]]:
        lost = _overdue(ledger, head, gone)[:_AT_ONCE]
        if not lost:
            return unchanged([])
        known = await carried(ledger.table, head.number, [lease.fence for lease in lost if lease.carries])
        rescued = []
        rows: list[Put | Delete] = []
        for lease in lost:
            winners = await _winners(ledger, head, lease)
            returned = await _take_away(ledger, head, lease, known, rows)
            rescued.append(_told(ledger, head, lease, winners, returned, gone))
        for lease, told in zip(lost, rescued, strict=True):
            lease.rescued, lease.worker, lease.host = True, worker_id, ledger.presence.host
            extend(lease, ledger.times())
            ledger.jobs_of_fences[lease.fence] = head.job_id
            shares.leave(head, told.worker_id, ())
        return Change(rescued, rows)

    try:
        return await ledger.heads.change(job_id, decide)
    except UnknownName:
        return []


def _told(
    ledger: Ledger, head: Head, lease: HeldLease, winners: tuple[str, ...], returned: int, gone: Collection[str]
) -> RescuedLease:
    return RescuedLease(
        fence=lease.fence,
        job_id=head.job_id,
        worker_id=lease.worker,
        winners=winners,
        returned=returned,
        silent_seconds=max(0.0, ledger.times().shared - lease.heard_at),
        dead=_is_dead(ledger, lease, gone),
    )


async def _take_away(
    ledger: Ledger, head: Head, lease: HeldLease, known: dict[int, Back], rows: list[Put | Delete]
) -> int:
    """Makes what it held claimable at once, but for what is poison; answers how many that is."""
    seqs = lease.seqs
    share = head.shares.get(lease.worker, Share())
    blame = _blame(ledger, lease, share)
    after = [blame.judged(known.get(seq, Back(seq))) for seq in seqs]
    poison = [item for item in after if item.tries.crashes >= POISON_CRASHES]
    returned = [item for item in after if item.tries.crashes < POISON_CRASHES]
    rows += add_back(head, returned)
    if poison:
        times, order = ledger.times(), await ledger.orders.of(head)
        ends = list(_ends(poison))
        rows += outcomes.write_ends(head, lease, ends, times.now)
        for end in ends:
            outcomes.record(head, order, [end], times.shared)
    if lease.carries:
        rows.append(Delete(held_key(head.number, lease.fence)))
        lease.carries = False
    lease.hold(())
    share.forget(seqs)
    return len(returned)


class _Blame(NamedTuple):
    """Who ran when the worker of a lease was last heard of, and whether that is certain."""

    ran: Collection[int]
    begun_alone: Collection[int]
    certain: bool

    def judged(self, item: Back) -> Back:
        """The item as it goes back."""
        if item.seq in self.ran:
            return accused(item, crashed=item.seq in self.begun_alone)
        deaths = 0 if self.certain else item.deaths + 1
        back = Back(item.seq, 0.0, item.tries, item.attempts, item.suspect, deaths)
        return accused(back, crashed=False) if deaths > DEATHS else back


def _blame(ledger: Ledger, lease: HeldLease, share: Share) -> _Blame:
    here = lease.host == ledger.presence.host
    if here:
        ran = {seq for fence, seq in ledger.presence.running(lease.worker) if fence == lease.fence}
    else:
        ran = {*share.queued, *share.begun}
    begun_alone = share.begun if lease.alone else ()
    return _Blame(ran, begun_alone, certain=here and ledger.presence.knows(lease.worker))


def _ends(poison: Iterable[Back]) -> Iterable[Ended]:
    """Outcomes like any other; they keep the fence of the lease in which it was found out."""
    for item in poison:
        told = f"its worker died {item.tries.crashes} times while it ran alone"
        yield Ended(
            seq=item.seq,
            state=ItemState.FAILED,
            failure=Failure.of(FailureKind.POISON, told),
            attempts=item.attempts,
            tries=item.tries,
        )


async def _winners(ledger: Ledger, head: Head, lease: HeldLease) -> tuple[str, ...]:
    """Items that ended under the fence by their worker's word: what poison left behind is nobody's result."""
    if lease.right is not Right.RUN:
        return ()
    ends = [end for chunk in lease.chunks for end in await ledger.chunks.ends_under(head, chunk, lease.fence)]
    won = [end.seq for end in ends if end.failure is None or end.failure.kind is not FailureKind.POISON]
    items = await ledger.chunks.items(head, sorted(won))
    return tuple(item.item_id for item in items.values())

"""Takes leases from workers that died or fell silent, and decides which items are suspects.

On this host the notes of a worker say what ran when it died; of a worker elsewhere only its last report does. What
is
known to have run alone when its worker died on this host has killed it; if the worker only fell silent, the cause is
unknown.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from swath.backends.aws.client.rows import Delete, Put
from swath.backends.aws.dynamo.layout import held_key
from swath.backends.aws.store import outcomes, slot_shares
from swath.backends.aws.store.job_row import HeldLease, JobRow, LeasePurpose, WorkerShare
from swath.backends.aws.store.job_rows import JobChange, no_change
from swath.backends.aws.store.returned_items import (
    MAX_DEATHS,
    ReturnedItem,
    add_returned,
    after_worker_loss,
    encoded_bytes,
    read_carried,
)
from swath.backends.aws.store.store_context import LeaseClock, StoreContext
from swath.domain.errors import BadInput, StoreDamaged, UnknownName
from swath.domain.item import EndedItem
from swath.domain.job import ending_retry_seconds
from swath.domain.lease import RescuedLease, delay_after_silence, end_after_worker_loss, is_worker_loss_end

__all__ = ["rescue"]

_AT_ONCE: Final = 25  # leases of a job that one commit takes away at most
_BYTES: Final = 2_000_000  # of what is known of their items; the rows of a lease that is the only one always fit


async def rescue(ledger: StoreContext, worker_id: str) -> list[RescuedLease]:
    """See LeaseBook.rescue."""
    gone = set(ledger.presence.dead())  # who dies later keeps its file, and what it says, until the next time
    rescued: list[RescuedLease] = []
    failures: list[Exception] = []
    for head in await ledger.active():
        more = bool(_overdue(ledger, head, gone))
        while more:
            try:
                taken, more = await _rescue_in(ledger, worker_id, head.job_id, gone)
                rescued += taken
            except (BadInput, StoreDamaged, ValueError) as error:  # of this job; the others are rescued all the same
                failures.append(error)
                break
    if failures and not rescued:  # with something to clean up it is left to the next time to say so
        raise failures[0]
    for worker in () if failures else gone:
        ledger.presence.forget(worker)
    if rescued:
        ledger.changed()
    return rescued


def _is_dead(ledger: StoreContext, lease: HeldLease, gone: Collection[str]) -> bool:
    here = lease.host == ledger.presence.host
    return here and (lease.worker in gone or ledger.presence.is_dead(lease.worker))


def _overdue(ledger: StoreContext, head: JobRow, gone: Collection[str]) -> list[HeldLease]:
    ledger.signs.see(head)
    return [lease for lease in head.leases if ledger.is_silent(head, lease) or _is_dead(ledger, lease, gone)]


async def _rescue_in(
    ledger: StoreContext, worker_id: str, job_id: str, gone: Collection[str]
) -> tuple[list[RescuedLease], bool]:
    """Takes some leases away, and says whether there are more."""

    async def decide(head: JobRow) -> JobChange[tuple[list[RescuedLease], bool]]:
        overdue = _overdue(ledger, head, gone)
        lost = await _first_in_one_commit(ledger, head, overdue[:_AT_ONCE], gone)
        if not lost:
            return no_change(([], False))
        rescued = []
        rows: list[Put | Delete] = [*add_returned(head, [item for each in lost for item in each.returned])]
        for lease, returned, ends in lost:
            winners = await _winners(ledger, head, lease)
            rows += await _take_away(ledger, head, lease, ends)
            rescued.append(_rescued_lease(ledger, head, lease, winners, len(returned), gone))
        for (lease, _, _), told in zip(lost, rescued, strict=True):
            lease.rescued, lease.worker, lease.host = True, worker_id, ledger.presence.host
            ledger.extend(lease)
            ledger.jobs_of_fences[lease.fence] = head.job_id
            slot_shares.leave(head, told.worker_id, ())
        return JobChange((rescued, len(lost) < len(overdue)), rows)

    try:
        return await ledger.heads.change(job_id, decide)
    except UnknownName:
        return [], False


class _LostLease(NamedTuple):
    """A lease, and what it held: what goes back, and what ends because its worker is lost."""

    lease: HeldLease
    returned: list[ReturnedItem]
    ends: list[EndedItem]


async def _first_in_one_commit(
    ledger: StoreContext, head: JobRow, leases: list[HeldLease], gone: Collection[str]
) -> list[_LostLease]:
    """The first of these that one commit can take away, at least one."""
    known = await read_carried(ledger.table, head.number, [lease.fence for lease in leases if lease.carries])
    times = ledger.times()
    lost: list[_LostLease] = []
    left_bytes = _BYTES
    for lease in leases:
        blame = _blame(ledger, lease, head.shares.get(lease.worker, WorkerShare()), died=_is_dead(ledger, lease, gone))
        after = [blame.judged(known.get((lease.fence, seq), ReturnedItem(seq))) for seq in lease.seqs]
        left_bytes -= sum(map(encoded_bytes, after))
        if lost and left_bytes < 0:
            break
        ends = {item.seq: end_after_worker_loss(item.seq, item.tries, item.attempts, item.silences) for item in after}
        returned = [_waiting(item, times) for item in after if ends[item.seq] is None]
        lost.append(_LostLease(lease, returned, [end for end in ends.values() if end is not None]))
    return lost


def _waiting(item: ReturnedItem, times: LeaseClock) -> ReturnedItem:
    delay = delay_after_silence(item.silences, times.lease_seconds)
    return msgspec.structs.replace(item, due=times.shared + delay) if delay else item


def _rescued_lease(
    ledger: StoreContext, head: JobRow, lease: HeldLease, winners: tuple[str, ...], returned: int, gone: Collection[str]
) -> RescuedLease:
    return RescuedLease(
        fence=lease.fence,
        job_id=head.job_id,
        worker_id=lease.worker,
        winners=winners,
        returned=returned,
        silent_seconds=ledger.silent_seconds(head, lease),
        dead=_is_dead(ledger, lease, gone),
        ending_deaths=_note_death(ledger, head, lease, gone),
    )


def _note_death(ledger: StoreContext, head: JobRow, lease: HeldLease, gone: Collection[str]) -> int:
    """How often ending the job has killed its worker, if that is what this lease is. Of a worker of another host no
    more than its silence is ever known, and nothing but time is lost by counting that."""
    died = lease.host != ledger.presence.host or _is_dead(ledger, lease, gone)
    if lease.right is not LeasePurpose.END or lease.rescued or not died:
        return 0
    head.ending_deaths += 1
    head.ending_due = ledger.times().shared + ending_retry_seconds(head.ending_deaths)
    return head.ending_deaths


async def _take_away(ledger: StoreContext, head: JobRow, lease: HeldLease, ends: list[EndedItem]) -> list[Put | Delete]:
    """It holds nothing any more, and some of its items have ended."""
    rows: list[Put | Delete] = []
    if ends:
        times, order = ledger.times(), await ledger.orders.of(head)
        rows += outcomes.write_outcomes(head, lease, ends, times.now)
        for end in ends:
            outcomes.count_outcomes(head, order, [end], times.shared)
    if lease.carries:
        rows.append(Delete(held_key(head.number, lease.fence)))
        lease.carries = False
    if lease.worker in head.shares:
        head.shares[lease.worker].forget(lease.seqs)
    lease.hold(())
    return rows


class _Blame(NamedTuple):
    """Who ran when the worker of a lease was last heard of, whether that is certain, and whether it is proven dead."""

    ran: Collection[int]
    begun_alone: Collection[int]
    certain: bool
    died: bool

    def judged(self, item: ReturnedItem) -> ReturnedItem:
        """The item as it goes back."""
        if item.seq in self.ran:
            return after_worker_loss(item, alone=item.seq in self.begun_alone, died=self.died)
        deaths = 0 if self.certain else item.deaths + 1
        back = msgspec.structs.replace(item, due=0.0, deaths=deaths)
        return after_worker_loss(back, alone=False, died=self.died) if deaths > MAX_DEATHS else back


def _blame(ledger: StoreContext, lease: HeldLease, share: WorkerShare, *, died: bool) -> _Blame:
    here = lease.host == ledger.presence.host
    if here:
        ran = {seq for fence, seq in ledger.presence.running(lease.worker) if fence == lease.fence}
    else:
        ran = {*share.queued, *share.begun}
    begun_alone = share.begun if lease.alone else ()
    return _Blame(ran, begun_alone, certain=here and ledger.presence.knows(lease.worker), died=died)


async def _winners(ledger: StoreContext, head: JobRow, lease: HeldLease) -> tuple[str, ...]:
    """Items that ended under the fence by their worker's word: what is left of those that a rescue failed is nobody's
    result."""
    if lease.right is not LeasePurpose.RUN:
        return ()
    ends = [end for chunk in lease.chunks for end in await ledger.chunks.ends_under(head, chunk, lease.fence)]
    won = [end.seq for end in ends if not is_worker_loss_end(end)]
    items = await ledger.chunks.items(head, sorted(won))
    return tuple(item.item_id for item in items.values())

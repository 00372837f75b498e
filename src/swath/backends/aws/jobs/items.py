"""Items as people see them: their inputs, their ends, and what their workers last reported.

Before: loading.py, finishing.py and rescue.py write them. Beside: jobs.py, and search.py, which shows some of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Final, NamedTuple, TypeVar

import msgspec

from swath.backends.aws.jobs.back import Back, Known, all_known
from swath.backends.aws.jobs.chunks import Chunk, End
from swath.backends.aws.jobs.head import Head, HeldLease
from swath.backends.aws.jobs.ids import hash_of
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.table.layout import CHUNK_ITEMS, chunk_of
from swath.domain.errors import UnknownName
from swath.domain.item import Item, ItemRecord
from swath.domain.portion import PAGE_BYTES, Portion, item_bytes
from swath.domain.transitions import ItemState

__all__ = ["View", "item", "items", "steadily"]

T = TypeVar("T")

_TRIES: Final = 3


async def items(ledger: Ledger, job_id: str, after: int, limit: int) -> list[ItemRecord]:
    """See JobStore.items."""
    return await steadily(ledger, job_id, lambda head: _page(ledger, head, after, limit))


async def steadily(ledger: Ledger, job_id: str, read: Callable[[Head], Awaitable[T]]) -> T:
    """Reads again when the job has changed meanwhile, a few times: then it is near enough."""
    head = await ledger.heads.look(job_id)
    for _ in range(_TRIES):
        found = await read(head)
        if head.state.terminal and not head.deleting:
            break
        before, head = head, await ledger.heads.look(job_id)
        if head == before:
            break
    return found


async def _page(ledger: Ledger, head: Head, after: int, limit: int) -> list[ItemRecord]:
    view = await View.of(ledger, head)
    records: list[ItemRecord] = []
    portion = Portion(PAGE_BYTES)
    after, last = max(after, head.purged_seq), chunk_of(max(1, head.last_seq))
    first = chunk_of(after + 1)
    while first <= last and len(records) < limit:
        # One chunk more than is needed if all of them are full; where there are gaps it goes on.
        until = min(last, first + (limit - len(records)) // CHUNK_ITEMS + 1)
        selected = await ledger.chunks.selected(head, first, until)
        async with aclosing(ledger.chunks.chunks(head, first, until)) as chunks:
            async for chunk in chunks:
                seqs = sorted(seq for seq in chunk.items if seq > after)
                records += portion.take((view.record(chunk, seq, selected) for seq in seqs), item_bytes)
                if portion.full:
                    return records[:limit]
        first = until + 1
    return records[:limit]


async def item(ledger: Ledger, job_id: str, item_id: str) -> ItemRecord:
    """See JobStore.item."""
    head = await ledger.heads.look(job_id)
    number = await _chunk_with(ledger, head, item_id)
    if number is not None:
        selected = await ledger.chunks.selected(head, number, number)
        async for chunk in ledger.chunks.chunks(head, number, number):
            seq = next((seq for seq, each in chunk.items.items() if each.item_id == item_id), 0)
            if seq > head.purged_seq:
                view = await View.of(ledger, head)
                record = view.record(chunk, seq, selected)
                ends = chunk.ends.get(seq, [])
                earlier = ends[:-1] if record.ended_at is not None else ends
                return msgspec.structs.replace(record, earlier=tuple(end.past for end in earlier))
    raise UnknownName(f"there is no item {item_id!r} in job {job_id!r}")


async def _chunk_with(ledger: Ledger, head: Head, item_id: str) -> int | None:
    """The only chunk that can hold an item of that id."""
    if head.last_seq <= CHUNK_ITEMS:
        return 0
    seq = (await ledger.ids.of(head)).find(hash_of(item_id))
    return None if seq is None else chunk_of(seq)


class View(NamedTuple):
    """What has to be known to tell how far an unfinished item is."""

    head: Head
    known: Known
    holders: dict[int, HeldLease]
    shared_to_now: float

    @classmethod
    async def of(cls, ledger: Ledger, head: Head, *, unfinished: bool = True) -> View:
        """Without `unfinished` only what has ended is to be shown, of which the head says all that matters."""
        times = ledger.times()
        any_known = unfinished and (bool(head.waiting) or any(lease.carries for lease in head.leases))
        known = await all_known(ledger.table, head.number) if any_known else Known()
        holders = {seq: lease for lease in head.leases for seq in lease.seqs}
        return cls(head, known, holders, times.now - times.shared)

    def record(self, chunk: Chunk, seq: int, selected: set[int]) -> ItemRecord:
        """One item as others see it, but for its earlier ends."""
        ends = chunk.ends.get(seq)
        if ends and (ends[-1].past.generation == self.head.generation or seq not in selected):
            return _ended(chunk.items[seq], ends[-1])
        return self._unfinished(chunk.items[seq])

    def _unfinished(self, item: Item) -> ItemRecord:
        lease = self.holders.get(item.seq)
        if lease is None:
            known = self.known.waiting.get(item.seq, Back(item.seq))
        else:
            known = self.known.held.get((lease.fence, item.seq), Back(item.seq))
        waits = lease is None and known.due > 0
        return ItemRecord(
            seq=item.seq,
            item_id=item.item_id,
            input=item.input,
            state=self._state(item.seq, lease),
            fence=0 if lease is None else lease.fence,
            attempts=known.attempts,
            tries=known.tries,
            not_before=known.due + self.shared_to_now if waits else None,
            suspect=known.suspect,
        )

    def _state(self, seq: int, lease: HeldLease | None) -> ItemState:
        """While it runs, its worker's last report says how far it is."""
        share = None if lease is None else self.head.shares.get(lease.worker)
        if share is None:
            return ItemState.PENDING
        if seq in share.begun:
            return ItemState.IN_PROGRESS
        return ItemState.QUEUED if seq in share.queued else ItemState.PENDING


def _ended(item: Item, last: End) -> ItemRecord:
    end = last.past.end
    return ItemRecord(
        seq=item.seq,
        item_id=item.item_id,
        input=item.input,
        state=end.state,
        fence=last.fence,
        finding=end.finding,
        failure=end.failure,
        reason=end.reason,
        attempts=end.attempts,
        artifacts=end.artifacts,
        tries=end.tries,
        scraper_version=end.scraper_version,
        generation=last.past.generation,
        ended_at=last.past.ended_at,
    )

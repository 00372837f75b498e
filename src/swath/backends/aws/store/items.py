"""Reads items: inputs, ends and last reports, by page, by id or by filter.

A filtered page reads a bounded number of chunks and says where to continue. What the job row tells is not searched
for:
how many items there are of a state or failure kind, and which are held or wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import groupby
from typing import Final, NamedTuple, TypeVar

import msgspec

from swath.backends.aws.dynamo.layout import CHUNK_ITEMS, chunk_of
from swath.backends.aws.store.item_chunks import ItemChunk, ItemEnd
from swath.backends.aws.store.item_ids import hash_item_id
from swath.backends.aws.store.job_row import HeldLease, JobRow
from swath.backends.aws.store.returned_items import KnownReturns, ReturnedItem, read_known_returns
from swath.backends.aws.store.store_context import StoreContext
from swath.domain.errors import UnknownName
from swath.domain.item import PAGE_BYTES, ByteBudget, Item, ItemFilter, ItemRecord, SuccessOutcome, item_bytes
from swath.domain.transitions import ItemState
from swath.ports.job_store import ItemPage

__all__ = ["ItemContext", "find_items", "item", "items", "read_consistently"]

T = TypeVar("T")

_TRIES: Final = 3


async def items(ledger: StoreContext, job_id: str, after: int, limit: int) -> list[ItemRecord]:
    """See JobStore.items."""
    return await read_consistently(ledger, job_id, lambda head: _page(ledger, head, after, limit))


async def read_consistently(ledger: StoreContext, job_id: str, read: Callable[[JobRow], Awaitable[T]]) -> T:
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


async def _page(ledger: StoreContext, head: JobRow, after: int, limit: int) -> list[ItemRecord]:
    view = await ItemContext.of(ledger, head)
    records: list[ItemRecord] = []
    portion = ByteBudget(PAGE_BYTES)
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


async def item(ledger: StoreContext, job_id: str, item_id: str) -> ItemRecord:
    """See JobStore.item."""
    head = await ledger.heads.look(job_id)
    number = await _chunk_with(ledger, head, item_id)
    if number is not None:
        selected = await ledger.chunks.selected(head, number, number)
        async for chunk in ledger.chunks.chunks(head, number, number):
            seq = next((seq for seq, each in chunk.items.items() if each.item_id == item_id), 0)
            if seq > head.purged_seq:
                view = await ItemContext.of(ledger, head)
                record = view.record(chunk, seq, selected)
                ends = chunk.ends.get(seq, [])
                earlier = ends[:-1] if record.ended_at is not None else ends
                return msgspec.structs.replace(record, earlier=tuple(end.past for end in earlier))
    raise UnknownName(f"there is no item {item_id!r} in job {job_id!r}")


async def _chunk_with(ledger: StoreContext, head: JobRow, item_id: str) -> int | None:
    """The only chunk that can hold an item of that id."""
    if head.last_seq <= CHUNK_ITEMS:
        return 0
    seq = (await ledger.ids.of(head)).find(hash_item_id(item_id))
    return None if seq is None else chunk_of(seq)


class ItemContext(NamedTuple):
    """What has to be known to tell how far an unfinished item is."""

    head: JobRow
    known: KnownReturns
    holders: dict[int, HeldLease]
    shared_to_now: float

    @classmethod
    async def of(cls, ledger: StoreContext, head: JobRow, *, unfinished: bool = True) -> ItemContext:
        """Without `unfinished` only what has ended is to be shown, of which the head says all that matters."""
        times = ledger.times()
        any_known = unfinished and (bool(head.waiting) or any(lease.carries for lease in head.leases))
        known = await read_known_returns(ledger.table, head.number) if any_known else KnownReturns()
        holders = {seq: lease for lease in head.leases for seq in lease.seqs}
        return cls(head, known, holders, times.now - times.shared)

    def record(self, chunk: ItemChunk, seq: int, selected: set[int]) -> ItemRecord:
        """One item as others see it, but for its earlier ends."""
        ends = chunk.ends.get(seq)
        if ends and (ends[-1].past.generation == self.head.generation or seq not in selected):
            return _ended(chunk.items[seq], ends[-1])
        return self._unfinished(chunk.items[seq])

    def _unfinished(self, item: Item) -> ItemRecord:
        lease = self.holders.get(item.seq)
        if lease is None:
            known = self.known.waiting.get(item.seq, ReturnedItem(item.seq))
        else:
            known = self.known.held.get((lease.fence, item.seq), ReturnedItem(item.seq))
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


def _ended(item: Item, last: ItemEnd) -> ItemRecord:
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


_SCANNED_CHUNKS: Final = 50  # next to each other: a few requests
_SOUGHT_CHUNKS: Final = 20  # anywhere: a request each


async def find_items(ledger: StoreContext, job_id: str, wanted: ItemFilter, after: int, limit: int) -> ItemPage:
    """See JobStore.find_items."""
    return await read_consistently(ledger, job_id, lambda head: _filtered_page(ledger, head, wanted, after, limit))


async def _filtered_page(ledger: StoreContext, head: JobRow, wanted: ItemFilter, after: int, limit: int) -> ItemPage:
    after = max(after, head.purged_seq)
    if _none_fits(head, wanted):
        return ItemPage([], None)
    ends_only = wanted.kind is not None or (wanted.state is not None and wanted.state.terminal)
    view = await ItemContext.of(ledger, head, unfinished=not ends_only)
    if wanted.state is None or ends_only:
        return await _scan(ledger, view, wanted, after, limit)
    # Whatever was handed out and has not ended is held or waits, and beyond it is what was not handed out.
    handed_out = sorted(seq for seq in {*view.holders, *view.known.waiting} if seq > after)
    page = await _seek(ledger, view, wanted, handed_out, limit)
    if page.next_after is not None or wanted.state is not ItemState.PENDING or not head.fresh_left:
        return page
    beyond = max(after, head.fresh_seq)
    if len(page.items) == limit:
        return ItemPage(page.items, beyond)
    rest = await _scan(ledger, view, wanted, beyond, limit - len(page.items))
    return ItemPage([*page.items, *rest.items], rest.next_after)


def _none_fits(head: JobRow, wanted: ItemFilter) -> bool:
    """Whether the counters say so."""
    if wanted.state is not None and not getattr(head.counts, wanted.state.value):
        return True
    if wanted.kind is None:
        return False
    by_kind = {SuccessOutcome.FOUND: head.success, SuccessOutcome.NOT_FOUND: head.not_found, **head.failures}
    return not by_kind.get(wanted.kind) and not head.skipped and not head.cancelled


async def _scan(ledger: StoreContext, view: ItemContext, wanted: ItemFilter, after: int, limit: int) -> ItemPage:
    """What fits in the next chunks."""
    head = view.head
    first, last = chunk_of(after + 1), chunk_of(max(1, head.last_seq))
    until = min(last, first + _SCANNED_CHUNKS - 1)
    selected = await ledger.chunks.selected(head, first, until)
    found: list[ItemRecord] = []
    portion = ByteBudget(PAGE_BYTES)
    async for chunk in ledger.chunks.chunks(head, first, until):
        seqs = (seq for seq in sorted(chunk.items) if seq > after)
        for record in portion.take(_fitting(view, chunk, seqs, wanted, selected), item_bytes):
            found.append(record)
            if len(found) == limit:
                return ItemPage(found, record.seq if record.seq < head.last_seq else None)
        if portion.full:
            return ItemPage(found, found[-1].seq)
    return ItemPage(found, None if until >= last else (until + 1) * CHUNK_ITEMS)


async def _seek(ledger: StoreContext, view: ItemContext, wanted: ItemFilter, seqs: list[int], limit: int) -> ItemPage:
    """What fits of these items, which are known by their rows."""
    found: list[ItemRecord] = []
    portion = ByteBudget(PAGE_BYTES)
    for looked, (number, group) in enumerate(groupby(seqs, chunk_of)):
        if looked == _SOUGHT_CHUNKS:
            return ItemPage(found, number * CHUNK_ITEMS)
        selected = await ledger.chunks.selected(view.head, number, number)
        those = list(group)
        async for chunk in ledger.chunks.chunks(view.head, number, number):
            there = (seq for seq in those if seq in chunk.items)
            for record in portion.take(_fitting(view, chunk, there, wanted, selected), item_bytes):
                found.append(record)
                if len(found) == limit:
                    return ItemPage(found, record.seq if record.seq < seqs[-1] else None)
            if portion.full:
                return ItemPage(found, found[-1].seq)
    return ItemPage(found, None)


def _fitting(
    view: ItemContext, chunk: ItemChunk, seqs: Iterable[int], wanted: ItemFilter, selected: set[int]
) -> Iterator[ItemRecord]:
    for seq in seqs:
        record = view.record(chunk, seq, selected)
        if wanted.takes(record):
            yield record

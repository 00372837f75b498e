"""Items of a job that fit a filter. Each call reads so many chunks at most, and says where to go on.

What its head tells is not looked for: how many there are of a state or of a kind, and which are held or wait. Beside:
items.py, which shows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from swath.backends.aws.jobs.chunks import Chunk
from swath.backends.aws.jobs.head import Head
from swath.backends.aws.jobs.items import View, steadily
from swath.backends.aws.jobs.ledger import Ledger
from swath.backends.aws.table.layout import CHUNK_ITEMS, chunk_of
from swath.domain.attempt import Finding
from swath.domain.item import ItemFilter, ItemRecord
from swath.domain.portion import PAGE_BYTES, Portion, item_bytes
from swath.domain.transitions import ItemState
from swath.ports.job_store import ItemPage

__all__ = ["find_items"]

_SCANNED_CHUNKS: Final = 50  # next to each other: a few requests
_SOUGHT_CHUNKS: Final = 20  # anywhere: a request each


async def find_items(ledger: Ledger, job_id: str, wanted: ItemFilter, after: int, limit: int) -> ItemPage:
    """See JobStore.find_items."""
    return await steadily(ledger, job_id, lambda head: _page(ledger, head, wanted, after, limit))


async def _page(ledger: Ledger, head: Head, wanted: ItemFilter, after: int, limit: int) -> ItemPage:
    after = max(after, head.purged_seq)
    if _none_fits(head, wanted):
        return ItemPage([], None)
    ends_only = wanted.kind is not None or (wanted.state is not None and wanted.state.terminal)
    view = await View.of(ledger, head, unfinished=not ends_only)
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


def _none_fits(head: Head, wanted: ItemFilter) -> bool:
    """Whether the counters say so."""
    if wanted.state is not None and not getattr(head.counts, wanted.state.value):
        return True
    if wanted.kind is None:
        return False
    by_kind = {Finding.FOUND: head.success, Finding.NOT_FOUND: head.not_found, **head.failures}
    return not by_kind.get(wanted.kind) and not head.skipped and not head.cancelled


async def _scan(ledger: Ledger, view: View, wanted: ItemFilter, after: int, limit: int) -> ItemPage:
    """What fits in the next chunks."""
    head = view.head
    first, last = chunk_of(after + 1), chunk_of(max(1, head.last_seq))
    until = min(last, first + _SCANNED_CHUNKS - 1)
    selected = await ledger.chunks.selected(head, first, until)
    found: list[ItemRecord] = []
    portion = Portion(PAGE_BYTES)
    async for chunk in ledger.chunks.chunks(head, first, until):
        seqs = (seq for seq in sorted(chunk.items) if seq > after)
        for record in portion.take(_fitting(view, chunk, seqs, wanted, selected), item_bytes):
            found.append(record)
            if len(found) == limit:
                return ItemPage(found, record.seq if record.seq < head.last_seq else None)
        if portion.full:
            return ItemPage(found, found[-1].seq)
    return ItemPage(found, None if until >= last else (until + 1) * CHUNK_ITEMS)


async def _seek(ledger: Ledger, view: View, wanted: ItemFilter, seqs: list[int], limit: int) -> ItemPage:
    """What fits of these items, which are known by their rows."""
    found: list[ItemRecord] = []
    portion = Portion(PAGE_BYTES)
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
    view: View, chunk: Chunk, seqs: Iterable[int], wanted: ItemFilter, selected: set[int]
) -> Iterator[ItemRecord]:
    for seq in seqs:
        record = view.record(chunk, seq, selected)
        if wanted.takes(record):
            yield record

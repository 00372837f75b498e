"""Items in the table, a hundred to a chunk: inputs in rows that are written once, ends in one row per commit."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from swath.backends.aws.client.rows import Row, decode_body
from swath.backends.aws.dynamo.layout import (
    batch_key,
    block_of,
    chunk_of,
    chunks_of_block,
    items_partition,
    read_item_key,
    retry_key,
    retry_partition,
)
from swath.backends.aws.dynamo.table import Table
from swath.backends.aws.store.job_row import JobRow
from swath.domain.item import ByteBudget, EarlierEnd, EndedItem, Item, item_bytes
from swath.domain.transitions import JobState

__all__ = ["MAX_CHUNKS", "ItemChunk", "ItemChunks", "ItemEnd", "LoadedBatch", "encode_ends"]

MAX_CHUNKS: Final = 90  # that one commit may end items in: it has a hundred rows at most
_REMEMBERED: Final = 16  # chunks
_REMEMBERED_BYTES: Final = 32 * 1024 * 1024  # of their inputs, but always the last chunk
_REMEMBERED_MARKS: Final = 4_096  # of batches
_AT_ONCE: Final = 16
_AGAIN_ROWS: Final = 100


class LoadedBatch(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What the row of a batch says. `duplicates` are pairs of a row that was left out and the first row of its id."""

    first_row: int
    rows: int
    digest: str
    mark: str
    added: int
    duplicates: list[tuple[int, int]] = []


class ItemEnd(NamedTuple):
    """An item's end in one generation."""

    fence: int
    past: EarlierEnd


class _EndRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    ended_at: float
    ends: list[EndedItem]


class _Inputs(NamedTuple):
    """The inputs of a chunk, and how many bytes their rows have."""

    items: dict[int, Item]
    size: int


class ItemChunk(NamedTuple):
    """Some items of a job and how they have ended so far, by generation, the oldest first."""

    items: dict[int, Item]
    ends: dict[int, list[ItemEnd]]


_input_decoder: Final = msgspec.msgpack.Decoder(list[tuple[int, str, dict[str, Any]]])
_end_encoder: Final = msgspec.msgpack.Encoder()
_end_decoder: Final = msgspec.msgpack.Decoder(_EndRow)
_seqs_decoder: Final = msgspec.msgpack.Decoder(list[int])
_batch_decoder: Final = msgspec.msgpack.Decoder(LoadedBatch)


def encode_ends(ended_at: float, ends: list[EndedItem]) -> bytes:
    """The body of a row of ends."""
    return _end_encoder.encode(_EndRow(ended_at, ends))


class ItemChunks:
    """Remembers inputs that it has read, and the marks of batches: they never change."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._inputs: OrderedDict[tuple[int, int], _Inputs] = OrderedDict()
        self._largest: OrderedDict[int, int] = OrderedDict()  # by job: bytes of its largest chunk so far
        self._marks: OrderedDict[tuple[int, int], str] = OrderedDict()
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def batch(self, number: int, batch: int) -> LoadedBatch | None:
        """What became of a batch, if it was committed."""
        key = batch_key(number, batch)
        row = (await self._table.get(key)).get(key)
        return None if row is None else decode_body(_batch_decoder, row)

    async def mark(self, number: int, batch: int) -> str | None:
        """Under which mark a batch was committed, if it was."""
        known = self._marks.get((number, batch))
        if known is None and (loaded := await self.batch(number, batch)) is not None:
            known = loaded.mark
            self._note_mark(number, batch, known)
        return known

    def _note_mark(self, number: int, batch: int, mark: str) -> None:
        self._marks[number, batch] = mark
        while len(self._marks) > _REMEMBERED_MARKS:
            self._marks.popitem(last=False)

    def learn(self, head: JobRow, mark: str, items: Collection[Item]) -> None:
        """A job of one batch was made by this process, which may well be the one to run it."""
        self._note_mark(head.number, 0, mark)
        if chunk_of(head.last_seq) == 0:
            self._remember(head, 0, _Inputs({item.seq: item for item in items}, sum(map(item_bytes, items))))

    async def items(self, head: JobRow, seqs: Collection[int]) -> dict[int, Item]:
        """These items of the job, as far as there are such. Of large chunks only a few are read at once."""
        wanted = set(seqs)
        chunks = sorted({chunk_of(seq) for seq in wanted})
        found: dict[int, Item] = {}
        while chunks:
            some = chunks[: self._at_once(head.number)]
            chunks = chunks[len(some) :]
            for inputs in await asyncio.gather(*(self._chunk_inputs(head, chunk) for chunk in some)):
                found.update({seq: item for seq, item in inputs.items() if seq in wanted})
        return {seq: found[seq] for seq in seqs if seq in found}

    async def some(self, head: JobRow, seqs: Sequence[int], portion: ByteBudget) -> dict[int, Item]:
        """The first of these items, in their order, as many as the portion takes."""
        taken: dict[int, Item] = {}
        for at in range(0, len(seqs), _AT_ONCE):
            found = await self.items(head, seqs[at : at + _AT_ONCE])
            taken.update({item.seq: item for item in portion.take(found.values(), item_bytes)})
            if portion.full:
                break
        return taken

    async def fresh(self, head: JobRow, most: int, portion: ByteBudget) -> list[Item]:
        """The next items that nobody was handed in this generation, in no more chunks than a commit may touch, and as
        many as the portion takes."""
        if most <= 0 or head.fresh_left <= 0:
            return []
        if head.again:
            seqs = await self._selected_next(head, most)
            return list((await self.some(head, seqs, portion)).values())
        taken: list[Item] = []
        chunks: set[int] = set()
        async for items in self._inputs_from(head, chunk_of(head.fresh_seq + 1)):
            fresh = sorted(seq for seq in items if seq > head.fresh_seq)
            for item in portion.take(map(items.__getitem__, fresh), item_bytes):
                chunks.add(chunk_of(item.seq))
                if len(chunks) > MAX_CHUNKS or len(taken) == most:
                    return taken
                taken.append(item)
            if portion.full or len(taken) == most:
                return taken
        return taken

    async def selected(self, head: JobRow, first: int, last: int) -> set[int]:
        """Which items of these chunks this generation runs again; of the first one all that were ever loaded."""
        seqs: set[int] = set()
        if head.again:
            async for row in self._again_rows(head, first, last, None):
                seqs.update(decode_body(_seqs_decoder, row))
        return seqs

    async def chunks(self, head: JobRow, first: int, last: int) -> AsyncGenerator[ItemChunk]:
        """Items and ends of all chunks from the first to the last that have any."""
        for block in range(block_of(first), block_of(last) + 1):
            low, high = chunks_of_block(block)
            partition = items_partition(head.number, block)
            rows: list[Row] = []
            async for row in self._table.query(partition, f"{max(first, low):010d}#", f"{min(last, high):010d}#~"):
                if rows and rows[0].key.s[:10] != row.key.s[:10]:
                    yield await self._read(head, rows)
                    rows = []
                rows.append(row)
            if rows:
                yield await self._read(head, rows)

    async def ends_under(self, head: JobRow, chunk: int, fence: int) -> list[EndedItem]:
        """What has ended in a chunk in this generation under that fence."""
        partition = items_partition(head.number, block_of(chunk))
        begins = f"{chunk:010d}#e#{head.generation:05d}#{fence:015d}#"
        rows = [row async for row in self._table.query(partition, begins, begins + "~")]
        return [end for row in rows for end in decode_body(_end_decoder, row).ends]

    async def _chunk_inputs(self, head: JobRow, chunk: int) -> dict[int, Item]:
        known = self._inputs.get((head.number, chunk))
        if known is None:
            async with self._gate:
                partition = items_partition(head.number, block_of(chunk))
                rows = [row async for row in self._table.query(partition, f"{chunk:010d}#i", f"{chunk:010d}#i~")]
            known = _Inputs(await self._inputs_in(head, rows), sum(len(row.body) for row in rows))
            self._remember(head, chunk, known)
        return known.items

    def _at_once(self, number: int) -> int:
        """How many chunks of the job may be read at once; one, until the size of one is known."""
        largest = self._largest.get(number)
        return 1 if largest is None else max(1, min(_AT_ONCE, _REMEMBERED_BYTES // max(1, largest)))

    async def _inputs_from(self, head: JobRow, first: int) -> AsyncIterator[dict[int, Item]]:
        """Inputs chunk by chunk, because a claim needs few of them; what was refused at load may leave long gaps."""
        chunk, last = first, chunk_of(max(1, head.last_seq))
        while chunk <= last:
            items = await self._chunk_inputs(head, chunk)
            if items:
                yield items
                chunk += 1
                continue
            _, high = chunks_of_block(block_of(chunk))
            partition = items_partition(head.number, block_of(chunk))
            rows = [row async for row in self._table.query(partition, f"{chunk:010d}#~", f"{high:010d}#~", limit=1)]
            chunk = read_item_key(rows[0].key.s).chunk if rows else high + 1

    async def _selected_next(self, head: JobRow, most: int) -> list[int]:
        first = chunk_of(head.fresh_seq + 1)
        seqs: list[int] = []
        chunks = 0
        async for row in self._again_rows(head, first, chunk_of(head.last_seq), _AGAIN_ROWS):
            more = [seq for seq in decode_body(_seqs_decoder, row) if seq > head.fresh_seq]
            chunks += bool(more)
            if chunks > MAX_CHUNKS:
                break
            seqs += more
            if len(seqs) >= most:
                break
        return seqs[:most]

    async def _again_rows(self, head: JobRow, first: int, last: int, limit: int | None) -> AsyncIterator[Row]:
        for block in range(block_of(first), block_of(last) + 1):
            low, high = chunks_of_block(block)
            begin, end = (
                retry_key(head.number, chunk, head.generation, head.again).s
                for chunk in (max(first, low), min(last, high))
            )
            async for row in self._table.query(retry_partition(head.number, block), begin, end, limit=limit):
                yield row

    async def _read(self, head: JobRow, rows: list[Row]) -> ItemChunk:
        ends: dict[int, list[ItemEnd]] = {}
        inputs = []
        for row in rows:
            key = read_item_key(row.key.s)
            if key.kind == "i":
                inputs.append(row)
                continue
            ended = decode_body(_end_decoder, row)
            for end in ended.ends:
                past = EarlierEnd(generation=key.first, ended_at=ended.ended_at, end=end)
                ends.setdefault(end.seq, []).append(ItemEnd(int(key.second), past))
        return ItemChunk(await self._inputs_in(head, inputs), ends)

    async def _inputs_in(self, head: JobRow, rows: list[Row]) -> dict[int, Item]:
        """What committed batches brought; what others left behind is no part of the job."""
        items: dict[int, Item] = {}
        for row in rows:
            key = read_item_key(row.key.s)
            if key.first < head.batches and await self.mark(head.number, key.first) == key.second:
                items.update({entry[0]: Item(*entry) for entry in decode_body(_input_decoder, row)})
        return items

    def _remember(self, head: JobRow, chunk: int, inputs: _Inputs) -> None:
        self._largest[head.number] = max(inputs.size, self._largest.pop(head.number, 0))
        while len(self._largest) > _REMEMBERED_MARKS:
            self._largest.popitem(last=False)
        if head.state is JobState.LOADING and chunk >= chunk_of(head.last_seq + 1):
            return  # the next batch may bring more
        self._inputs[head.number, chunk] = inputs
        while len(self._inputs) > _REMEMBERED or (len(self._inputs) > 1 and self._bytes() > _REMEMBERED_BYTES):
            self._inputs.popitem(last=False)

    def _bytes(self) -> int:
        return sum(inputs.size for inputs in self._inputs.values())
